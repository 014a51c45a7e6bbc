"""The report of a run that changes a cluster: what those of all moves have in common.

`RunData` is all that this asks of a run; a move adds its headline, its facts and its pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from groupshift.domain.seal import StoredFile
from groupshift.domain.verdict import Verdict
from groupshift.report.page import (
    SIGNS,
    Cell,
    Columns,
    Details,
    Headline,
    Page,
    Section,
    Table,
    clock,
    code,
    duration,
    moment_utc,
    name,
    section,
    spoken,
    table,
)
from groupshift.report.pictures import Bar, Dot, Lane, lanes
from groupshift.report.svg import axis_of

_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """A step: ``back`` undoes it, ``at_ms`` is 0 while nothing of it was journaled, ``took_ms`` since the one
    before it, ``state`` how far it is."""

    key: str
    does: str
    proof: str
    back: str
    at_ms: int
    took_ms: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One snapshot compared with an earlier one: ``verdict`` is None while it is not taken, ``reasons`` are
    the first differences, ``groups`` how many it holds, ``folder`` the name of its folder, ``accepted_by``
    who let the run go on in spite of them (empty: nobody)."""

    subject: str
    base: str
    rules: str
    verdict: Verdict | None
    reasons: tuple[str, ...]
    groups: int | None
    at_ms: int
    folder: str
    accepted_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An approval: of what, what was said (None: nobody yet), by whom, when (epoch ms)."""

    subject: str
    approved: bool | None
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInterval:
    """What a node ran (a release, a count) from and to then (epoch ms); ``changing`` while it was being
    replaced or restarted, to run that."""

    node: str
    ran: str
    from_ms: int
    to_ms: int
    changing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """``there`` are the steps of the plan, ``back`` those that undo it; ``met`` is what was approved,
    ``files`` are those of the run's evidence."""

    run: str
    cluster_id: str
    created_at_ms: int
    plan_hash: str
    there: Sequence[StepLine]
    back: Sequence[StepLine]
    compared: Sequence[Comparison]
    decisions: Sequence[Decision]
    met: Mapping[str, str]
    files: Sequence[StoredFile] = ()


def run_page(
    title: str, top: Headline, run: RunData, first: Iterable[Section], own: Iterable[Section]
) -> Page:
    """The page: ``first`` are the move's sections before the comparisons, ``own`` those after them."""
    return Page(
        title=title,
        top=top,
        lead=f"Run {run.run}, planned {moment_utc(run.created_at_ms)}: cluster {run.cluster_id}",
        sections=[
            *first,
            _comparisons(run.compared),
            *own,
            _steps("Steps there", run.there),
            _steps("Steps back", run.back) if run.back else None,
            _decided(run.decisions),
            _approved_for(run.met),
            evidence(run.files, [("plan", code(run.plan_hash, "hash"))]),
        ],
    )


def _comparisons(compared: Sequence[Comparison]) -> Section:
    if not compared:
        return section("Comparisons", "The plan compares nothing.")
    note = (
        "Sets of groups, types, offsets, leader epochs and metadata of commits; the whole outcome is in the "
        "folder."
    )
    listed = table(
        compared,
        {
            "snapshot": "subject",
            "with": "base",
            "rules of": lambda each: each.rules.replace("_", " "),
            "result": lambda each: spoken(each.verdict) if each.verdict else "not taken yet",
            "groups": "groups",
            "what differs": _differences,
            "folder": lambda each: code(each.folder) if each.folder else None,
            "when": lambda each: moment_utc(each.at_ms or None),
        },
        numeric={"groups"},
        caption="Snapshots of all groups, held against each other",
    )
    return section("Comparisons", note, listed)


def _differences(each: Comparison) -> str | None:
    return "; ".join(each.reasons) or ("no problem and no difference" if each.verdict else None)


def _steps(title: str, steps: Sequence[StepLine]) -> Section:
    listed = table(
        steps,
        {
            "step": lambda each: code(each.key),
            "what is done": lambda each: name(each.does),
            "proof before the next": lambda each: name(each.proof),
            "way back": lambda each: name(each.back),
            "when": lambda each: moment_utc(each.at_ms or None),
            "took": lambda each: duration(each.took_ms) if each.at_ms else None,
            "now": "state",
        },
        numeric={"took"},
        caption="In order; times are those of the journal",
    )
    return section(title, listed)


def _decided(decisions: Sequence[Decision]) -> Section:
    if not decisions:
        return section("Who decided", "Nobody was asked yet.")
    answers = {True: "approved", False: "refused", None: "nobody has answered"}
    listed = table(
        decisions,
        {
            "what": "subject",
            "answer": lambda each: answers[each.approved],
            "who": lambda each: each.who or None,
            "when": lambda each: moment_utc(each.at_ms),
        },
    )
    return section("Who decided", listed)


def _approved_for(met: Mapping[str, str]) -> Section:
    """What was met when the run was planned."""
    summary = f"{len(met)} things were met when it was planned; a change voids the approval"
    columns: Columns[tuple[str, str]] = {"what was met": lambda one: one[0], "as": lambda one: one[1]}
    listed = table(sorted(met.items()), columns, most=_SHOWN, whole="; the journal has all")
    return section("What was approved", Details(summary, [listed]))


def evidence(files: Sequence[StoredFile], about: Iterable[tuple[str, Cell]], caption: str = "") -> Section:
    """What is known of the evidence, and every file with its hash."""
    listed = table(
        files,
        {
            "file": "path",
            "bytes": "bytes",
            "SHA-256": lambda file: code(file.sha256, "hash"),
        },
        numeric={"bytes"},
    )
    everything = Details(f"{len(files)} files with their SHA-256", [listed]) if files else None
    return section("Evidence", Table(heads=["what", "value"], rows=list(about), caption=caption), everything)


def node_lanes(
    run: RunData, title: str, kind: str, intervals: Sequence[NodeInterval], shades: Mapping[str, str]
) -> Markup:
    """One lane for each node (a ``kind`` with its id) with what it ran when, and one for the comparisons;
    ``shades`` are the colours by what a node ran."""
    of: dict[str, list[Bar]] = {}
    for each in intervals:
        name = f"{kind} {each.node}"
        when = f"{clock(each.from_ms)} to {clock(each.to_ms)} UTC, {duration(each.to_ms - each.from_ms)}"
        bar = Bar(
            from_ms=each.from_ms,
            to_ms=each.to_ms,
            title=f"{name} {'changes to' if each.changing else 'runs with'} {each.ran}: {when}",
            fill="" if each.changing else shades[each.ran],
            look="waiting" if each.changing else "",
        )
        of.setdefault(name, []).append(bar)
    shown = [Lane(name=name, over=bars) for name, bars in of.items()]
    shown.append(Lane(name="compared", dots=[*_marks(run.compared)]))
    said = "; ".join(bar.title for bars in of.values() for bar in bars)
    times = [each.at_ms for each in (*run.there, *run.back) if each.at_ms]
    return lanes(title, said, shown, axis_of([run.created_at_ms, *times]), name="nodes")


def _marks(compared: Iterable[Comparison]) -> Iterator[Dot]:
    """A sign at each comparison that was made."""
    for each in compared:
        if each.verdict is not None:
            title = f"{each.subject} with {each.base}: {each.verdict}, {clock(each.at_ms)}"
            yield Dot(at_ms=each.at_ms, sign=SIGNS[each.verdict], title=title, look=f"dot {each.verdict}")
