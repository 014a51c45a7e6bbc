"""Acts are made at most once, as they were approved, under the fence: killed, taken over, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from groupshift.adapters.drivers.manual import ManualFleet
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Until, WayBack
from groupshift.domain.run import RunState, StepState
from groupshift.domain.verdict import Verdict
from groupshift.engine.group import facts_of
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.roll_back import begin_roll_back
from groupshift.errors import Conflict, Fenced, Rejected, Transient
from groupshift.moves.coordination.plan_and_rollback import FINALISE_GATE, TOGGLE_GATE
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift_testing.world import Killed, Occupant
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.simulated_runs import At, KillAt, KillEach, until_it_ends

OLD, AWARE, PLAIN = MemberKind.ZOOKEEPER, MemberKind.AWARE, MemberKind.PLAIN
CANARY, ROLL, RETIRE = (f"{phase}/replace_members" for phase in ("canary", "roll", "retire"))
TOGGLE, FINALISE = "toggle/set_mode", "finalise/delete_mode_node"
JOURNALED = CrashPoint.AFTER_JOURNAL.value


def killed(
    group: CoordinationProcesses, step: str, point: CrashPoint = CrashPoint.AFTER_JOURNAL, **values: object
) -> str:
    """A run whose first process died at this point."""
    name = group.begin(**values)
    with pytest.raises(Killed):
        group.drive(name, KillAt(step, point))
    group.asked.clear()
    return name


def gates(group: CoordinationProcesses) -> list[str]:
    """The gates that were asked, in their order."""
    return [each.gate.partition(" ")[2] for each in group.asked]


def voided(group: CoordinationProcesses, name: str) -> int:
    """How often an approval became void."""
    return sum(each.kind is EventKind.VOIDED for each in group.runs.events(name))


def intents(group: CoordinationProcesses, name: str, step: str) -> int:
    """How often a step was intended."""
    found = [each for each in group.runs.events(name) if each.kind is EventKind.INTENDED]
    return sum(each.step.endswith(f" {step}") for each in found)


def joins(group: CoordinationProcesses, kind: MemberKind = OLD, place: str = "m9") -> str:
    """One more member that nobody planned; its id."""
    group.world.places[place] = Occupant(kind=kind)
    group.world.tick()
    return group.world.identity(place)


def test_killed_at_every_point_of_every_step_it_reaches_the_same_end(group: CoordinationProcesses) -> None:
    """There: each place is replaced twice, the mode node is written once to and once away."""
    kills = KillEach()
    name = group.begin(until=Until.RETIRE)
    until_it_ends(lambda: group.drive(name, kills))
    assert (group.state(name), group.kinds()) == (RunState.FINALISED, [PLAIN] * 3)
    assert {occupant.incarnation for occupant in group.world.places.values()} == {3}
    assert (group.world.mode_writes, voided(group, name)) == (2, 0)
    steps = {step for step, _ in kills.points}
    assert len(kills.points) == 4 * len(steps) > 100
    assert [intents(group, name, each) for each in (CANARY, ROLL, TOGGLE, RETIRE, FINALISE)] == [1] * 5


def test_killed_at_every_point_of_the_rollback_it_reaches_the_same_end(group: CoordinationProcesses) -> None:
    """Back to what was there: nothing is replaced or written twice."""
    group.declines = frozenset({FINALISE_GATE})
    name = group.begin(until=Until.RETIRE)
    group.drive(name)
    kills = KillEach()
    until_it_ends(lambda: group.roll_back(name, kills))
    assert (group.state(name), group.kinds()) == (RunState.ROLLED_BACK, [OLD] * 3)
    assert {occupant.incarnation for occupant in group.world.places.values()} == {5}
    assert group.world.mode_writes == 2


def test_a_process_that_was_taken_over_acts_no_more(group: CoordinationProcesses) -> None:
    """It is told by whom, and the group stays as it is."""
    name = group.begin()
    stale = group.claim(name)
    group.claim(name, holder="cli-2", take_over=True)
    with pytest.raises(Fenced, match="cli-2 took this run over"):
        stale.refresh()
    assert group.kinds() == [OLD] * 3


def test_a_preview_never_acts_and_leaves_no_fence(group: CoordinationProcesses) -> None:
    """Nothing at all is written before somebody has approved."""
    group.begin(execute=False)
    assert group.world.holder is None
    name = group.begin()
    group.claim(name)
    assert (group.world.holder, group.world.mode_writes) == (None, 0)


def test_a_precondition_that_fails_changes_nothing(group: CoordinationProcesses) -> None:
    """Offsets are gone right before the canary: refused with the rule's sentence."""
    group.clock.on_sleep.clear()
    at = At({"canary/judge before after_read_back": group.world.znode.clear})
    name = group.begin()
    with pytest.raises(Rejected, match=r"nothing was changed by it: C05: no offset in ZooKeeper"):
        group.drive(name, at)
    assert (group.kinds(), intents(group, name, CANARY)) == ([OLD] * 3, 0)


