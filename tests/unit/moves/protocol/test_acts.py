"""Members are replaced at most once, by whoever may, as it was approved: killed, taken over, by hand."""

from __future__ import annotations

import pytest

from groupshift.domain.group_protocol import Protocol
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.progress import Ended, Stopped
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.moves.protocol.move import ProtocolMove
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import Change
from groupshift.ports.runs import EventKind
from groupshift_testing.world import Killed, Occupant
from support.simulated_runs import At, KillAt, KillEach, Processes, make_processes, until_it_ends

PLAIN, NATIVE = MemberKind.PLAIN, MemberKind.NATIVE
UP = Protocol.CONSUMER


CANARY, ROLL = "canary/replace_members", "roll/replace_members"


def killed(
    group: Processes, step: str, point: CrashPoint = CrashPoint.AFTER_JOURNAL, **values: object
) -> str:
    """A run whose first process died at this point."""
    name = group.begin(to=UP, **values)
    with pytest.raises(Killed):
        group.drive(name, KillAt(step, point))
    group.asked.clear()
    return name


def joins(group: Processes, kind: MemberKind = PLAIN, name: str = "m9") -> str:
    """One more member that nobody planned; its id."""
    group.world.places[name] = Occupant(kind=kind)
    group.world.tick()
    return f"{group.world.identity(name)}-uuid"


def voided(group: Processes, name: str) -> int:
    """How often an approval became void."""
    return sum(each.kind is EventKind.VOIDED for each in group.runs.events(name))


@pytest.mark.parametrize("offline", [False, True])
def test_killed_at_every_point_of_every_step_it_reaches_the_same_end(
    group: Processes, *, offline: bool
) -> None:
    """There and back; each place is replaced once."""
    kills = KillEach()
    name = group.begin(to=UP, offline=offline)
    until_it_ends(lambda: group.drive(name, kills))
    assert (group.state(name), group.kinds()) == (RunState.MOVED, [NATIVE] * 3)
    times = 2 if offline else 1
    assert {occupant.incarnation for occupant in group.world.places.values()} == {1 + times}
    until_it_ends(lambda: group.roll_back(name, kills))
    assert (group.state(name), group.kinds()) == (RunState.ROLLED_BACK, [PLAIN] * 3)
    assert {occupant.incarnation for occupant in group.world.places.values()} == {1 + 2 * times}
    steps = {step for step, _ in kills.points}
    assert len(kills.points) == 4 * len(steps) > 100


def test_a_process_that_is_taken_over_acts_no_more(group: Processes) -> None:
    """It is told by whom, and the group stays as it is."""
    name = group.begin(to=UP)
    at = At({f"{CANARY} {CrashPoint.AFTER_READ_BACK.value}": lambda: take_over(group, name)})
    with pytest.raises(Fenced, match="cli-2 took this run over"):
        group.drive(name, at)
    assert group.kinds() == [NATIVE, PLAIN, PLAIN]
    assert isinstance(group.drive(name, holder="cli-2"), Ended)


def take_over(group: Processes, name: str) -> None:
    """Another process claims the run."""
    group.claim(name, holder="cli-2", take_over=True)


def test_a_process_that_wakes_after_a_rollback_can_start_nothing_more(group: Processes) -> None:
    """The driver itself refuses what was put to sleep between intent and act."""
    name = killed(group, CANARY, canary_only=True)
    asleep = group.runs.held(name)
    assert asleep is not None
    assert group.runs.find(name).move == ProtocolMove.name
    group.roll_back(name, take_over=True)
    woken = Change(
        change_id=f"{name}:canary",
        group=group.world.group,
        slots=("m1",),
        to=NATIVE,
        fence=name,
        token=asleep.token,
    )
    with pytest.raises(Conflict, match="is void"):
        group.fleet.start(woken)
    assert group.kinds() == [PLAIN] * 3


