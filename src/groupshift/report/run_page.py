"""The page of one run, of any move: its headline, the move's own parts, what every run has in common.

The page of a run that is open is made whenever somebody asks for it. That of a run that is over is made right
before it is sealed with its evidence; `Closed` is the journal as it will be then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from markupsafe import Markup

from groupshift.domain.run import APPROVE, JUDGE, Json, RunState, Step
from groupshift.domain.verdict import Verdict
from groupshift.engine import questions_and_approvers as questions
from groupshift.engine.move import Move, Run, Tools
from groupshift.engine.questions_and_approvers import undo_words, words_of
from groupshift.engine.status import StepStatus
from groupshift.ports.clock import Clock
from groupshift.ports.runs import Event, EventKind, RunRecord, Runs
from groupshift.report.kept_evidence import Kept
from groupshift.report.page import (
    SIGNS,
    Alarm,
    Cell,
    Details,
    Legend,
    Page,
    Section,
    Table,
    clock,
    code,
    duration,
    glance,
    moment_utc,
    name,
    render,
    section,
    spoken,
)
from groupshift.report.pictures import Bar, Dot, Lane, lanes
from groupshift.report.run_history import (
    OVER,
    QUIET,
    Comparison,
    History,
    NodeInterval,
    comparisons_of,
    decisions,
    event_text,
    headline_of,
    history_of,
    run_to_do,
    wrong_words,
)
from groupshift.report.svg_and_time_axis import axis_of, colour

_SHOWN = 200
_NOT_UNDONE = frozenset({APPROVE, JUDGE})
"""Kinds of steps that have nothing to undo."""
P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """What a move brings to the page of its run. ``sentence`` says what became of it, ``now`` what to do
    (words, command or empty). ``first`` stand before the comparisons and the steps, ``own`` after them;
    ``compares`` is False for a move whose own parts show its comparisons. ``wrong`` says what it means that a
    step is not as it has to be.

    A move with parts of its own has a method ``page``, which makes them from the run, its `History` and what
    is kept of it (None: nothing is)."""

    title: str
    sentence: str
    now: Sequence[tuple[str, str]]
    first: Sequence[Section] = ()
    own: Sequence[Section] = ()
    compares: bool = True
    wrong: Callable[[Step], str] = wrong_words


def document_of(run: Run[P], kept: Kept | None) -> str:
    """Return the HTML document of a run, which needs nothing besides itself.

    First come the parts of the move, then what every run has: comparisons, steps, decisions, evidence and the
    journal. ``kept`` is its evidence (None: nothing is kept).

    Raises:
        Rejected: the run is not in the journal, or its plan is of another version.
    """
    history = history_of(run)
    record, planned = history.record, history.record.created_at_ms
    page_of_move: Callable[[Run[P], History, Kept | None], PageParts] = getattr(run.move, "page", _usual)
    parts = page_of_move(run, history, kept)
    requested = f", asked for by {record.requester}" if record.requester else ""
    where = f"cluster {record.target.cluster}" if record.target.cluster else str(record.target)
    turned = max((each.at_ms for each in history.there), default=planned)
    page = Page(
        title=parts.title,
        top=headline_of(history, parts.sentence, parts.now),
        lead=f"Run {record.run}, planned {moment_utc(planned)}{requested}: {where}",
        alarms=[Alarm(lead="Evidence:", text=each) for each in (kept.troubles if kept else ())],
        sections=[
            *parts.first,
            _comparisons(comparisons_of(history)) if parts.compares else None,
            *parts.own,
            _steps("Steps there", history.there, planned),
            _steps("Steps back", history.back, turned) if history.back else None,
            _decided(history, parts.wrong),
            _approved(history),
            _evidence(record.plan_hash, kept),
            _journal(history),
        ],
    )
    return render(page)


def _usual(run: Run[P], history: History, _kept: Kept | None) -> PageParts:
    """The parts of a run whose move has no page of its own: they show its `Move.report`."""
    status, step = history.status, history.next
    reason = (status.reason or history.trouble or history.waiting).removesuffix(".")
    at = f" at step {step.step.key}" if step and history.state.is_open else ""
    at += f": {reason}" if reason else ""
    return PageParts(
        title=f"{run.move.name} of {history.record.target}",
        sentence=f"The run of {history.record.target} is {str(history.state).replace('_', ' ')}{at}.",
        now=(("Next:", status.following),),
        own=sections_of(run.move.report(run)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWords:
    """What a move of a whole cluster has to say of its run; `cluster_page` puts it together.

    ``what`` goes to ``aim`` and came as far as ``progress`` (a clause); ``over`` is what became of it when it
    is over, ``proven`` what was read back besides comparisons. ``again`` is the command that plans it again,
    ``closed`` why there is only the way forward (empty: both ways are open), ``halt`` what nobody may do
    before it is done, ``after`` what to do when it is over. ``figures`` stand at a glance; ``lanes`` is the
    title of the picture of ``intervals``: what each ``node`` ran."""

    title: str
    what: str
    aim: str
    progress: str
    over: str
    again: str
    after: Sequence[tuple[str, str]]
    figures: Sequence[tuple[str, Cell]]
    lanes: str
    node: str
    intervals: Sequence[NodeInterval]
    proven: str = ""
    closed: str = ""
    halt: str = ""
    own: Sequence[Section] = ()
    wrong: Callable[[Step], str] = wrong_words


def cluster_page(history: History, words: ClusterWords) -> PageParts:
    """Return the parts of the page of a run of a whole cluster: figures, and what each node ran over time."""
    comparisons = comparisons_of(history)
    equal = [each for each in comparisons if each.verdict is Verdict.PASS]
    groups = max((each.groups or 0 for each in comparisons), default=0)
    if history.state not in OVER:
        sentence = _on_the_way(history, words)
    elif history.accepted:
        wrong = (
            f"{words.wrong(each.step)}: {'; '.join(each.reasons)} (accepted by {each.who})"
            for each in history.accepted
        )
        sentence = f"{words.over}. But not all is as it has to be: {'; '.join(wrong)}."
    elif equal or words.proven:
        most = max((each.groups or 0 for each in equal), default=0)
        proven = f"{len(equal)} comparisons of {most:,} groups found nothing lost and no offset changed"
        uncompared = dict.fromkeys(reason for each in equal for reason in each.reasons)
        if (count := len({reason.partition(":")[0] for reason in uncompared})) > 1:
            uncompared = {f"{count} fields were not compared (they are named below)": None}
        sentence = f"{words.over}. {'; '.join([words.proven + proven, *uncompared])}."
    else:
        sentence = f"{words.over}. Groups were not compared."
    figures = glance(
        *words.figures,
        ("groups", groups or None),
        ("comparisons equal", f"{len(equal)} of {len(comparisons)}"),
        ("steps read back", f"{sum(each.done for each in history.steps)} of {len(history.steps)}"),
    )
    shades = {ran: colour(at) for at, ran in enumerate(dict.fromkeys(each.ran for each in words.intervals))}
    note = (
        f"A bar is what the {words.node} ran, by the journal; a dashed frame is the time from the step "
        "before a change until it was back and in sync. A sign below is a comparison of all groups."
    )
    picture = node_lanes(history, words.lanes, words.node, words.intervals, shades)
    return PageParts(
        title=words.title,
        sentence=sentence,
        now=run_to_do(history, words.after, words.again, closed=words.closed, halt=words.halt),
        first=[figures, section(words.lanes, note, Legend(shades), picture)],
        own=words.own,
        wrong=words.wrong,
    )


def _on_the_way(history: History, words: ClusterWords) -> str:
    """The sentence of a run of a cluster that is not over, or was never begun."""
    state = history.state
    if state in {RunState.REJECTED, RunState.PREVIEW}:
        how = "was only planned" if state is RunState.PREVIEW else "was ended before anything was changed"
        reason = history.status.reason.removesuffix(".")
        return f"The way of {words.what} to {words.aim} {how}{f': {reason}' if reason else ''}."
    step, where = history.next, "back" if state.goes_back else f"to {words.aim}"
    at = f" at step {step.step.key}" if step else ""
    why = f" It waits: {history.waiting}." if history.waiting else ""
    why = f" It stopped there: {history.trouble}." if history.trouble else why
    return f"The way of {words.what} {where} stands{at}; {words.progress}.{why}"


def sections_of(parts: Sequence[questions.Section]) -> list[Section]:
    """Return sections of the engine, sentences and rows below their heads, as those of a page."""
    return [
        section(each.title, *each.sentences, Table(heads=each.head, rows=each.rows) if each.rows else None)
        for each in parts
    ]


def _journal(history: History) -> Section:
    """Every event but single looks, in order."""
    rows = [
        (e.seq, moment_utc(e.at_ms), e.kind.value.replace("_", " "), e.step or None, event_text(e))
        for e in history.events
        if e.kind not in QUIET
    ]
    listed = Table(heads=("no.", "when", "what", "step", "said"), rows=rows, numeric={"no."})
    return section("Journal", Details(f"All {len(history.events)} events of the journal", [listed]))


class Closed:
    """A journal in which one run has come to an end that is not written yet: what its page is made from right
    before it is sealed.

    ``closing`` is what will be journaled of the end, ``at_ms`` when (epoch ms). All else is the journal's."""

    def __init__(self, runs: Runs, run: str, closing: Json, at_ms: int) -> None:
        self._runs, self._run, self._closing, self._at_ms = runs, run, closing, at_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    def find(self, run: str) -> RunRecord:
        """Return a run as `Runs` does; the closed one in its last state."""
        record = self._runs.find(run)
        return replace(record, state=RunState(self._closing["state"])) if run == self._run else record

    def events(self, run: str, *, after: int = 0) -> tuple[Event, ...]:
        """Return events as `Runs` does; those of the closed run end with its end."""
        if run != self._run:
            return self._runs.events(run, after=after)
        events_so_far = self._runs.events(run)
        seq = events_so_far[-1].seq + 1 if events_so_far else 1
        closed = Event(seq=seq, at_ms=self._at_ms, token=0, kind=EventKind.CLOSED, body=self._closing)
        return tuple(each for each in (*events_so_far, closed) if each.seq > after)