def test_a_precondition_that_cannot_be_measured_is_worth_another_try() -> None:
    """A rebalancing Kafka group is not wrong, it is not ready."""
    group = make_coordination(AWARE)

    def rebalances() -> None:
        group.world.kafka_state = "PreparingRebalance"

    name = group.begin()
    with pytest.raises(Transient, match="C14"):
        group.drive(name, At({"toggle/judge before after_read_back": rebalances}))
    group.world.kafka_state = "Stable"
    assert isinstance(group.drive(name), Ended)
    assert group.world.mode_writes == 1


@pytest.mark.parametrize("texts", [(b"zookeeper",), (b"zookeeper", b"kafka")])
def test_whoever_lost_the_mode_node_asks_again_and_starts_over(texts: tuple[bytes, ...]) -> None:
    """With a new approval of what is there now; a mode that is there already is not written (N7)."""
    group = make_coordination(AWARE)
    name = killed(group, TOGGLE)
    for text in texts:
        group.world.write_mode(text)
    ended = group.drive(name)
    assert isinstance(ended, Ended)
    assert ended.closing.verdict is Verdict.PASS
    assert TOGGLE_GATE in gates(group)
    assert (group.world.mode.data, group.world.mode_writes) == (b"kafka", 2)
    assert intents(group, name, TOGGLE) == 2


def test_a_mode_node_that_someone_else_wrote_is_not_overwritten() -> None:
    """Killed after the intent, then another tool writes twice: that is not our act, nor was it approved."""
    group = make_coordination(AWARE)
    name = killed(group, TOGGLE)
    for text in (b"kafka", b"zookeeper"):
        group.world.write_mode(text)
    group.declines = frozenset({TOGGLE_GATE})
    assert isinstance(group.drive(name), Stopped)
    record = next(each for key, each in group.runs.steps(name).items() if key.endswith(TOGGLE))
    assert (group.world.mode_writes, record.state) == (2, StepState.INTENDED)


def test_a_write_of_somebody_else_right_before_ours_is_met(group: CoordinationProcesses) -> None:
    """The node is compared with the one that was met; nobody's write is lost."""
    at = At({f"{TOGGLE} {JOURNALED}": lambda: group.world.write_mode(b"zookeeper")})
    with pytest.raises(Conflict, match="was changed by someone else: it was met as version -1"):
        group.drive(group.begin(), at)
    assert (group.world.mode.data, group.world.mode_writes) == (b"zookeeper", 1)


def test_a_write_that_does_not_read_back_is_a_conflict(group: CoordinationProcesses) -> None:
    """It is read through another path, once."""
    at = At({f"{TOGGLE} after_act": lambda: group.world.write_mode(b"zookeeper")})
    with pytest.raises(Conflict, match=r"reads back as 'zookeeper' \(version 1\), not as"):
        group.drive(group.begin(), at)


def test_a_mode_node_that_is_back_after_its_removal_is_a_conflict(group: CoordinationProcesses) -> None:
    """Somebody else writes it; the run is not finalised."""
    name = group.begin(until=Until.RETIRE)
    with pytest.raises(Conflict, match="reads back as 'kafka'"):
        group.drive(name, At({f"{FINALISE} after_act": lambda: group.world.write_mode(b"kafka")}))
    assert group.state(name) is RunState.RUNNING


def test_a_toggle_that_is_resumed_asks_its_preconditions_again() -> None:
    """What held when it was intended need not hold when it is made."""
    group = make_coordination(AWARE)
    name = killed(group, TOGGLE)
    group.clock.on_sleep.clear()
    group.world.kafka.clear()
    with pytest.raises(Rejected, match="C12: no offset in Kafka"):
        group.drive(name)
    assert group.world.mode_writes == 0