def test_a_rollback_names_the_changes_that_it_takes_back(group: Processes) -> None:
    """Oldest first, all under the fence of their run; a change forward takes nothing back."""
    asked: list[Change] = []
    start = group.fleet.start

    class Asked(type(group.fleet)):  # type: ignore[misc]
        def start(self, change: Change) -> object:
            asked.append(change)
            return start(change)

    group.fleet = Asked(group.world)
    name = group.begin(to=UP)
    group.drive(name)
    group.roll_back(name)
    assert [(each.change_id.split(":")[1], each.undoes) for each in asked] == [
        ("canary", ()),
        ("roll", ()),
        ("roll_back", ()),
        ("undo_members", (f"{name}:canary", f"{name}:roll")),
    ]
    assert {each.fence for each in asked} == {name}
    assert [each.token for each in asked] == sorted(each.token for each in asked)


@pytest.mark.parametrize("step", [CANARY, ROLL])
def test_a_group_that_is_as_it_was_met_is_not_asked_about_again(group: Processes, step: str) -> None:
    """The approval still holds: the act is made, once, by the next process."""
    name = killed(group, step)
    assert isinstance(group.drive(name), Ended)
    assert group.asked == []
    assert voided(group, name) == 0


@pytest.mark.parametrize("step", [CANARY, ROLL])
def test_a_member_that_joined_since_the_intent_makes_the_approval_void(group: Processes, step: str) -> None:
    """It is asked again, with what changed; a yes to it goes on."""
    name = killed(group, step)
    stranger = joins(group)
    group.drive(name)
    assert voided(group, name) == 1
    assert any(stranger in clause for question in group.asked for clause in question.changes)
    assert EventKind.VOIDED in [each.kind for each in group.runs.events(name)]


def test_a_no_to_what_changed_leaves_the_group_as_it_is(group: Processes) -> None:
    """Where something was replaced the run ends moved, with its rollback open."""
    name = killed(group, ROLL)
    joins(group)
    group.declines = frozenset({"plan/approve"})
    group.drive(name)
    assert group.state(name) is RunState.MOVED
    assert group.kinds() == [NATIVE, PLAIN, PLAIN, PLAIN]
    del group.world.places["m9"]
    group.roll_back(name)
    assert group.state(name) is RunState.ROLLED_BACK


def test_what_became_void_stays_void_although_the_stranger_left_again(group: Processes) -> None:
    """Only an answer ends it."""
    name = killed(group, CANARY)
    joins(group)
    assert isinstance(group.drive(name, decide=lambda _question: None), Stopped)
    del group.world.places["m9"]
    assert isinstance(group.drive(name), Ended)
    assert [each.gate.partition(" ")[2] for each in group.asked] == ["plan/approve"]
    assert voided(group, name) == 1


@pytest.mark.parametrize("step", [CANARY, ROLL])
def test_an_act_that_was_taken_up_goes_on_whoever_joined(group: Processes, step: str) -> None:
    """Killed after the driver had taken the change up: the group differs by that alone."""
    name = killed(group, step, CrashPoint.AFTER_ACT)
    group.drive(name)
    assert (group.state(name), voided(group, name)) == (RunState.MOVED, 0)


def test_places_that_run_the_wanted_kind_already_are_no_question(group: Processes) -> None:
    """The fleet forgot the change, its places run what was wanted."""
    name = killed(group, CANARY)
    group.fleet.deploy(("m1",), NATIVE)
    group.drive(name)
    assert (group.state(name), voided(group, name)) == (RunState.MOVED, 0)


def by_hand(group: Processes, **values: object) -> str:
    """A run whose members people replace."""
    group.fleet.pending = True
    return group.begin(to=UP, driver="manual", **values)


def alone(group: Processes, name: str, **more: object) -> object:
    """A process that waits for nobody."""
    return group.drive(name, waits_for_people=False, **more)


def client(group: Processes, place: str) -> str:
    """The name by which people know a member."""
    return group.world.identity(place)