def closed_reader(move: Move[P], runs: Runs, clock: Clock, run: str, closing: Json | None = None) -> Run[P]:
    """Return a run for reading, without ports. Where ``closing`` says how it ends, it is read as it will have
    ended, unless that end is journaled already: then the run is sealed once more."""
    if closing:
        ends = [each for each in runs.events(run) if each.kind is EventKind.CLOSED]
        if not ends or dict(ends[-1].body) != dict(closing) or runs.find(run).state.is_open:
            closed: Any = Closed(runs, run, closing, clock.now_ms())
            runs = closed
    ports: Any = None
    return Run.reader(move, Tools(runs=runs, clock=clock), ports, run)


def _comparisons(compared: Sequence[Comparison]) -> Section:
    """Each comparison with what it found, and what it did not compare; those that are not taken yet, too."""
    if not compared:
        return section("Comparisons", "The plan compares nothing.")
    note = (
        "Sets of groups, types, offsets, leader epochs and metadata of commits; the whole outcome is in the "
        "folder."
    )
    rows: list[list[Cell]] = []
    for each in compared:
        verdict = spoken(each.verdict) if each.verdict else "not taken yet"
        differs = "; ".join(each.reasons) or ("no problem and no difference" if each.verdict else None)
        step, folder = each.made.step, str(each.made.result.get("folder", "")).rpartition("/")[2]
        of = (step.subject, step.args["base"], str(step.args["move"]).replace("_", " "), verdict)
        kept_in = code(folder) if folder else None
        rows.append([*of, each.groups, differs, kept_in, moment_utc(each.made.at_ms or None)])
    heads = ("snapshot", "with", "rules of", "result", "groups", "what was found", "folder", "when")
    caption = "Snapshots of all groups, held against each other"
    listed = Table(heads=heads, rows=rows, numeric={"groups"}, caption=caption)
    return section("Comparisons", note, listed)


