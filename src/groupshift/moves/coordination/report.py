"""What people read of a run, from the journal and its evidence.

Sentences are made where the run ends (`closing`), where a gate asks (`pause`, `shown`), and for the report
(`report_sections`, `page`). They tell what is journaled, never what is observed now: a report of a run is
the same whenever somebody asks for it. The one thing that is read besides is the last snapshot, for what a
rollback left behind in Kafka (`left_behind`); a snapshot that cannot be read is left out, and
`verify-evidence` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from groupshift.domain.evidence import Moment, Row, Store
from groupshift.domain.foreign_text_quoting import shell
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import PhaseName, Until
from groupshift.domain.run import Findings, Json, Plan, RunState, Step, findings_from
from groupshift.engine.group_move import JUDGED_HEAD, group_sections
from groupshift.engine.move import Run
from groupshift.engine.questions_and_approvers import Section
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.errors import Broken, GroupshiftError
from groupshift.moves.coordination.facts import CoordinationPorts
from groupshift.moves.coordination.plan_and_rollback import (
    DELETE_MODE_NODE,
    REHEARSE,
    SET_MODE,
    TOGGLE_GATE,
    WATCH,
)
from groupshift.moves.coordination.repair_leftover_offsets import Leftover, leftover
from groupshift.ports.runs import EventKind
from groupshift.report import group_page
from groupshift.report.group_history import group_history_of
from groupshift.report.kept_evidence import Kept
from groupshift.report.run_history import History
from groupshift.report.run_page import PageParts, sections_of

_NOW = {
    Until.CANARY: "the canary runs migration-aware consumers, and ZooKeeper still coordinates the group",
    Until.ROLL: "all members are migration-aware consumers, and ZooKeeper still coordinates the group",
    Until.TOGGLE: "Kafka coordinates the group, its members still on MigratingConsumer",
    Until.RETIRE: "the group runs plain Kafka consumers now",
}
"""Where a run has led to, as a clause."""


def closing(run: Run[CoordinationPorts], state: RunState) -> tuple[str, str]:
    """Return where the run has led to, as a clause, and the next command where it is not the usual one."""
    if state is RunState.MOVED:
        acts = [each.args["to"] for each in run.there.steps if each.kind == SET_MODE]
        if acts[-1:] == [Mode.ZOOKEEPER]:
            return "set back to zookeeper mode", ""
        return f"{_NOW[Until(run.there.about['until'])]}; the rollback is open{_kept(run)}", ""
    if state is RunState.FINALISED:
        return "the group is coordinated by Kafka alone; the mode node is gone", ""
    if state is not RunState.ROLLED_BACK:
        return "", ""
    begun = run.rollbacks()
    to = str(begun[-1].body["to"]).replace("_", " ") if begun else "start"
    proven = ", proven equal" if any(each.kind == "compare" for each in run.plan.steps) else ""
    said, stays = f"rolled back to {to}{proven}", left_behind(run)
    return (f"{said}. {stays.sentence}", stays.command) if stays else (said, "")


def _kept(run: Run[CoordinationPorts]) -> str:
    """Why the mode node stays that somebody wanted to remove; empty where nobody did."""
    records = run.records
    for step in run.there.steps:
        gate = run.there.gate_of(step)
        if step.kind == DELETE_MODE_NODE and step.key in records and gate is not None:
            answered = records.get(gate.key)
            declined = answered is None or bool(answered.left_out)
            return "" if declined else f"; the mode node is kept: {records[step.key].left_out}"
    return ""


def left_behind(run: Run[CoordinationPorts]) -> Leftover | None:
    """Return what a rollback to old members left in Kafka, by its last snapshot; None where that is nothing,
    or what was there before. Evidence that cannot be read is another sentence's business."""
    records = run.records
    taken = [
        records[each.key].result
        for plan in (run.there, run.plan)
        for each in plan.steps
        if each.kind == "snapshot" and "stored" in getattr(records.get(each.key), "result", ())
    ]
    if not run.going_back or not taken:
        return None
    try:
        first, last = (_tables(run, each) for each in (taken[0], taken[-1]))
    except GroupshiftError:
        return None
    kafka = _offsets(last, Store.KAFKA)
    kinds = {str(row["kind"]) for row in last["members"]}
    if kinds - {MemberKind.ZOOKEEPER.value} or kafka == _offsets(first, Store.KAFKA):
        return None
    return leftover(run.record.target.name, kafka, _offsets(last, Store.ZOOKEEPER))


