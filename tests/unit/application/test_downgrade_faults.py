"""What a downgrade's run meets when processes are killed, sleep, or come too late, and brokers are silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_run import begin, go_on, plan_run, turn_back
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.application.run_demands import demand_forward
from groupshift.application.run_engine import Ended
from groupshift.domain.group_protocol import Kind
from groupshift.domain.versions import Version
from groupshift.errors import Conflict, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import target_of
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import Accepted, NodeStatus, Replacement
from groupshift.ports.journal import ClusterRun, RunState
from support.simulated_downgrade import Group, Killed, World, again, one_of_39, tools_of, two_of_43, yes


def asked(to: str, now: str) -> DowngradeRequest:
    """From here to there."""
    return DowngradeRequest(target=target_of(to), said=Version.parse(now))


def begun(tools: DowngradeTools, to: str = "3.9.2", now: str = "4.3.1") -> ClusterRun:
    """A run of the plan for this world."""
    return begin(tools, plan_run(tools, asked(to, now)))


class At:
    """Does something, once, when a step of this kind reaches this point."""

    def __init__(self, act: str, point: CrashPoint, what: Callable[[], None]) -> None:
        self._act, self._point, self._what = act, point, what
        self._left = 1

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if self._left and self._act in step and point is self._point:
            self._left = 0
            self._what()


def die() -> None:
    """The process ends."""
    raise Killed


# the way back of a node that is dead


@pytest.mark.parametrize("make", [two_of_43, one_of_39])
def test_the_way_back_starts_a_dead_node_that_nobody_can_wait_for(make: Callable[[], World]) -> None:
    """It died at its start with the older release: one of two, and the only one of a cluster."""
    world = make()
    before = dict(world.releases)
    node = max(before)
    world.dies = {node}
    tools = tools_of(world)
    run = begun(tools) if len(before) > 1 else begun(tools, "3.4.0", "3.9.2")
    stopped = go_on(tools, yes(patience_s=4.0), run)
    assert (stopped.ended, world.down) == (Ended.FAILED, {node})
    found = go_on(tools, yes(patience_s=4.0), turn_back(tools, yes(), run))
    assert (found.ended, world.releases, world.down) == (Ended.TAKEN_BACK, before, set())


def test_the_way_back_waits_for_the_other_nodes() -> None:
    """One that runs is not stopped while another one is out of sync."""
    world = two_of_43()
    world.lose = {"simple"}
    tools = tools_of(world)
    run = begun(tools)
    assert go_on(tools, yes(), run).ended is Ended.FAILED
    turned = turn_back(tools, yes(), run)
    world.replaced[1] = ("somebody", "another")
    with pytest.raises(Transient, match="no node is touched: broker 1 is not registered"):
        go_on(tools, yes(patience_s=4.0), turned)
    assert world.releases[2] == "3.9.2"


# groups named like snapshots


@pytest.mark.parametrize("name", ["A", "B", "C0", "C1", "plan"])
def test_a_group_may_be_named_like_a_snapshot(name: str) -> None:
    """Empty or not, with configurations or not: its steps are not taken for those of the snapshot."""
    world = two_of_43()
    world.groups[name] = Group(kind=Kind.CONSUMER)
    world.group_configs[name] = {"consumer.session.timeout.ms": "50000"}
    tools = tools_of(world)
    run = begun(tools)
    assert go_on(tools, yes(), run).ended is Ended.DONE
    assert world.groups[name].kind is Kind.CLASSIC


# two processes


def test_a_run_that_was_turned_meanwhile_is_not_driven_on() -> None:
    """The process that read it before stops with a clear word, also when the way back is over."""
    world = two_of_43()
    world.checkpoint = None
    tools = tools_of(world)
    run = begun(tools)
    assert go_on(tools, yes(), run).ended is Ended.WAITING
    turned = turn_back(tools, yes(), run)
    before = list(world.asked)
    with pytest.raises(Conflict, match="was open and is going_back by another process since"):
        go_on(tools, yes(seen=True), run)
    with pytest.raises(Conflict, match="is being taken back; go on with that: groupshift downgrade back"):
        demand_forward(turned)
    assert world.asked == before
    assert go_on(tools, yes(), turned).ended is Ended.TAKEN_BACK
    with pytest.raises(Conflict, match="taken_back"):
        go_on(tools, yes(), run)


@pytest.mark.parametrize("act", ["convert-empty", "delete-configs", "lower", "replace"])
def test_a_process_that_was_asleep_before_its_act_changes_nothing(act: str) -> None:
    """Between its intent and the act the run was taken back as a whole."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    met: list[object] = []

    def take_back() -> None:
        awake = again(tools)
        turned = turn_back(awake, yes(), tools.runs.find(run.run))
        assert go_on(awake, yes(), turned).ended is Ended.TAKEN_BACK
        met.extend([list(world.asked), world.end()])

    late = replace(tools, crash=At(act, CrashPoint.AFTER_JOURNAL, take_back))
    with pytest.raises(Conflict, match="void"):
        go_on(late, yes(), run)
    assert [world.asked, world.end()] == met


