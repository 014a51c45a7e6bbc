"""The canary's watch: planned, looked at, journaled, judged, taken back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Until
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.progress import Ended, Stopped
from groupshift.errors import Rejected
from groupshift.moves.coordination.plan_and_rollback import WATCH as WATCH_CANARY
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift_testing.world import Killed
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.simulated_runs import KillAt

CANARY = (TopicPartition("orders", 0), TopicPartition("orders", 1))
"""What m1, the first of three, owns of six partitions."""
WATCH = f"canary/{WATCH_CANARY}"


def slow(share: float) -> Callable[[CoordinationProcesses], None]:
    """The canary's member handles only this share of what arrives, from when it is one."""

    def spoil(group: CoordinationProcesses) -> None:
        handled: dict[TopicPartition, float] = {}

        def hold_back(_seconds: float) -> None:
            if group.world.places["m1"].kind is not MemberKind.AWARE:
                return
            for partition in CANARY:
                handled[partition] = handled.get(partition, group.world.ends[partition] - 1) + share
                group.world.znode[partition] = group.world.kafka[partition] = int(handled[partition])

        group.clock.on_sleep.append(hold_back)

    return spoil


def leaves(group: CoordinationProcesses) -> None:
    """The canary's member dies in the middle of the watch; what is started in its place lives."""
    member, began = group.world.places["m1"], group.clock.now_ms()

    def die(_seconds: float) -> None:
        in_time = group.clock.now_ms() - began > 15_000 and member.kind is MemberKind.AWARE
        if in_time:
            member.running = False

    group.clock.on_sleep.append(die)


def zookeeper_only(group: CoordinationProcesses) -> None:
    """Its commits do not reach Kafka."""
    group.clock.on_sleep.append(lambda _seconds: group.world.kafka.clear())


def looks(group: CoordinationProcesses, name: str) -> list[int]:
    """When the canary was looked at, in ms."""
    found = [each for each in group.runs.events(name) if each.step.endswith(WATCH)]
    return [each.at_ms for each in found if each.kind is EventKind.NOTED]


def findings(group: CoordinationProcesses, name: str) -> dict[str, Verdict]:
    """What the canary's rules said in the judgement after it."""
    judged = [
        each.body["findings"]
        for each in group.runs.events(name)
        if each.kind is EventKind.JUDGED and each.step.endswith("canary/judge after")
    ]
    return {f["rule"]: Verdict(f["verdict"]) for f in judged[-1] if f["rule"].startswith("K")}


def test_a_healthy_canary_is_watched_and_passes(group: CoordinationProcesses) -> None:
    """Looks are journaled all the time; the run goes on by itself."""
    name = group.begin(until=Until.CANARY, canary_watch=30)
    assert isinstance(group.drive(name), Ended)
    assert findings(group, name) == dict.fromkeys(("K01", "K02", "K03", "K04", "K05", "K06"), Verdict.PASS)
    found = looks(group, name)
    assert found[-1] - found[0] >= 28_000
    assert all(2000 <= after - before <= 3000 for before, after in pairwise(found))


@pytest.mark.parametrize(
    ("spoil", "rules"),
    [
        (slow(0.5), {"K02", "K03"}),
        (slow(0.0), {"K02", "K03", "K04"}),
        (leaves, {"K04"}),
        (zookeeper_only, {"K06"}),
    ],
    ids=["half as fast", "stands still", "dies", "one store"],
)
def test_a_bad_canary_is_named_and_taken_back(
    group: CoordinationProcesses, spoil: Callable[[CoordinationProcesses], None], rules: set[str]
) -> None:
    """By its rules and by no other of them, without asking anybody; old members again at the end."""
    spoil(group)
    name = group.begin(until=Until.CANARY, canary_watch=30)
    group.drive(name)
    failed = {rule for rule, verdict in findings(group, name).items() if verdict is Verdict.FAIL}
    assert failed == rules
    assert [each.gate.partition(" ")[2] for each in group.asked] == ["plan/approve"]
    assert group.kinds() == [MemberKind.ZOOKEEPER] * 3


