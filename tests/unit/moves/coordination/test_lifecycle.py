"""A run of coordination from its beginning to each of its ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from groupshift.domain.evidence import Moment
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Until, WayBack
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.begin import claim
from groupshift.engine.move import Run
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.roll_back import begin_finalise
from groupshift.engine.run import drive
from groupshift.engine.watch import watch
from groupshift.errors import Rejected
from groupshift.moves.coordination.facts import LiveGroup
from groupshift.moves.coordination.plan_and_rollback import FINALISE_GATE, TOGGLE_GATE
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift_testing.evidence import MemoryEvidence
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.simulated_runs import At

OLD, AWARE, PLAIN = MemberKind.ZOOKEEPER, MemberKind.AWARE, MemberKind.PLAIN
P0 = TopicPartition("orders", 0)
CANARY = f"canary/replace_members {CrashPoint.AFTER_READ_BACK.value}"
KEEPS = frozenset({FINALISE_GATE})
LOOK_MS = 500
"""A second look is later than that."""


def ends(group: CoordinationProcesses, at: At | None = None, **values: object) -> tuple[str, Ended]:
    """A run that was driven to its end."""
    name = group.begin(**values)
    ended = group.drive(name, at)
    assert isinstance(ended, Ended), ended
    return name, ended


def back(group: CoordinationProcesses, name: str, to: str = "", holder: str = "back") -> Ended:
    """A run that was taken back to the end of that."""
    ended = group.roll_back(name, to=to, holder=holder)
    assert isinstance(ended, Ended), ended
    return ended


@pytest.mark.parametrize(
    ("until", "kinds", "mode"),
    [
        (Until.CANARY, [AWARE, OLD, OLD], None),
        (Until.ROLL, [AWARE, AWARE, AWARE], None),
        (Until.TOGGLE, [AWARE, AWARE, AWARE], b"kafka"),
        (Until.RETIRE, [PLAIN, PLAIN, PLAIN], b"kafka"),
    ],
)
def test_a_run_stops_where_it_was_asked_to(
    group: CoordinationProcesses, until: Until, kinds: list[MemberKind], mode: bytes | None
) -> None:
    """Members and mode are what the last act left, and the run is green with its rollback open."""
    group.declines = KEEPS
    name, ended = ends(group, until=until)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.MOVED, Verdict.PASS)
    assert "the rollback is open" in ended.closing.reason
    assert (group.kinds(), group.world.mode.data) == (kinds, mode)
    looked = watch(group.move, group.tools(), group.ports(), name)
    assert looked.outcome == "pass"


@pytest.mark.parametrize("until", list(Until))
def test_a_run_can_be_taken_back_from_anywhere(group: CoordinationProcesses, until: Until) -> None:
    """Old members again, zookeeper mode, no offset lower than before, and a green rollback."""
    group.declines, before = KEEPS, dict(group.world.znode)
    name, _ = ends(group, until=until)
    ended = back(group, name)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.PASS)
    assert group.kinds() == [OLD, OLD, OLD]
    assert group.world.read(group.world.group).effective_mode is Mode.ZOOKEEPER
    assert all(group.world.znode[at] >= offset for at, offset in before.items())


def test_going_back_to_zookeeper_mode_keeps_the_aware_members(group: CoordinationProcesses) -> None:
    """And a second, further rollback then brings the old members back."""
    name, _ = ends(group)
    assert back(group, name, WayBack.ZOOKEEPER_MODE).closing.state is RunState.ROLLED_BACK
    assert (group.kinds(), group.world.mode.data) == ([AWARE] * 3, b"zookeeper")
    assert back(group, name, WayBack.OLD_MEMBERS, holder="back-2").closing.verdict is Verdict.PASS
    assert (group.kinds(), group.world.mode_writes) == ([OLD] * 3, 2)


def test_a_run_goes_back_only_where_the_move_does(group: CoordinationProcesses) -> None:
    """The sentence names where that is."""
    name, _ = ends(group)
    with pytest.raises(Rejected, match="goes back to old_members, zookeeper_mode"):
        group.roll_back(name, to="start")


def test_a_later_run_toggles_again_with_the_members_it_finds(group: CoordinationProcesses) -> None:
    """After a rollback to zookeeper mode a new run has only the toggle left to do."""
    first, _ = ends(group)
    back(group, first, WayBack.ZOOKEEPER_MODE)
    group.asked.clear()
    group.clock.sleep(1)
    second, ended = ends(group)
    phases = list(dict.fromkeys(each.phase for each in group.claim(second).there.steps))
    assert phases == ["plan", "toggle", "soak"]
    assert (ended.closing.state, group.world.mode.data) == (RunState.MOVED, b"kafka")
    assert [each.gate.partition(" ")[2] for each in group.asked] == ["plan/approve", TOGGLE_GATE]
    with pytest.raises(Rejected, match="was followed by"):
        group.roll_back(first, holder="back-3")


def test_finalise_removes_the_mode_node_only_after_retire(group: CoordinationProcesses) -> None:
    """With plain members only it goes, and so does the rollback."""
    name, ended = ends(group, until=Until.RETIRE)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.FINALISED, Verdict.PASS)
    assert group.world.mode.data is None
    with pytest.raises(Rejected, match="is finalised: there is no rollback any more"):
        group.roll_back(name)


def test_what_was_kept_is_finalised_later(group: CoordinationProcesses) -> None:
    """The gate is asked again, under the fence of the process that does it."""
    group.declines = KEEPS
    name, _ = ends(group, until=Until.RETIRE)
    group.declines = frozenset()
    run = group.claim(name, holder="later")
    assert begin_finalise(run)
    assert isinstance(drive(run), Ended)
    assert (group.state(name), group.world.mode.data) == (RunState.FINALISED, None)
    assert group.world.holder is not None
    assert group.world.holder.token == run.token


def test_a_mode_node_that_members_need_cannot_be_finalised(group: CoordinationProcesses) -> None:
    """Until the toggle nothing of that is planned or asked."""
    _, ended = ends(group)
    assert "still on MigratingConsumer" in ended.closing.reason
    assert not any("finalise" in each.gate for each in group.asked)
    assert group.world.mode.data == b"kafka"


def test_the_mode_node_is_kept_when_a_zookeeper_member_came_back(group: CoordinationProcesses) -> None:
    """An absent mode node means ZooKeeper: a registered member would leave kafka mode."""

    def revive() -> None:
        group.world.places["m1"].kind = AWARE

    at = At({f"finalise/approve {CrashPoint.BEFORE_JOURNAL.value}": revive})
    _, ended = ends(group, at, until=Until.RETIRE)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.MOVED, Verdict.PASS)
    assert "the mode node is kept: C21" in ended.closing.reason
    assert group.world.mode.data == b"kafka"


def lower_idle_offset(group: CoordinationProcesses) -> None:
    """The znode of an idle partition is set 1 lower than it ever was."""
    group.world.znode[P0] = 89


def kill_and_hold(group: CoordinationProcesses) -> None:
    """A member is killed and its driver does not restart it."""
    group.world.places["m3"].running, group.world.places["m3"].held = False, True


def repair(group: CoordinationProcesses) -> None:
    """The member is there again."""
    group.world.places["m3"].running, group.world.places["m3"].held = True, False
    group.world.tick()


@pytest.mark.parametrize(
    ("plant", "named", "state"),
    [
        (lower_idle_offset, "V01: offset of zookeeper/orders-0", RunState.ROLLING_BACK),
        (kill_and_hold, "m3", RunState.ROLLED_BACK),
    ],
)
def test_a_fault_turns_the_run_red_names_itself_and_is_rolled_back(
    group: CoordinationProcesses,
    plant: Callable[[CoordinationProcesses], None],
    named: str,
    state: RunState,
) -> None:
    """After the canary has acted; it is an old member again. A lowered offset is still lower afterwards, so
    that rollback is not proven equal."""
    group.world.idle.add(P0)
    at = At({CANARY: lambda: plant(group)})
    at.points[f"undo_members/judge before {CrashPoint.AFTER_READ_BACK.value}"] = lambda: repair(group)
    name = group.begin()
    group.drive(name, at)
    because = next(e.body["because"] for e in group.runs.events(name) if e.kind is EventKind.ROLLBACK_BEGUN)
    assert named in because
    assert (group.state(name), group.kinds()[0]) == (state, OLD)


def test_a_rollback_that_cannot_be_proven_stays_open_and_red(group: CoordinationProcesses) -> None:
    """The killed member is still missing; repeating the rollback heals."""
    name = group.begin()
    stopped = group.drive(name, At({CANARY: lambda: kill_and_hold(group)}))
    assert isinstance(stopped, Stopped)
    assert (group.state(name), group.sealed) == (RunState.ROLLING_BACK, [RunState.ROLLING_BACK])
    repair(group)
    assert isinstance(group.drive(name), Ended)
    assert group.state(name) is RunState.ROLLED_BACK


class Tampered(MemoryEvidence):
    """Evidence in which somebody empties a table right after it was written."""

    def write(self, manifest_of, taken_at_ms, tables):
        """See the port."""
        manifest = super().write(manifest_of, taken_at_ms, tables)
        if "after-canary" in manifest_of[1] and manifest_of[2] is Moment.AFTER:
            self.alter(manifest_of, "owners", [], rehash=False)
        return manifest


def test_an_altered_snapshot_is_not_compared_and_the_run_goes_back(group: CoordinationProcesses) -> None:
    """No Spark job runs on it; the judge names it."""
    group.evidence = group.proof.evidence = Tampered()
    _, ended = ends(group)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
    assert "is not what its manifest says" in ended.closing.reason
    assert group.kinds() == [OLD] * 3
    assert not [each for each in group.evidence.texts if "canary-compare-after" in each]


def test_a_declined_plan_changes_nothing(group: CoordinationProcesses) -> None:
    """The run ends as rejected, naming who said no."""
    group.declines = frozenset({"plan/approve"})
    stopped = group.drive(group.begin())
    assert isinstance(stopped, Stopped)
    assert stopped.closing is not None
    assert (stopped.closing.state, stopped.closing.verdict) == (RunState.REJECTED, Verdict.FAIL)
    assert "declined by bob" in stopped.closing.reason
    assert (group.kinds(), group.world.holder) == ([OLD] * 3, None)


def test_a_declined_toggle_leaves_the_group_as_it_is_with_its_rollback(group: CoordinationProcesses) -> None:
    """Aware members in zookeeper mode; the rollback still works."""
    group.declines = frozenset({TOGGLE_GATE})
    name = group.begin()
    stopped = group.drive(name)
    assert isinstance(stopped, Stopped)
    assert stopped.closing is not None
    assert (stopped.closing.state, stopped.closing.verdict) == (RunState.MOVED, Verdict.INCONCLUSIVE)
    assert group.world.mode_writes == 0
    assert back(group, name).closing.verdict is Verdict.PASS


def test_a_failure_while_it_soaks_is_judged_and_rolled_back(group: CoordinationProcesses) -> None:
    """Even when the group looks healthy again afterwards."""
    at = At({f"soak/soak {CrashPoint.BEFORE_JOURNAL.value}": lambda: kill_and_hold(group)})
    at.points[f"soak/snapshot after soak {CrashPoint.BEFORE_JOURNAL.value}"] = lambda: repair(group)
    _, ended = ends(group, at)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
    assert "m3" in ended.closing.reason


def test_a_group_of_aware_members_goes_back_to_what_it_was() -> None:
    """Old members come only when asked for, and then at every place."""
    group = make_coordination(AWARE)
    name, _ = ends(group)
    assert back(group, name, WayBack.ZOOKEEPER_MODE).closing.verdict is Verdict.PASS
    assert group.kinds() == [AWARE] * 3
    back(group, name, WayBack.OLD_MEMBERS, holder="back-2")
    assert group.kinds() == [OLD] * 3


def test_a_rollback_says_what_stays_in_kafka(group: CoordinationProcesses) -> None:
    """With the number, and the command that removes it; not where aware members stay and go on with it."""
    name, _ = ends(group)
    to_mode = back(group, name, WayBack.ZOOKEEPER_MODE).closing
    assert "Kafka still holds" not in to_mode.reason
    closing = back(group, name, WayBack.OLD_MEMBERS, holder="back-2").closing
    many = len(group.world.kafka)
    assert f"Kafka still holds {many} committed offsets of group orders-app" in closing.reason
    assert closing.following == "groupshift repair offsets --group orders-app --execute"


def test_a_mode_node_that_somebody_removed_closes_the_rollback(group: CoordinationProcesses) -> None:
    """It is observed: aware members would start in zookeeper mode beside plain ones."""
    group.declines = KEEPS
    name, _ = ends(group, until=Until.RETIRE)
    group.world.write_mode(None)
    with pytest.raises(Rejected, match="the mode node of group orders-app is gone"):
        group.roll_back(name)
    assert group.kinds() == [PLAIN] * 3


def test_a_run_is_bound_to_the_cluster_of_its_group(group: CoordinationProcesses) -> None:
    """ZooKeeper tells which one that is; runs of the cluster and of its groups exclude each other by it."""
    name = group.begin()
    assert group.runs.find(name).target.within == "c"
    elsewhere = replace(group.ports().side, cluster_id=lambda: "d")
    ports = replace(group.ports(), side=elsewhere)
    with pytest.raises(Rejected, match="name the servers of the run"):
        claim(group.move, group.tools(), ports, group.runs.find(name), group.options())


def test_facts_are_read_once_for_an_approval(group: CoordinationProcesses) -> None:
    """A second look takes up to a commit interval: only `look` takes it, and only where there is reason."""
    group.world.kafka = dict(group.world.znode)
    began = group.clock.now_ms()
    assert isinstance(group.move.glance(group.ports(), group.request(), frozenset()), LiveGroup)
    assert group.clock.now_ms() - began < LOOK_MS
    assert group.move.look(group.ports(), group.request()).facts.earlier is not None
    assert group.clock.now_ms() - began >= LOOK_MS


def test_a_reader_of_a_run_cannot_act(group: CoordinationProcesses) -> None:
    """Its report is made from the journal alone."""
    name, _ = ends(group)
    run = Run.reader(group.move, group.tools(), group.ports(), name)
    moved, judged = group.move.report(run)
    assert "Group orders-app moves until toggle" in moved.sentences[0]
    assert {"rehearse" in row[0] for row in judged.rows} == {True, False}
