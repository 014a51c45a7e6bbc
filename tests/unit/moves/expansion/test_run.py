"""An expansion on the engine, step by step: what it waits for, what it refuses, where it stops, what somebody
else does meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.cluster import COUNT
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.run import Outcome, RunState, StepState
from groupshift.engine.begin import request_differences
from groupshift.engine.watch import watch
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.ports.driver import ClientFence
from support.driven_expansion import BOTH, LATE, MOVING, accepting, begun, killed
from support.driven_moves import Driver, declines, detail, nobody, where
from support.simulated_expansion import Expansible, committed, driver_of, equal

RESTARTS = ["restart 2", "restart 3", "restart 1"]


@BOTH
def test_every_offset_is_there_after_the_move_and_after_leaders_moved(kind: Coordinator) -> None:
    """The count of the file is set with the restart; groups that stay are not touched."""
    world = committed(kind)
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)
    assert world.asked == ["commit", "delete", "create", *RESTARTS, "commit"]
    assert world.properties == {node: {COUNT: "8"} for node in (1, 2, 3)}
    for partition in range(8):
        world.world.bounce(partition)
    assert equal(world)
    assert {each.state for each in driver.runs.steps(run).values()} == {StepState.DONE}


@BOTH
def test_members_are_waited_for_by_name_and_the_run_ends_without_a_change(kind: Coordinator) -> None:
    """Whoever was stopped may start again; the cluster is free for another plan."""
    world = committed(kind)
    world.members = {"g3", "g4"}
    driver = driver_of(world)
    run = begun(driver)
    stopped = driver.go_on(run, patience_s=10.0)
    assert where(stopped) == ("waiting", "drain")
    assert "2 groups: g3, g4" in detail(stopped)
    assert world.asked == []
    assert driver.runs.find(run).state is RunState.REJECTED
    assert begun(driver, 10)


def test_a_plan_that_is_not_approved_changes_nothing() -> None:
    """Nobody there to answer keeps the run; a no ends it."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run, decide=nobody)) == ("waiting", "approve plan")
    assert where(driver.go_on(run, decide=declines)) == ("declined", "approve plan")
    assert (world.asked, driver.runs.find(run).state) == ([], RunState.REJECTED)