def _steps(title: str, steps: Sequence[StepStatus], since_ms: int) -> Section:
    """The steps of a plan; each took the time since the one before it, the first since then (epoch ms)."""
    rows: list[list[Cell]] = []
    for each in steps:
        step, at_ms = each.step, each.at_ms
        back = None if step.kind in _NOT_UNDONE else name(undo_words(step))
        took = duration(max(0, at_ms - since_ms)) if at_ms else None
        since_ms = at_ms or since_ms
        said = (code(step.key), name(words_of(step)), name(step.proof), back)
        rows.append([*said, moment_utc(at_ms or None), took, each.now])
    heads = ("step", "what is done", "proof before the next", "rollback", "when", "took", "now")
    caption = "In order; times are those of the journal"
    return section(title, Table(heads=heads, rows=rows, numeric={"took"}, caption=caption))


def _decided(history: History, wrong: Callable[[Step], str]) -> Section:
    """Who said what when, and what nobody has answered yet."""
    rows = [(*decided, moment_utc(at_ms)) for *decided, at_ms in decisions(history, wrong)]
    table = Table(heads=("what", "answer", "who", "when"), rows=rows)
    return section("Who decided", table if rows else "Nobody was asked yet.")


def _approved(history: History) -> Section:
    """What the first approval was given for, by name: groups, brokers, members; the plan and the evidence
    aside."""
    shown = [e.body["parts"] for e in history.events if e.kind is EventKind.GATE_SHOWN and "parts" in e.body]
    things = sorted(
        (f"{aspect} {item}", str(value))
        for aspect, items in (shown[0] if shown else {}).items()
        if aspect not in {"plan", "evidence"}
        for item, value in items.items()
    )
    summary = f"{len(things)} things were met when it was planned; a change voids the approval"
    rest = f"The first {_SHOWN:,} of {len(things):,}; the journal has all." if things[_SHOWN:] else ""
    listed = Table(heads=("what was met", "as"), rows=things[:_SHOWN], rest=rest)
    return section("What was approved", Details(summary, [listed]))