def _tables(run: Run[CoordinationPorts], taken: Json) -> Mapping[str, Sequence[Row]]:
    """The tables of a snapshot. Raises `Broken` where its manifest is not the one that was journaled."""
    (attempt, named), evidence = taken["stored"], run.ports.evidence
    moment = Moment(named)
    manifest = evidence.manifest(run.name, attempt, moment)
    if manifest is not None and manifest.digest != taken["manifest_sha256"]:
        raise Broken(f"the manifest of {taken['folder']} was altered after it was journaled")
    return evidence.read(run.name, attempt, moment)


def _offsets(tables: Mapping[str, Sequence[Row]], store: Store) -> dict[TopicPartition, int]:
    """The committed offsets of a snapshot's tables in one store, by partition; those below 0 are none."""
    return {
        TopicPartition(str(row["topic"]), int(row["partition"] or 0)): int(row["offset"] or 0)
        for row in tables["offsets"]
        if row["store"] == store.value and row["offset"] is not None and int(row["offset"]) >= 0
    }


def pause(_plan: Plan, ahead: Sequence[Step]) -> str:
    """Return how long reading is expected to pause in these steps."""
    places = [slot for each in ahead if each.kind == REPLACE_MEMBERS for slot in each.args["slots"]]
    toggles = [each for each in ahead if each.kind == SET_MODE]
    owner = "in Kafka" if any(each.phase == PhaseName.TOGGLE for each in toggles) else "again"
    toggled = f"one rebalance of the whole group: all partitions rest until each has its owner {owner}."
    if toggles:
        return f"{toggled} Besides, {_replaced(places)}" if places else toggled
    if places:
        return _replaced(places)
    return "no member is replaced, so reading does not pause before you are asked again."


def _replaced(places: Sequence[str]) -> str:
    """What the replacement of members at these places means for readers; a place may be there more than
    once."""
    many = len(set(places))
    members = "1 member is" if many == 1 else f"{many} members are"
    times = f" ({len(places)} replacements in all)" if len(places) != many else ""
    return (
        f"{members} replaced{times}, and each time the group rebalances: partitions rest until the new "
        "member has joined. The report measures the longest time without an owner."
    )


def shown(run: Run[CoordinationPorts], gate: Step) -> tuple[Section, ...]:
    """Return what a gate shows in full: how large the canary's share is, what its watch measured, and, of the
    toggle, the rehearsal."""
    about, sections_shown = run.there.about["canary"], []
    if about["watch_s"]:
        said = (
            f"The canary held {about['held']} of {about['partitions']} partitions when this was planned; it "
            f"is watched for {about['watch_s']} s."
        )
        sections_shown.append(Section(title="The canary", sentences=(said,)))
    parts = {"What the canary measured": WATCH}
    if gate.name == TOGGLE_GATE:
        parts["Rehearsal of the rollback"] = REHEARSE
    for title, kind in parts.items():
        rows = [
            (each.rule, each.verdict.value, each.reason) for _, said in _looks(run, kind) for each in said
        ]
        if rows:
            sections_shown.append(Section(title=title, head=JUDGED_HEAD[1:], rows=tuple(rows)))
    return tuple(sections_shown)


def _looks(run: Run[CoordinationPorts], kind: str) -> Iterator[tuple[Step, Findings]]:
    """The findings of the last look at each step of a kind that had any."""
    for step in run.there.steps:
        bodies = [e.body for e in run.events(step.key) if e.kind is EventKind.CHECKED and e.body["findings"]]
        if step.kind == kind and bodies:
            yield step, findings_from(bodies[-1]["findings"])


def report_sections(run: Run[CoordinationPorts]) -> tuple[Section, ...]:
    """Return the move's own parts: what it was to do, and what each judge said."""
    about: Json = run.there.about
    said = f"Group {about['group']} moves until {about['until']}, by the driver {about['driver']}."
    more = [
        (step.key, each.rule, each.verdict.value, each.reason)
        for kind in (WATCH, REHEARSE)
        for step, findings in _looks(run, kind)
        for each in findings
    ]
    return group_sections(run, (said, *(str(each) for each in about["notes"])), more)


def page(run: Run[CoordinationPorts], history: History, kept: Kept | None) -> PageParts:
    """Return the parts of the page of a run."""
    group = group_history_of(history, kept)
    return PageParts(
        title=f"Group {group.group}",
        sentence=group_page.sentence(group, _NOW[Until(history.about["until"])]),
        now=group_page.to_do(group, f"coordination VERB --group {shell(group.group)}"),
        first=group_page.sections_of_group(group, group_page.mode_now(group)),
        own=sections_of(report_sections(run)[:1]),
        compares=False,
    )