def test_a_driver_of_people_hands_out_the_instruction_and_sees_the_group(group: Processes) -> None:
    """The same text by each process until the members of the wanted kind are there; the approval given
    before the person began is not asked again meanwhile."""
    name = by_hand(group)
    for _ in range(2):
        group.told.clear()
        stopped = alone(group, name)
        assert isinstance(stopped, Stopped)
        assert stopped.waits
        assert any(client(group, "m1") in text for text in group.told)
    assert len(group.asked) == 1
    group.fleet.deploy(("m1",), NATIVE)
    stopped = alone(group, name)
    assert isinstance(stopped, Stopped)
    assert stopped.step.phase == "roll"
    group.fleet.deploy(("m2", "m3"), NATIVE)
    assert isinstance(alone(group, name), Ended)
    assert len(group.asked) == 1


def test_a_person_who_never_deployed_has_nothing_to_take_back(group: Processes) -> None:
    """The canary was asked for and nobody came: the rollback is settled at once."""
    name = by_hand(group, canary_only=True)
    alone(group, name)
    group.roll_back(name)
    assert (group.state(name), group.kinds()) == (RunState.ROLLED_BACK, [PLAIN] * 3)


def test_a_rollback_asks_people_only_for_the_members_that_they_replaced(group: Processes) -> None:
    """It waits for them, and is over when the place is filled again."""
    name = by_hand(group, canary_only=True)
    alone(group, name)
    group.fleet.deploy(("m1",), NATIVE)
    asked: list[Change] = []
    start = group.fleet.start

    class Asked(type(group.fleet)):  # type: ignore[misc]
        def start(self, change: Change) -> object:
            asked.append(change)
            return start(change)

    group.fleet = Asked(group.world, pending=True)
    assert isinstance(group.roll_back(name, waits_for_people=False), Stopped)
    gone = [each for each in asked if each.slots][-1].occupants
    assert gone is not None
    assert [each.member_id for each in gone] == [f"{client(group, 'm1')}-uuid"]
    group.fleet.deploy(("m1",), PLAIN)
    assert isinstance(group.drive(name), Ended)
    assert group.state(name) is RunState.ROLLED_BACK


def test_a_person_is_not_sent_to_a_group_that_changed(group: Processes) -> None:
    """The instruction is not given out before somebody has said yes to the new members."""
    group.fleet.pending = True
    name = killed(group, CANARY, driver="manual")
    joins(group)
    group.told.clear()
    assert isinstance(alone(group, name, decide=lambda _question: None), Stopped)
    assert not any("deploy" in text for text in group.told)


def test_what_a_person_deployed_early_is_no_question(group: Processes) -> None:
    """As many new members as were to come say that they are there."""
    group.fleet.pending = True
    name = killed(group, CANARY, driver="manual", canary_only=True)
    group.fleet.deploy(("m1",), NATIVE)
    assert isinstance(alone(group, name), Ended)
    assert (group.asked, voided(group, name)) == ([], 0)


def test_a_rollback_never_asks(group: Processes) -> None:
    """Whoever joined meanwhile: going back is what was asked for."""
    name = group.begin(to=UP)
    group.drive(name)
    with pytest.raises(Killed):
        group.roll_back(name, KillAt("05 canary/replace_members"))
    group.asked.clear()
    joins(group)
    group.drive(name, holder="back")
    assert group.asked == []
    assert group.kinds() == [PLAIN] * 4


def test_a_precondition_that_fails_changes_nothing(group: Processes) -> None:
    """The sentence names the rule; the next process goes on once it holds."""
    name = group.begin(to=UP)

    def lose() -> None:
        group.world.places["m3"].running = False

    at = At({f"canary/judge before {CrashPoint.AFTER_READ_BACK.value}": lose})
    with pytest.raises(Rejected, match="C18"):
        group.drive(name, at)
    assert group.kinds() == [PLAIN] * 3
    group.world.places["m3"].running = True
    assert isinstance(group.drive(name), Ended)


def test_a_run_ends_green_only_where_nothing_failed(group: Processes) -> None:
    """The closing says where it led."""
    name = group.begin(to=UP)
    ended = group.drive(name)
    assert isinstance(ended, Ended)
    assert ended.closing.verdict is Verdict.PASS
    assert ended.closing.reason == "all members speak the consumer protocol; the rollback is open"
    assert group.sealed == [RunState.MOVED]
    assert make_processes(NATIVE).kinds() == [NATIVE] * 3
