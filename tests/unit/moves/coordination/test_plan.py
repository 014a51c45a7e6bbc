"""What is planned, refused, asked and rehearsed, and what a pause is said to be."""

from __future__ import annotations

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Until, WayBack
from groupshift.domain.requests import request_of
from groupshift.domain.run import Step, plan_from
from groupshift.domain.verdict import Verdict
from groupshift.engine.begin import assess
from groupshift.engine.progress import Ended
from groupshift.engine.roll_back import begin_roll_back
from groupshift.errors import Conflict, Rejected
from groupshift.moves.coordination.facts import CoordinationRequest
from groupshift.moves.coordination.plan_and_rollback import FINALISE_GATE, SET_MODE, TOGGLE_GATE
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.simulated_runs import At

OLD, AWARE, PLAIN = MemberKind.ZOOKEEPER, MemberKind.AWARE, MemberKind.PLAIN


def steps(group: CoordinationProcesses, **values: object) -> tuple[Step, ...]:
    """The steps of a plan that nobody carries out."""
    name = group.begin(execute=False, **values)
    return plan_from(group.runs.find(name).plan).steps


def phases(found: tuple[Step, ...]) -> list[str]:
    """The phases in their order."""
    return list(dict.fromkeys(each.phase for each in found))


def acts(found: tuple[Step, ...]) -> list[tuple[str, str]]:
    """What changes something or asks somebody, in its order."""
    measures = {"snapshot", "compare", "judge"}
    return [(each.phase, each.kind) for each in found if each.kind not in measures]


def test_the_whole_move_is_canary_roll_toggle_retire_soak_finalise(group: CoordinationProcesses) -> None:
    """With a rehearsal and an approval before the toggle, and one that may be declined at the end."""
    found = steps(group, until=Until.RETIRE, canary_watch=30)
    assert acts(found) == [
        ("plan", "approve"),
        ("canary", "replace_members"),
        ("canary", "watch_canary"),
        ("roll", "replace_members"),
        ("toggle", "rehearse"),
        ("toggle", "approve"),
        ("toggle", SET_MODE),
        ("retire", "replace_members"),
        ("soak", "soak"),
        ("finalise", "approve"),
        ("finalise", "delete_mode_node"),
    ]
    gates = {each.phase: each.gate.partition(" ")[2] for each in found if each.kind == "replace_members"}
    assert gates == {"canary": "", "roll": "", "retire": TOGGLE_GATE}
    assert [each.gate.partition(" ")[2] for each in found if each.optional] == ["", FINALISE_GATE]
    compares = next(each.args["compares"] for each in found if each.name == "canary/judge after")
    assert compares == ["canary/compare after", "canary/watch_canary"]


@pytest.mark.parametrize(
    ("kind", "until", "wanted"),
    [
        (OLD, Until.CANARY, ["plan", "canary", "soak"]),
        (OLD, Until.ROLL, ["plan", "canary", "roll", "soak"]),
        (AWARE, Until.TOGGLE, ["plan", "toggle", "soak"]),
        (AWARE, Until.RETIRE, ["plan", "toggle", "retire", "soak", "finalise"]),
    ],
)
def test_phases_without_work_are_left_out(kind: MemberKind, until: Until, wanted: list[str]) -> None:
    """A group of aware members begins with the toggle."""
    assert phases(steps(make_coordination(kind), until=until)) == wanted


def test_a_driver_that_knows_no_places_gets_the_members_as_places(group: CoordinationProcesses) -> None:
    """Whoever deploys is told their ids."""
    group.fleet.pending = True
    found = next(each for each in steps(group) if each.phase == "roll" and each.kind == "replace_members")
    assert found.args["slots"] == ["orders-app_m2-1", "orders-app_m3-1"]


def test_a_group_that_is_there_already_has_nothing_to_move() -> None:
    """All aware and in kafka mode."""
    group = make_coordination(MemberKind.AWARE)
    group.world.write_mode(b"kafka")
    with pytest.raises(Rejected, match="nothing to move"):
        group.begin(until=Until.TOGGLE)
    assert not group.runs.recent(1)


def test_a_group_that_is_not_ready_is_not_planned(group: CoordinationProcesses) -> None:
    """Plain members beside old ones; the sentence names them."""
    group.world.strangers = ("kc-1",)
    with pytest.raises(Rejected, match="C04: plain Kafka members kc-1"):
        group.begin()
    assert not group.runs.recent(1)


def test_a_group_in_kafka_mode_can_still_be_retired() -> None:
    """The toggle is done already, by whomever."""
    group = make_coordination(AWARE)
    group.world.write_mode(b"kafka")
    assert phases(steps(group, until=Until.RETIRE)) == ["plan", "retire", "soak", "finalise"]
    with pytest.raises(Rejected, match=r"nothing to move until toggle \(0 old members, kafka mode\)"):
        group.begin()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"group": "a/b"}, "no group id of the old consumer"),
        ({"canary": 2, "canary_share": 0.5}, "are both given: choose one"),
        ({"canary": 0}, "canary 0 is below 1"),
        ({"canary_share": 1.5}, "canary_share 1.5 is above 1"),
        ({"canary_watch": 3601}, "canary_watch 3601 is above 3600"),
        ({"soak": -1}, "soak -1 is below 0"),
    ],
)
def test_a_request_that_cannot_be_used_is_named(values: dict[str, object], said: str) -> None:
    """With what is usable."""
    with pytest.raises(Rejected, match=said):
        request_of(CoordinationRequest, {"group": "g", **values})


