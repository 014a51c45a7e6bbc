"""What a run of coordination measures: leftovers, offsets without a record, ledgers, forged evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from groupshift.domain.log_gaps import Gap, GapRead
from groupshift.domain.modes import MemberKind
from groupshift.domain.ownership_history import OwnershipInterval
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Until
from groupshift.domain.run import RunState, SparkJob, findings_from, make_plan, plan_from
from groupshift.domain.verdict import Verdict
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.questions_and_approvers import question_text
from groupshift.engine.roll_back import take_back
from groupshift.errors import Fenced, Rejected
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift_testing.world import World
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.simulated_runs import At

P0, LEFT = TopicPartition("orders", 0), TopicPartition("payments-old", 0)
BEHIND = 40
COMMITTED = 90
"""What the world's members have committed of each partition; they were delivered 100."""


@dataclass
class Measuring(CoordinationProcesses):
    """Processes whose ledgers and log are other ones."""

    ledger: Any = None
    records: Any = None

    def ports(self) -> Any:
        """See `Processes`."""
        found = CoordinationProcesses.ports(self)
        return replace(found, ledger=self.ledger or found.ledger, records=self.records or found.records)


@pytest.fixture
def measuring() -> Measuring:
    """A healthy group of old members."""
    made = make_coordination()
    shared = ("clock", "world", "fleet", "evidence", "proof")
    return Measuring(**{name: getattr(made, name) for name in shared})


def test_f01_the_plan_says_what_stays_and_the_run_goes_on(group: CoordinationProcesses) -> None:
    """Named in the plan (and so under its hash) and in the report; the run ends as moved."""
    group.world.znode[LEFT] = 77
    name = group.begin()
    plan = plan_from(group.runs.find(name).plan)
    (note,) = plan.about["notes"]
    assert note == "no member reads it: kept as it is: payments-old-0 (ZooKeeper 77)"
    assert make_plan(plan.steps, {**plan.about, "notes": []}).hash != plan.hash
    ended = group.drive(name)
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.MOVED, Verdict.PASS)
    assert group.world.znode[LEFT] == 77
    assert any(note in each.sentences for each in group.move.report(group.claim(name)))


@dataclass
class Log:
    """Answers every gap alike, and remembers what it was asked."""

    records: int = 0
    asked: list[Gap] = field(default_factory=list)

    def read(self, gaps: Sequence[Gap]) -> list[GapRead]:
        """See `groupshift.ports.log.RecordLog`."""
        self.asked += gaps
        return [GapRead(gap=gap, decided=gap.end, records=self.records) for gap in gaps]