def test_a_silent_topic_asks_a_person_instead_of_passing(group: CoordinationProcesses) -> None:
    """Nothing arrives, so nothing can be compared: on, back and stop are offered."""
    group.clock.on_sleep.clear()
    group.world.idle.update(group.world.all_partitions())
    group.world.kafka.update(dict.fromkeys(CANARY, 90))
    name = group.begin(until=Until.CANARY, canary_watch=30)
    group.drive(name)
    review = group.asked[1]
    assert review.answers == (Choice.GO_ON, Choice.ROLL_BACK, Choice.STOP)
    assert any("the canary cannot be compared" in each.reason for each in review.findings)
    assert findings(group, name)["K01"] is Verdict.INCONCLUSIVE
    assert group.state(name) is RunState.ROLLED_BACK, "this person accepts no doubt"


def test_whoever_looks_rarely_looks_on_until_it_is_enough(group: CoordinationProcesses) -> None:
    """A sensor that is woken every 15 s has seen the canary only twice when 20 s are over."""
    name = group.begin(until=Until.CANARY, canary_watch=20)
    assert isinstance(group.drive(name, every_s=15), Ended)
    assert len(looks(group, name)) == 5
    said = dict.fromkeys(each for each in group.told if each.endswith(("left", "samples")))
    assert list(said) == ["20 of 20 s left", "5 of 20 s left", "3 of 5 samples", "4 of 5 samples"]


def test_without_a_watch_nothing_is_looked_at(group: CoordinationProcesses) -> None:
    """Zero seconds are asked for: no step, no such rules."""
    name = group.begin(until=Until.CANARY)
    group.drive(name)
    assert (findings(group, name), looks(group, name)) == ({}, [])


def test_a_watch_survives_the_process_that_began_it(group: CoordinationProcesses) -> None:
    """Killed in the middle, the next process goes on with the looks that are there."""
    name = group.begin(until=Until.CANARY, canary_watch=30)

    def die(_seconds: float) -> None:
        if len(looks(group, name)) == 8:
            group.clock.on_sleep.remove(die)
            raise Killed("in the middle of the watch")

    group.clock.on_sleep.append(die)
    with pytest.raises(Killed):
        group.drive(name)
    assert isinstance(group.drive(name), Ended)
    found = looks(group, name)
    assert found[-1] - found[0] < 35_000


def test_a_canary_killed_in_its_act_is_watched_by_the_next_process(group: CoordinationProcesses) -> None:
    """The watch begins when the act is made and settled, whoever sees it."""
    name = group.begin(until=Until.CANARY, canary_watch=20)
    with pytest.raises(Killed):
        group.drive(name, KillAt("canary/replace_members", CrashPoint.AFTER_ACT))
    assert isinstance(group.drive(name), Ended)
    assert looks(group, name)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"canary_watch": 19}, "canary_watch 19 is less than 4 commit intervals .* at least 20"),
        ({"canary_watch": 30, "canary": 3}, "none is left to compare it with"),
        ({"canary_watch": 30, "canary_share": 1.0}, "replaces all old members"),
    ],
)
def test_a_watch_that_could_show_nothing_is_refused_when_planned(
    group: CoordinationProcesses, values: dict[str, object], says: str
) -> None:
    """Not after the canary is there."""
    with pytest.raises(Rejected, match=says):
        group.begin(until=Until.CANARY, **values)
    assert group.runs.recent(1) == ()


def test_a_share_is_shown_to_whoever_approves(group: CoordinationProcesses) -> None:
    """What the places hold, and how long it will be watched; then what was measured."""
    name = group.begin(canary_share=0.5, canary_watch=30)
    group.drive(name)
    plan, toggle = group.asked
    assert "replaces m1, m2 by aware members" in [each.does for each in plan.ahead]
    (said,) = plan.shown[0].sentences
    assert "held 4 of 6 partitions when this was planned; it is watched for 30 s" in said
    titles = [each.title for each in toggle.shown]
    assert titles == ["The canary", "What the canary measured", "Rehearsal of the rollback"]
    assert [row[0] for row in toggle.shown[1].rows] == ["K01", "K02", "K03", "K04", "K05", "K06"]


def test_an_unwatched_group_of_one_member_can_still_be_moved() -> None:
    """Its canary is the whole group."""
    group = make_coordination(members=1)
    assert not isinstance(group.drive(group.begin(until=Until.ROLL)), Stopped)
    assert group.kinds() == [MemberKind.AWARE]