def test_an_approval_is_void_when_another_group_moves() -> None:
    """It came after it was approved, and nothing was changed: the run is over."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "delete-groups")
    new = next(name for name in LATE if partition_of(name, 5) != partition_of(name, 12))
    mover = next(
        name
        for name in (f"new{number}" for number in range(99))
        if partition_of(name, 5) != partition_of(name, 8)
    )
    assert new != mover
    assert world.commit_as_client(mover, 5, 1)
    stopped = driver.go_on(run)
    assert where(stopped)[0] == "failed"
    assert driver.roll_back(run) is False
    assert (world.asked.count("delete"), driver.runs.find(run).state) == (0, RunState.REJECTED)


def test_another_count_that_is_asked_for_is_named() -> None:
    """The open run goes on by its own plan."""
    driver = driver_of(committed(Coordinator.NEW))
    run = begun(driver)
    found = request_differences(driver.runs.find(run), ExpansionRequest(to=10))
    assert found == ("to: the run has 8, asked for is 10",)
    with pytest.raises(Conflict, match=f"run {run} of cluster simulated is planned and is in the way"):
        begun(driver, 10)


def test_a_commit_after_the_snapshot_stops_before_anything_is_deleted() -> None:
    """A simple consumer is refused by nobody: the comparison with the snapshot sees it, and only a rollback
    helps."""
    world = committed(Coordinator.OLD)
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run, phases=frozenset({"drain", "snapshot"}))) == ("paused", "approve plan")
    assert world.commit_as_client("g1", 999, 1)
    stopped = driver.go_on(run)
    assert where(stopped) == ("failed", "compare S0")
    assert stopped.checked.only_rollback_helps
    assert "delete" not in world.asked


@BOTH
def test_groups_that_were_deleted_are_back_after_a_rollback(kind: Coordinator) -> None:
    """Before partitions are made; afterwards there is no rollback any more."""
    world = committed(kind)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "create-partitions")
    assert not equal(world)
    assert driver.roll_back(run)
    assert where(driver.go_on(run)) == ("rolled_back", "")
    assert equal(world)
    later = begun(driver)
    killed(driver, later, "restart")
    with pytest.raises(Rejected, match="partitions never become fewer, and there are 8"):
        driver.roll_back(later)
    assert where(driver.go_on(later)) == ("finalised", "")
    with pytest.raises(Rejected, match="is finalised: there is no rollback any more"):
        driver.roll_back(later)


@BOTH
def test_more_partitions_before_a_restart_stop_the_run_while_there_is_a_rollback(kind: Coordinator) -> None:
    """No broker uses them yet: none is restarted."""
    world = committed(kind)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "restart")
    world.world.expand(12)
    with pytest.raises(Conflict, match="has 12 partitions, neither 5 nor 8"):
        driver.go_on(run)
    assert not any(each.startswith("restart") for each in world.asked)
    assert driver.roll_back(run), "what was deleted is committed again"
    accepting(driver, run, "rolled_back")
    assert equal(world)


@BOTH
def test_more_partitions_after_a_restart_are_used_once_a_person_accepts_them(kind: Coordinator) -> None:
    """There is only the way forward: more groups move than were deleted, and the snapshot has all."""
    world = committed(kind)
    for group in LATE:
        assert world.commit_as_client(group, 7, 1)
    world.dies = {3}
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run, patience_s=5.0)) == ("failed", "restart 3")
    world.world.expand(12)
    asked = driver.go_on(run, patience_s=5.0)
    assert where(asked) == ("waiting", "place 8")
    assert "12 partitions, not 8" in detail(asked)
    assert detail(driver.go_on(run, patience_s=5.0)) == detail(asked), "nobody accepted it"
    end = accepting(driver, run)[-1]
    assert end.closing.verdict.value == "fail", "what was only accepted is red"
    assert {broker.count for broker in world.world.brokers.values()} == {12}
    assert world.properties[2] == {COUNT: "12"}, "the broker that was restarted before is restarted again"
    assert equal(world)


def test_a_count_that_changes_once_more_is_asked_for_again() -> None:
    """What was accepted was 12."""
    world = committed(Coordinator.NEW)
    world.dies = {3}
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run, patience_s=5.0)) == ("failed", "restart 3")
    world.world.expand(12)
    shown = driver.go_on(run, patience_s=5.0)
    world.world.expand(16)
    again = driver.go_on(run, patience_s=5.0, accept=shown.step.key)
    assert where(again) == ("waiting", "place 8")
    assert "to go on to 16" in detail(again)
    accepting(driver, run)
    assert {broker.count for broker in world.world.brokers.values()} == {16}
    assert equal(world)


def test_what_was_accepted_is_kept_while_a_broker_is_down() -> None:
    """It dies when it is to take the other count up: it is started again with that count, and nobody is
    asked twice."""
    world = committed(Coordinator.NEW)
    world.dies = {3}
    driver = driver_of(world)
    run = begun(driver)
    driver.go_on(run, patience_s=5.0)
    world.world.expand(12)
    shown = driver.go_on(run, patience_s=5.0)
    world.dies = {2}
    down = driver.go_on(run, patience_s=5.0, accept=shown.step.key)
    assert "broker 2 does not run" in detail(down)
    for _ in range(10):
        found = driver.go_on(run, patience_s=5.0)
        if where(found)[0] == "finalised":
            break
        assert "--accept" not in detail(found)
    assert where(found)[0] == "finalised"
    assert world.properties[2] == {COUNT: "12"}
    assert equal(world)


@BOTH
def test_a_broker_whose_answers_fit_both_counts_is_found_by_where_it_puts_commits(kind: Coordinator) -> None:
    """From 6 to 12 each group's two partitions have one leader: nothing that a broker answers tells."""
    world = committed(kind, count=6)
    world.lies = {2}
    driver = driver_of(world)
    run = begun(driver, 12)
    stopped = driver.go_on(run, patience_s=5.0)
    assert where(stopped) == ("waiting", "restore S")
    assert "broker 2 uses no 12 partitions; restart it" in detail(stopped)
    world.world.restart(2)
    accepting(driver, run)
    assert equal(world)