def test_a_process_that_was_asleep_does_not_commit_for_a_compaction_any_more() -> None:
    """Its groups of its own would be left behind."""
    world = one_of_39()
    tools = tools_of(world)
    run = begun(tools, "3.4.0", "3.9.2")

    def take_back() -> None:
        awake = again(tools)
        go_on(awake, yes(), turn_back(awake, yes(), tools.runs.find(run.run)))

    late = replace(tools, crash=At(" compact", CrashPoint.AFTER_ACT, take_back))
    with pytest.raises(Conflict, match="void"):
        go_on(late, yes(), run)
    assert world.churns == 0


# brokers that load


def test_a_group_that_nobody_lists_yet_is_not_converted() -> None:
    """While a broker loads, an empty list proves nothing: the run waits, and then converts the group."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)

    def load() -> None:
        world.loading = 6

    late = replace(tools, crash=At("convert-empty", CrashPoint.AFTER_JOURNAL, load))
    assert go_on(late, yes(), run).ended is Ended.DONE
    assert world.asked[0] == "convert left"


def test_a_broker_that_goes_on_loading_is_named() -> None:
    """And nothing is changed."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)

    def load() -> None:
        world.loading = 10_000

    late = replace(tools, crash=At("convert-empty", CrashPoint.AFTER_JOURNAL, load))
    with pytest.raises(Transient, match="broker 1, 2 still loads coordinator partitions"):
        go_on(late, yes(), run)
    assert world.asked == []


# the go/no-go before an act that was only written down


def test_a_replacement_that_was_only_written_down_needs_a_new_go() -> None:
    """A consumer group that came since is found before the node is touched."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    with pytest.raises(Killed):
        go_on(replace(tools, crash=At("replace", CrashPoint.AFTER_JOURNAL, die)), yes(), run)
    world.groups["late"] = Group(kind=Kind.CONSUMER, members=1)
    stopped = go_on(again(tools), yes(), run)
    assert (stopped.ended, stopped.step.split()[1]) == (Ended.FAILED, "prove")
    assert set(world.releases.values()) == {"4.3.1"}
    del world.groups["late"]
    assert go_on(again(tools), yes(), run).ended is Ended.DONE


@dataclass
class Unreachable:
    """A driver whose programs cannot be started; it still tells what it knows."""

    world: World

    def start(self, replacement: Replacement) -> Accepted:
        """See the port."""
        raise Transient(f"the driver did not answer for node {replacement.node_id}")

    def observe(self, node_id: int) -> NodeStatus:
        """See the port."""
        return self.world.observe(node_id)


def test_a_replacement_that_the_driver_did_not_take_up_needs_a_new_go() -> None:
    """What is written down of the stop is no word of an act: checks are made again, as often as it takes."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    with pytest.raises(Transient, match="the driver did not answer"):
        go_on(replace(tools, nodes=Unreachable(world)), yes(), run)
    world.groups["late"] = Group(kind=Kind.CONSUMER, members=1)
    for _ in range(2):
        stopped = go_on(again(tools), yes(), run)
        assert (stopped.ended, stopped.step.split()[1]) == (Ended.FAILED, "prove")
    assert set(world.releases.values()) == {"4.3.1"}
    del world.groups["late"]
    assert go_on(again(tools), yes(), run).ended is Ended.DONE