def test_a_canary_that_is_larger_than_the_group_is_refused(group: CoordinationProcesses) -> None:
    """Before anything is journaled."""
    with pytest.raises(Rejected, match="canary 9 is more than the 3 members"):
        group.begin(canary=9)
    assert group.runs.recent(1) == ()


def test_an_old_member_that_commits_to_kafka_is_not_moved(group: CoordinationProcesses) -> None:
    """Two looks tell; the sentence names it and what to change (§9 line 6)."""
    group.world.kafka = dict(group.world.znode)
    moved = [each for each in group.world.all_partitions() if each.partition < 2]

    def commit(_seconds: float) -> None:
        for partition in moved:
            group.world.kafka[partition] = group.world.ends[partition]

    group.clock.on_sleep.append(commit)
    _, findings = assess(group.move, group.tools(), group.ports(), group.request())
    (bad,) = [each for each in findings if each.verdict is Verdict.FAIL]
    assert (bad.rule, "orders-app_m1-1 commits to Kafka" in bad.reason) == ("C24", True)
    with pytest.raises(Rejected, match=r"C24: .*offsets.storage=kafka.*restart it with"):
        group.begin()


def test_an_old_member_that_begins_to_commit_to_kafka_after_the_plan_is_not_moved(
    group: CoordinationProcesses,
) -> None:
    """The act looks twice, too: beside aware members such commits would be stored nowhere."""
    name = group.begin()
    group.world.kafka = dict(group.world.znode)
    moved = [each for each in group.world.all_partitions() if each.partition < 2]

    def commit(_seconds: float) -> None:
        for partition in moved:
            group.world.kafka[partition] = group.world.ends[partition]

    group.clock.on_sleep.append(commit)
    with pytest.raises(Rejected, match=r"was not started, nothing was changed by it: .*C24"):
        group.drive(name)
    assert group.kinds() == [OLD] * 3


def test_a_member_without_a_fence_keeps_the_group_in_zookeeper_mode() -> None:
    """It may be moved to as far as the roll, with a warning; a toggle is refused and says so (F6)."""
    group = make_coordination(AWARE)
    group.world.places["m2"].fence = None
    with pytest.raises(Rejected, match=r"C(08|28): .*m2-1 publish no fence.*the mode stays zookeeper"):
        group.begin()
    group.world.places["m1"].kind = OLD
    request = group.request(until=Until.ROLL)
    _, findings = assess(group.move, group.tools(), group.ports(), request)
    assert any("has to stay in zookeeper mode" in each.reason for each in findings)
    assert group.begin(until=Until.ROLL)


def test_what_only_needs_time_is_waited_for_and_a_group_that_is_not_there_is_not(
    group: CoordinationProcesses,
) -> None:
    """A member that restarts is back in a moment."""
    group.world.places["m3"].running = False
    back = [lambda _seconds: setattr(group.world.places["m3"], "running", True)]
    group.clock.on_sleep += back
    assess_s = {"patience_s": 20}
    _, findings = assess(group.move, group.tools(), group.ports(), group.request(), **assess_s)
    assert not [each for each in findings if each.verdict is Verdict.FAIL]
    began = group.clock.now_ms()
    _, findings = assess(group.move, group.tools(), group.ports(), group.request(group="nobody"), **assess_s)
    assert [each.rule for each in findings] == ["C01"]
    assert group.clock.now_ms() - began < 1000


def test_a_run_is_planned_with_the_patience_of_the_settings(group: CoordinationProcesses) -> None:
    """Nobody has to name it: a member that restarts meanwhile is no refusal."""
    group.world.places["m3"].running = False
    group.clock.on_sleep += [lambda _seconds: setattr(group.world.places["m3"], "running", True)]
    assert group.begin()


def test_a_second_run_of_the_same_group_is_refused(group: CoordinationProcesses) -> None:
    """The sentence names the one that is open."""
    first = group.begin()
    with pytest.raises(Conflict, match=first):
        group.begin()


def test_the_rehearsal_asks_for_both_directions() -> None:
    """A plain member would make the rollback unsafe: the toggle is not offered."""
    group = make_coordination(AWARE)

    def comes() -> None:
        group.world.strangers = ("kc-1",)

    at = At({"plan/approve after_read_back": comes})
    ended = group.drive(group.begin(), at)
    assert not isinstance(ended, Ended) or ended.closing.verdict is Verdict.FAIL
    assert TOGGLE_GATE not in [each.gate.partition(" ")[2] for each in group.asked]
    assert group.world.mode_writes == 0


def test_a_mode_node_that_says_kafka_is_taken_back_whoever_wrote_it(group: CoordinationProcesses) -> None:
    """Also where the run itself did not toggle."""
    name = group.begin(until=Until.ROLL)
    group.drive(name)
    group.world.write_mode(b"kafka")
    run = group.claim(name, holder="back")
    begin_roll_back(run, WayBack.OLD_MEMBERS)
    assert phases(run.plan.steps) == ["undo_toggle", "undo_members"]
    assert isinstance(group.roll_back(name), Ended)
    assert (group.kinds(), group.world.mode.data) == ([OLD] * 3, b"zookeeper")


def test_a_gate_says_the_pause_of_what_it_lets_happen(group: CoordinationProcesses) -> None:
    """The toggle's, too, of the members that are replaced behind it."""
    group.declines = frozenset({FINALISE_GATE})
    group.drive(group.begin(until=Until.RETIRE))
    plan, toggle, last = group.asked
    assert plan.pause.startswith("3 members are replaced, and each time the group rebalances")
    assert "all partitions rest until each has its owner in Kafka. Besides, 3 members are" in toggle.pause
    assert last.pause.startswith("no member is replaced")
    assert (plan.later, last.optional) == ("approve the toggle", True)