def test_what_cannot_be_committed_again_is_refused_before_anything_is_deleted() -> None:
    """By the rehearsal; whoever cures it goes on."""
    world = committed(Coordinator.NEW)
    world.uncommitted = {MOVING[0]: "GROUP_AUTHORIZATION_FAILED (30)"}
    driver = driver_of(world)
    run = begun(driver)
    stopped = driver.go_on(run, patience_s=5.0)
    if where(stopped)[0] == "finalised":
        pytest.fail("a refused commit was taken for a good one")
    assert "GROUP_AUTHORIZATION_FAILED" in detail(stopped)


class Fenced:
    """The same driver of nodes, with a fence; ``fails`` times it does not answer."""

    def __init__(self, world: Expansible, fails: int = 0) -> None:
        self._world, self._fails = world, fails
        self.closed_by: set[str] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)

    def keep_out(self, run: str) -> None:
        """See the port."""
        if self._fails:
            self._fails -= 1
            raise Transient("the program of fence.keep_out ended with 1")
        self.closed_by.add(run)
        self._world.asked.append("closed")

    def let_in(self, run: str) -> None:
        """See the port."""
        self.closed_by.discard(run)
        self._world.asked.append("opened")


def fenced(world: Expansible, fails: int = 0) -> tuple[Driver, Fenced]:
    """Processes whose driver of nodes has a fence."""
    driver, fence = driver_of(world), Fenced(world, fails)
    assert isinstance(fence, ClientFence)
    driver.ports = replace(driver.ports, nodes=fence)
    return driver, fence


def test_clients_are_kept_out_from_the_approval_to_the_end() -> None:
    """Before anything is deleted, and until the log was read."""
    world = committed(Coordinator.OLD)
    driver, fence = fenced(world)
    assert where(driver.go_on(begun(driver))) == ("finalised", "")
    done = [each for each in world.asked if each in {"closed", "delete", "create", "opened"}]
    assert done == ["closed", "delete", "create", "opened"]
    assert (fence.closed_by, equal(world)) == (set(), True)


@pytest.mark.parametrize("until", ["compare", "create-partitions"])
def test_a_rollback_lets_clients_in_again(until: str) -> None:
    """Whether groups were deleted or not."""
    world = committed(Coordinator.NEW)
    driver, fence = fenced(world)
    run = begun(driver)
    killed(driver, run, until)
    assert fence.closed_by
    assert driver.roll_back(run)
    assert where(driver.go_on(run)) == ("rolled_back", "")
    assert (fence.closed_by, equal(world)) == (set(), True)


def test_a_fence_that_fails_stops_the_run_before_anything_is_changed() -> None:
    """The next run closes it; a process without that file says what it lacks."""
    world = committed(Coordinator.NEW)
    driver, _ = fenced(world, fails=1)
    run = begun(driver)
    with pytest.raises(Transient, match=r"fence\.keep_out"):
        driver.go_on(run)
    with pytest.raises(Rejected, match="name that file with --nodes"):
        driver.go_on(run, ports=replace(driver.ports, nodes=world))
    assert world.asked == []
    assert where(driver.go_on(run)) == ("finalised", "")


def test_a_run_that_is_over_is_watched() -> None:
    """An offset that fell is named; a good one passes."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    driver.go_on(run)
    assert watch(driver.move, driver.tools(), driver.ports, run).outcome is Outcome.PASS
    group = MOVING[0]
    assert world.commit_as_client(group, 1, 1) or world.commit_as_client(group, 1, 2)
    found = watch(driver.move, driver.tools(), driver.ports, run)
    assert found.outcome is Outcome.FAIL
    assert any(f"group {group}, t-0" in each.reason for each in found.findings)