def test_a_replacement_that_was_made_and_not_written_down_is_gone_on_with() -> None:
    """The driver knows the change: rules for brokers of one release are not asked of two."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    with pytest.raises(Killed):
        go_on(replace(tools, crash=At("replace", CrashPoint.AFTER_ACT, die)), yes(), run)
    assert set(world.releases.values()) == {"4.3.1", "3.9.2"}
    assert go_on(again(tools), yes(), run).ended is Ended.DONE


def test_the_way_back_compares_with_what_there_is_when_the_last_snapshot_was_cut_off() -> None:
    """Killed before the act, then while C0 was taken again: back is compared with what C0 was."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    for act in ("replace", "compare C0"):
        with pytest.raises(Killed):
            go_on(replace(tools, crash=At(act, CrashPoint.AFTER_JOURNAL, die)), yes(), run)
    assert go_on(again(tools), yes(), turn_back(tools, yes(), run)).ended is Ended.TAKEN_BACK


# acts that were never taken up


def test_what_was_not_seen_in_time_is_done_again() -> None:
    """The controller forgot the request: the next process asks again instead of only looking."""
    world = two_of_43()
    tools = tools_of(world)
    run = begun(tools)
    lower, lost = world.lower_feature, [True]

    def forgetful(feature: str, level: int) -> None:
        if lost:
            lost.pop()
            return
        lower(feature, level)

    world.lower_feature = forgetful  # type: ignore[method-assign]
    stopped = go_on(tools, yes(patience_s=4.0), run)
    assert (stopped.ended, stopped.step.split()[1]) == (Ended.WAITING, "lower")
    assert go_on(again(tools), yes(), run).ended is Ended.DONE
    assert world.features["group.version"] == 0


# releases that brokers do not tell apart


def patches() -> World:
    """Two brokers of 4.2.1, nothing to prepare."""
    new = {1: Coordinator.NEW, 2: Coordinator.NEW}
    return World(
        groups={"simple": Group(kind=Kind.CLASSIC, offset=7)},
        releases={1: "4.2.1", 2: "4.2.1"},
        coordinators=new,
        features={"metadata.version": 21, "group.version": 1},
        knows=False,
        checkpoint=None,
    )


def test_a_person_says_when_a_node_runs_a_release_of_the_same_line() -> None:
    """4.2.1 to 4.2.0 by hand: never taken as done at once, and one word is for one node."""
    world = patches()
    tools = tools_of(world)
    run = begun(tools, "4.2.0", "4.2.1")
    for node in (2, 1):
        for seen in [False, False] if node == 2 else [False]:
            stopped = go_on(again(tools), yes(seen=seen), run)
            assert (stopped.ended, stopped.step.split()[1:]) == (Ended.WAITING, ["replace", str(node)])
            assert "start 4.2.0" in stopped.detail
            assert "say --seen" in stopped.detail
        world.releases[node] = "4.2.0"
        stopped = go_on(again(tools), yes(seen=True), run)
    assert stopped.ended is Ended.DONE
    assert tools.runs.find(run.run).state is RunState.DONE


def test_whoever_says_seen_before_he_was_told_says_nothing() -> None:
    """The first process gives the instruction; its own --seen is of something else."""
    world = patches()
    tools = tools_of(world)
    run = begun(tools, "4.2.0", "4.2.1")
    assert go_on(tools, yes(seen=True), run).ended is Ended.WAITING
    assert set(world.releases.values()) == {"4.2.1"}


def test_another_line_is_told_by_the_broker_itself() -> None:
    """Nobody has to say anything then, and a person's word is not taken for it."""
    world = two_of_43()
    world.knows = False
    tools = tools_of(world)
    run = begun(tools)
    for seen in (False, True):
        stopped = go_on(again(tools), yes(seen=seen), run)
        assert (stopped.ended, stopped.step.split()[1:]) == (Ended.WAITING, ["replace", "2"])
    for node in (2, 1):
        world.releases[node], world.coordinators[node] = "3.9.2", Coordinator.OLD
        stopped = go_on(again(tools), yes(), run)
    assert stopped.ended is Ended.DONE