def test_a_rollback_that_is_resumed_asks_its_preconditions_again() -> None:
    """A plain consumer has come since the intent: outside kafka mode it would consume twice (D11)."""
    group = make_coordination(AWARE)
    name = group.begin()
    group.drive(name)
    with pytest.raises(Killed):
        group.roll_back(name, _KillUndo(), to=WayBack.ZOOKEEPER_MODE)
    group.world.strangers = ("kc-1",)
    with pytest.raises(Rejected, match="C16: plain Kafka members kc-1"):
        group.roll_back(name, to=WayBack.ZOOKEEPER_MODE)
    assert group.world.mode.data == b"kafka"


class _KillUndo:
    """Ends the process when the undo of the toggle is intended."""

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if step.startswith("back ") and step.endswith(TOGGLE) and point is CrashPoint.AFTER_JOURNAL:
            raise Killed


def test_a_finalise_that_is_resumed_asks_its_preconditions_again(group: CoordinationProcesses) -> None:
    """A member came back to ZooKeeper in between: the mode node is kept, and the run says why."""
    name = killed(group, FINALISE, until=Until.RETIRE)
    group.world.places["m1"].kind = AWARE
    ended = group.drive(name)
    assert isinstance(ended, Ended)
    assert ended.closing.state is RunState.MOVED
    assert "C21" in ended.closing.reason
    assert group.world.mode.data == b"kafka"


@pytest.mark.parametrize("node", [None, b"zookeeper"])
def test_a_run_that_is_woken_late_cannot_toggle_what_was_taken_back(node: bytes | None) -> None:
    """Also where the rollback had nothing to write: the claim alone fences the mode node."""
    group = make_coordination(AWARE)
    if node:
        group.world.write_mode(node)
    before, name = group.world.mode_writes, group.begin()

    def take_back() -> None:
        run = group.claim(name, holder="back", take_over=True)
        begin_roll_back(run, WayBack.ZOOKEEPER_MODE)

    with pytest.raises(Conflict):
        group.drive(name, At({f"{TOGGLE} {JOURNALED}": take_back}))
    assert group.world.mode_writes == before
    assert group.world.holder is not None
    assert group.world.holder.token == 2


@pytest.mark.parametrize("step", [CANARY, ROLL, RETIRE])
def test_a_group_that_is_as_it_was_met_is_not_asked_about_again(
    group: CoordinationProcesses, step: str
) -> None:
    """The approval still holds: the act is made, once, by the next process."""
    name = killed(group, step, until=Until.RETIRE)
    assert isinstance(group.drive(name), Ended)
    assert "plan/approve" not in gates(group)
    assert voided(group, name) == 0


@pytest.mark.parametrize(
    ("step", "kind", "gate"),
    [(CANARY, OLD, "plan/approve"), (ROLL, OLD, "plan/approve"), (RETIRE, AWARE, TOGGLE_GATE)],
)
def test_a_member_that_joined_since_the_intent_makes_the_approval_void(
    group: CoordinationProcesses, step: str, kind: MemberKind, gate: str
) -> None:
    """The question names the member; a yes to it goes on, a no leaves the group as it is."""
    name = killed(group, step, until=Until.RETIRE)
    before, stranger = group.kinds(), joins(group, kind)
    group.declines = frozenset({gate})
    assert isinstance(group.drive(name), Stopped)
    assert (gates(group), voided(group, name)) == ([gate], 1)
    assert any(f"members {stranger}: absent is now" in each for each in group.asked[0].changes)
    assert group.kinds() == [*before, kind]


def test_a_member_that_left_since_the_intent_is_named_too() -> None:
    """Its place is not restarted, so the rules cannot pass either; the approval speaks first."""
    group = make_coordination(members=4)
    name = killed(group, CANARY)
    gone = group.world.identity("m4")
    del group.world.places["m4"]
    stopped = group.drive(name, decide=group.asked.append)
    assert isinstance(stopped, Stopped)
    assert (gates(group), voided(group, name)) == (["plan/approve"], 1)
    assert any(
        each.startswith(f"members {gone}: ") and "is now absent" in each for each in group.asked[0].changes
    )
    assert len(group.kinds()) == 3