def _evidence(plan_hash: str, kept: Kept | None) -> Section:
    """What is known of the evidence, and every file with its hash."""
    hashes = [(each.path, each.bytes, code(each.sha256, "hash")) for each in (kept.shown if kept else ())]
    files = Table(heads=("file", "bytes", "SHA-256"), rows=hashes, numeric={"bytes"})
    listed = Details(f"{len(hashes)} files with their SHA-256", [files]) if hashes else None
    rows = [("plan", code(plan_hash, "hash")), *(kept.about if kept else ())]
    return section("Evidence", Table(heads=["what", "value"], rows=rows), listed)


def node_lanes(
    history: History, title: str, kind: str, intervals: Sequence[NodeInterval], shades: Mapping[str, str]
) -> Markup:
    """Return one lane for each node (a ``kind`` with its id) with what it ran when, and one with a sign for
    each comparison that was made; ``shades`` are the colours by what a node ran."""
    of: dict[str, list[Bar]] = {}
    for each in intervals:
        name = f"{kind} {each.node}"
        when = f"{clock(each.from_ms)} to {clock(each.to_ms)} UTC, {duration(each.to_ms - each.from_ms)}"
        words = f"{name} {'changes to' if each.changing else 'runs with'} {each.ran}: {when}"
        paint = {"look": "waiting"} if each.changing else {"fill": shades[each.ran]}
        of.setdefault(name, []).append(Bar(from_ms=each.from_ms, to_ms=each.to_ms, title=words, **paint))
    signs = []
    for one in comparisons_of(history):
        if one.verdict is not None:
            step, at_ms, verdict = one.made.step, one.made.at_ms, one.verdict
            words = f"{step.subject} with {step.args['base']}: {verdict}, {clock(at_ms)}"
            signs.append(Dot(at_ms=at_ms, sign=SIGNS[verdict], title=words, look=f"dot {verdict}"))
    shown = [*(Lane(name=name, over=bars) for name, bars in of.items()), Lane(name="compared", dots=signs)]
    said = "; ".join(bar.title for bars in of.values() for bar in bars)
    times = [each.at_ms for each in history.steps if each.at_ms]
    return lanes(title, said, shown, axis_of([history.record.created_at_ms, *times]), name="nodes")