@dataclass
class Ledgers:
    """What members say they delivered, as it is now."""

    delivered: dict[TopicPartition, int]

    def last_delivered(self, _group: str) -> dict[TopicPartition, int]:
        """See `groupshift.ports.evidence.Ledger`."""
        return dict(self.delivered)

    def delivered_below(self, _group: str, bounds: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `groupshift.ports.evidence.Ledger`."""
        return {at: min(self.delivered[at], end - 1) for at, end in bounds.items()}


def pauses(group: CoordinationProcesses, at: At | None = None, name: str = "") -> str:
    """A run that was driven as far as the canary is measured."""
    run = name or group.begin(until=Until.CANARY)
    group.drive(run, at, phases=frozenset({"plan", "canary"}))
    return run


@pytest.mark.parametrize(("records", "answer"), [(0, "nothing"), (1, "lost")])
def test_f02_the_comparison_is_handed_what_the_log_answers(
    measuring: Measuring, records: int, answer: str
) -> None:
    """A commit of last record + 2: the range in doubt is asked, and the answer is a fact."""
    world = measuring.world
    measuring.records = Log(records)
    measuring.ledger = ledger = Ledgers({at: offset - 1 for at, offset in world.znode.items()})
    measuring.clock.on_sleep.clear()
    ends: list[int] = []

    def passes_over() -> None:
        ledger.delivered |= {at: offset - 1 for at, offset in world.znode.items()}
        ledger.delivered[P0] += 2
        world.znode[P0] += 3
        ends.append(world.znode[P0])
        measuring.records.asked.clear()

    pauses(measuring, At({f"canary/replace_members {CrashPoint.AFTER_READ_BACK.value}": passes_over}))
    (end,) = ends
    asked = {(gap.partition, gap.start, gap.end) for gap in measuring.records.asked}
    assert asked == {(P0, end - 1, end)}
    (text,) = [
        text
        for path, text in measuring.evidence.texts.items()
        if "canary-compare-after" in path and path.endswith("rules.json") and "undo" not in path
    ][:1]
    (said,) = json.loads(text)["log"]
    assert (said["topic"], said["partition"], said["from"], said["to"]) == ("orders", 0, end - 1, end)
    assert said["answer"] == answer


def before_canary(group: CoordinationProcesses, name: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The tables of the first snapshot."""
    key = next(each for each in group.evidence.snapshots if each[0] == name and "before-canary" in each[1])
    return group.evidence.snapshots[key][1]


def snapshot_s(group: CoordinationProcesses, name: str) -> float:
    """How long the first snapshot took, in seconds."""
    at: dict[EventKind, int] = {}
    for each in group.runs.events(name):
        if each.step.endswith("canary/snapshot before canary"):
            at.setdefault(each.kind, each.at_ms)
    return (at[EventKind.ACTED] - at[EventKind.INTENDED]) / 1000


def test_f02_a_snapshot_does_not_wait_for_a_ledger_of_what_the_log_does_not_hold(
    measuring: Measuring,
) -> None:
    """A marker behind the last record is in no ledger, however long one waits."""
    delivered = {at: offset - 1 for at, offset in measuring.world.znode.items()}
    measuring.ledger = Ledgers(delivered | {P0: 1})
    measuring.records = Log()
    measuring.clock.on_sleep.clear()
    name = pauses(measuring)
    assert snapshot_s(measuring, name) < 1
    assert (2, COMMITTED) in [(gap.start, gap.end) for gap in measuring.records.asked]


@dataclass
class Behind:
    """The world's ledgers, forty records behind for so many reads; of what was committed they never have more
    than up to ``gap``, where there is one: it was passed over."""

    world: World
    reads: int
    gap: int | None = None

    def last_delivered(self, group: str) -> Mapping[TopicPartition, int]:
        """See the port."""
        self.reads -= 1
        behind = BEHIND if self.reads >= 0 else 0
        return {at: offset - behind for at, offset in self.world.last_delivered(group).items()}

    def delivered_below(
        self, group: str, bounds: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """See the port."""
        found = self.last_delivered(group)
        most = COMMITTED - 1 if self.gap is None else self.gap
        return {at: min(found[at], most) for at in bounds}

    def intervals(self, group: str, from_ms: int, to_ms: int) -> Sequence[OwnershipInterval]:
        """See the port."""
        return self.world.intervals(group, from_ms, to_ms)


@pytest.mark.parametrize(
    ("reads", "gap", "said", "waited_s"),
    [(0, None, 99, 0), (8, None, 89, 4), (1_000, None, 109 - BEHIND, 5), (3, 85, 85, 5)],
)
def test_a_ledger_that_is_behind_is_waited_for_within_bounds(
    measuring: Measuring, reads: int, gap: int | None, said: int, waited_s: int
) -> None:
    """It catches up: the snapshot has what was committed as delivered. It does not, or what was committed had
    passed over records, although later ones are delivered meanwhile: the snapshot says so, after no more than
    the patience."""
    offsets = measuring.world.read(measuring.world.group).zookeeper_offsets
    assert {each.offset for each in offsets} == {COMMITTED}
    measuring.ledger = Behind(measuring.world, reads, gap)
    name = pauses(measuring)
    assert waited_s <= snapshot_s(measuring, name) < waited_s + 1
    assert {row["last_delivered"] for row in before_canary(measuring, name)["ledger"]} == {said}


def test_a_member_that_restarts_is_not_a_failure(group: CoordinationProcesses) -> None:
    """It is back within the judge's patience, with a new incarnation."""

    def die_and_return() -> None:
        group.world.places["m2"].running = False
        group.clock.on_sleep.append(lambda _s: setattr(group.world.places["m2"], "running", True))

    at = At({f"canary/judge after {CrashPoint.BEFORE_JOURNAL.value}": die_and_return})
    ended = group.drive(group.begin(), at)
    assert not at.points
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.MOVED, Verdict.PASS)


def failed_rules(group: CoordinationProcesses, name: str) -> set[str]:
    """The rules that failed in any judgement."""
    judged = [each for each in group.runs.events(name) if each.kind is EventKind.JUDGED]
    found = [each for event in judged for each in findings_from(event.body["findings"])]
    return {each.rule for each in found if each.verdict is Verdict.FAIL}


def test_a_duplicated_owner_with_a_rehashed_manifest_is_named_and_rolled_back(
    group: CoordinationProcesses,
) -> None:
    """The manifest fits the forgery; the journal sees that it is not its own."""

    def forge() -> None:
        key = next(each for each in group.evidence.snapshots if "after-canary" in each[1])
        owners = list(group.evidence.snapshots[key][1]["owners"])
        group.evidence.alter(key, "owners", [*owners, {**owners[0], "member_id": "x"}], rehash=True)

    name = group.begin()
    group.drive(name, At({f"canary/compare after {CrashPoint.AFTER_JOURNAL.value}": forge}))
    assert group.state(name) is RunState.ROLLED_BACK
    assert "J03" in failed_rules(group, name)


@pytest.mark.parametrize("text", ["{", "{}", '{"findings": [], "manifests": {}}', None])
def test_a_missing_or_foreign_verdict_is_an_error_and_no_pass(
    group: CoordinationProcesses, text: str | None
) -> None:
    """Without an answer for exactly these snapshots nothing is proven: nothing is changed, and somebody is
    asked."""
    submit = group.proof.run

    def spoil(job: SparkJob) -> None:
        path = f"{job.output}/verdict.json"
        CoordinationProcesses.submit(group, job)
        del group.evidence.texts[path]
        if text is not None:
            group.evidence.texts[path] = text

    name = group.begin()
    stopped = group.drive(name, submit=spoil)
    assert submit is not None
    assert isinstance(stopped, Stopped)
    said = [each for each in group.asked if each.gate.endswith(("compare before", "judge before"))]
    assert said, "somebody is asked"
    assert group.world.places["m1"].kind == "old"
    assert group.state(name) is not RunState.MOVED


def told(until: Until, back: bool) -> list[str]:  # noqa: FBT001 - which way
    """What each step of such a run is called, in order."""
    group = make_coordination()
    group.declines = frozenset({"finalise/approve"})
    steps: list[str] = []
    name = group.begin(until=until)
    group.drive(name, tell=lambda step, _text: steps.append(step.key))
    if back:
        steps.clear()
        group.roll_back(name, tell=lambda step, _text: steps.append(step.key))
    return list(dict.fromkeys(steps))


def everything(group: CoordinationProcesses, name: str) -> tuple[object, ...]:
    """Journal, evidence, questions and group."""
    return (
        group.runs.events(name),
        group.state(name),
        dict(group.evidence.snapshots),
        len(group.asked),
        group.kinds(),
        group.world.mode.data,
    )


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_u01_a_run_that_is_taken_over_ends_there(*, back: bool) -> None:
    """Whatever it was about to do next: nothing of it reaches journal, evidence, group or a person."""
    for key in told(Until.RETIRE, back):
        group = make_coordination()
        group.declines = frozenset({"finalise/approve"})
        name = group.begin(until=Until.RETIRE)
        was: list[tuple[object, ...]] = []

        def take(step: Any, _text: str, key: str = key, was: list[Any] = was) -> None:
            if step.key == key and not was:
                group.runs.claim(name, "other", group.clock.now_ms(), anew=True, take_over=True)  # noqa: B023
                was.append(everything(group, name))  # noqa: B023

        if back:
            group.drive(name)
        go = group.roll_back if back else group.drive
        with pytest.raises(Fenced, match="other took this run over"):
            go(name, tell=take)
        assert [everything(group, name)] == was, key


def test_u01_what_a_run_measures_and_shows_bears_its_token(group: CoordinationProcesses) -> None:
    """Whose verdict it was is in the journal."""
    name = group.begin()
    assert isinstance(group.drive(name), Ended)
    mine = {EventKind.ACTED, EventKind.JUDGED, EventKind.GATE_SHOWN, EventKind.GATE_ANSWERED}
    assert {each.token for each in group.runs.events(name) if each.kind in mine} == {1}


def test_a_question_shows_what_its_answer_depends_on(group: CoordinationProcesses) -> None:
    """The toggle's: the rehearsal of both directions, in full."""
    group.drive(group.begin())
    toggle = next(each for each in group.asked if each.gate.endswith("toggle/approve"))
    text = question_text(toggle)
    assert "Rehearsal of the rollback" in text
    assert "a rollback of mode kafka writes mode zookeeper" in text


def test_b4_a_snapshot_that_is_older_than_its_plan_is_not_compared(
    measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is behind the one of the plan: nothing was changed, and the run can be given up."""
    name, read = measuring.begin(until=Until.CANARY), World.read

    def earlier(world: World, group: str) -> Any:
        return replace(read(world, group), taken_at_ms=measuring.runs.find(name).created_at_ms - 1)

    monkeypatch.setattr(World, "read", earlier)
    with pytest.raises(
        Rejected, match=rf"before canary was taken at .*\(run {name}\) was made.*take it again"
    ):
        measuring.drive(name)
    assert not [path for path in measuring.evidence.texts if "canary-compare" in path]
    take_back(measuring.claim(name), measuring.move.back_to[0])
    assert measuring.state(name) is RunState.REJECTED
    assert measuring.kinds() == [MemberKind.ZOOKEEPER] * 3