@pytest.mark.parametrize("step", [CANARY, ROLL, RETIRE])
def test_an_act_that_was_taken_up_goes_on_whoever_joined(group: CoordinationProcesses, step: str) -> None:
    """Killed after the driver had taken the change up: it is no question any more."""
    name = killed(group, step, CrashPoint.AFTER_ACT, until=Until.RETIRE)
    assert isinstance(group.drive(name), Ended)
    assert voided(group, name) == 0


def test_places_that_run_the_wanted_kind_already_are_no_question(group: CoordinationProcesses) -> None:
    """The fleet forgot the change, its places run what was wanted: there is nothing left to approve."""
    name = killed(group, CANARY)
    group.fleet.deploy(("m1",), AWARE)
    assert isinstance(group.drive(name), Ended)
    assert voided(group, name) == 0


def test_the_rollback_never_asks(group: CoordinationProcesses) -> None:
    """Whoever joined meanwhile: going back is what was asked for."""
    name = group.begin()
    group.drive(name)
    group.asked.clear()
    with pytest.raises(Killed):
        group.roll_back(name, _KillUndo())
    group.world.places["m2"].incarnation = 40
    assert isinstance(group.roll_back(name), Ended)
    assert (group.asked, voided(group, name)) == ([], 0)


def by_hand(group: CoordinationProcesses, **values: object) -> str:
    """A run whose canary a person has to deploy."""
    group.fleet = ManualFleet()  # type: ignore[assignment]
    name = group.begin(driver="manual", until=Until.ROLL, **values)
    stopped = group.drive(name, waits_for_people=False)
    assert isinstance(stopped, Stopped)
    assert stopped.waits
    return name


def instructions(group: CoordinationProcesses) -> list[str]:
    """What people were asked to do, in its order."""
    return [each for each in group.told if each.startswith("**")]


def test_a_person_gets_the_same_instruction_until_the_group_shows_it(group: CoordinationProcesses) -> None:
    """Each process asks again; with the member there the run goes on to the next instruction."""
    name = by_hand(group)
    group.drive(name, waits_for_people=False)
    first, second = instructions(group)
    assert first == second
    assert "orders-app_m1-1" in first
    group.world.places["m1"].kind = AWARE
    group.world.tick()
    assert isinstance(group.drive(name, waits_for_people=False), Stopped)
    assert "m2-1" in instructions(group)[-1]
    assert "m1-1" not in instructions(group)[-1]


@pytest.mark.parametrize("replaced", [(), ("m1",)])
def test_a_rollback_asks_people_only_for_the_members_that_they_replaced(
    group: CoordinationProcesses, replaced: tuple[str, ...]
) -> None:
    """Of a canary that nobody deployed nothing is to be taken back: it is over at once."""
    name = by_hand(group)
    for place in replaced:
        group.world.places[place].kind = AWARE
    group.world.tick()
    made = group.roll_back(name, waits_for_people=False)
    if not replaced:
        assert isinstance(made, Ended)
        assert group.state(name) is RunState.ROLLED_BACK
        return
    assert isinstance(made, Stopped)
    asked = instructions(group)[-1]
    assert "**Take 1 member(s)" in asked
    assert group.world.identity("m1") in asked
    assert not any(f"- {group.world.identity(each)}" in asked for each in ("m2", "m3"))


def test_the_rollback_names_the_changes_that_it_takes_back(group: CoordinationProcesses) -> None:
    """A driver may have kept what they replaced."""
    name = group.begin(until=Until.ROLL)
    group.drive(name)
    group.roll_back(name)
    back = next(each for key, each in group.runs.steps(name).items() if key.startswith("back 0"))
    assert back.intent["undoes"] == [f"{name}:canary", f"{name}:roll"]


def test_the_fleet_is_read_before_the_group() -> None:
    """A member that comes up between the two is in the group: it is not missed there (C18)."""
    reads: list[str] = []
    fleets = SimpleNamespace(slots=lambda _group: reads.append("fleet") or ())
    groups = SimpleNamespace(read=lambda group: reads.append("group") or GroupView(group=group))
    facts_of(SimpleNamespace(groups=groups, fleets=lambda _driver: fleets), "g", "process")
    assert reads == ["fleet", "group"]
