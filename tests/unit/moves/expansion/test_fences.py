"""An expansion's last looks on the engine: each act of it is fenced, and believes nothing that it did not
see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from groupshift.domain.run import RunState
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.log import LogRecord
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion import ports, rehearse_and_commit_again
from groupshift.ports.clock import CrashPoint
from groupshift_testing.offset_brokers import OffsetBroker
from support.driven_expansion import MOVING, begun, die, killed
from support.driven_moves import At, Driver, detail, where
from support.simulated_downgrade import Killed
from support.simulated_expansion import Expansible, committed, driver_of, equal
from unit.moves.expansion.test_run import fenced


def run_to(world: Expansible, kind: str, point: CrashPoint = CrashPoint.BEFORE_JOURNAL) -> tuple[Driver, str]:
    """A run to 8 partitions, up to the first step of this kind."""
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, kind, point)
    return driver, run


class Log:
    """The world's log; ``before`` is called each time it is read, and may leave records out."""

    def __init__(self, world: Expansible, before: Callable[[], Callable[[LogRecord], bool]]) -> None:
        self._world, self._before = world, before

    def position(self) -> Any:
        """See the port."""
        return self._world.position()

    def read(self, *arguments: Any) -> Iterator[LogRecord]:
        """See the port."""
        return filter(self._before(), self._world.read(*arguments))


def everything(_record: LogRecord) -> bool:
    """No record is left out."""
    return True


def test_members_that_came_back_are_met_before_a_deletion_that_was_written_down() -> None:
    """Whatever group they are in."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "delete-groups", CrashPoint.AFTER_JOURNAL)
    world.members = {MOVING[1]}
    with pytest.raises(Conflict, match=f"members are in 1 group: {MOVING[1]}"):
        driver.go_on(run)
    assert "delete" not in world.asked


def test_a_group_that_does_not_answer_is_not_deleted() -> None:
    """What it has may not be in the snapshot."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "delete-groups", CrashPoint.AFTER_JOURNAL)
    world.silent = {MOVING[1]}
    with pytest.raises(Transient, match="is not answered"):
        driver.go_on(run)
    assert "delete" not in world.asked


@pytest.mark.parametrize(
    ("kind", "done"), [("rehearse", "commit"), ("delete-groups", "delete"), ("restore", "commit")]
)
def test_each_batch_is_fenced(kind: str, done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes the run over after the first batch: there is no second one."""
    monkeypatch.setattr(ports, "AT_A_TIME", 5)
    monkeypatch.setattr(rehearse_and_commit_again, "AT_A_TIME", 5)
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, kind)
    before = world.asked.count(done)
    overtaken = [True]

    def lost() -> bool:
        if overtaken and world.asked.count(done) == before + 1:
            overtaken.clear()
            driver.claim(run)
        return False

    world.answers_lost = lost
    with pytest.raises(Conflict):
        driver.go_on(run)
    assert (world.asked.count(done), overtaken) == (before + 1, [])
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)


def test_partitions_are_not_made_by_a_process_that_was_overtaken() -> None:
    """Between its last look and its request."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "create-partitions")

    def claimed() -> Callable[[LogRecord], bool]:
        driver.claim(run)
        return everything

    with pytest.raises(Conflict):
        driver.go_on(run, ports=replace(driver.ports, log=Log(world, claimed)))
    assert (len(world.world.logs), "create" in world.asked) == (5, False)


def test_tombstones_that_are_not_on_all_replicas_are_waited_for() -> None:
    """A broker that is stopped right then would hand its partitions to one without them."""
    world = committed(Coordinator.OLD)
    driver, run = run_to(world, "delete-groups")
    hidden, said = [3], list[str]()

    def lagging() -> Callable[[LogRecord], bool]:
        if hidden[0] > 0 and "delete" in world.asked:
            hidden[0] -= 1
            return lambda record: record.value is not None
        return everything

    driver.ports = replace(driver.ports, log=Log(world, lagging))
    paused = driver.go_on(run, phases=frozenset({"go", "delete"}), tell=lambda _step, text: said.append(text))
    assert where(paused) == ("paused", "create-partitions __consumer_offsets")
    assert len([each for each in said if "tombstones are not on all replicas yet" in each]) >= 3
    assert where(driver.go_on(run)) == ("finalised", "")


def test_a_broker_that_joined_after_the_approval_is_no_go() -> None:
    """It was not approved, and nobody would restart it."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "prove")
    world.world.brokers[4] = OffsetBroker(node_id=4, configured=5)
    world.world.start(4)
    stopped = driver.go_on(run)
    assert (where(stopped), stopped.checked.only_rollback_helps) == (("failed", "prove 8"), True)
    assert "broker 4: absent is now" in detail(stopped)
    assert f"groupshift roll-back {run} --execute" in detail(stopped)
    assert "delete" not in world.asked


def test_a_count_made_long_ago_is_taken_up_only_while_nobody_commits() -> None:
    """There the restarts are what cannot be undone: the last look is before them."""
    world = committed(Coordinator.NEW)
    world.world.expand(8)
    driver, run = run_to(world, "create-partitions")
    assert world.commit_as_client(MOVING[0], 150, 1)
    with pytest.raises(Conflict, match="came or committed since groups were deleted"):
        driver.go_on(run)
    world.delete([MOVING[0]])
    killed(driver, run, "place")
    with pytest.raises(Rejected, match=f"which cannot be undone.*groupshift continue {run}"):
        driver.roll_back(run)
    assert where(driver.go_on(run))[0] == "finalised"


def test_a_count_that_nobody_took_up_may_be_rolled_back_before_the_first_restart() -> None:
    """The partitions were there before the run."""
    world = committed(Coordinator.OLD)
    world.world.expand(8)
    driver, run = run_to(world, "restart")
    assert not equal(world)
    assert driver.roll_back(run)
    stopped = driver.go_on(run)
    assert where(stopped) == ("waiting", "audit __consumer_offsets"), "the topic is as it was met"
    assert equal(world)


def test_a_rollback_waits_until_brokers_tell_one_count() -> None:
    """One may tell the former count when partitions were just made."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "create-partitions")

    class Views:
        """Broker 3 tells another topic."""

        def __getattr__(self, name: str) -> object:
            return getattr(world, name)

        def look(self) -> object:
            """See the port."""
            return replace(world.look(), differing=(3,))

    with pytest.raises(Transient, match="brokers tell different counts"):
        driver.roll_back(run, ports=replace(driver.ports, views=Views()))
    assert driver.runs.find(run).state is RunState.RUNNING
    assert driver.roll_back(run)


def test_what_is_there_already_is_not_committed_again() -> None:
    """A restore that was cut off goes on with what is missing; silence after a commit is no success."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore", CrashPoint.AFTER_ACT)
    records = sum(map(len, world.world.logs))

    class Restoring:
        """As the world's, and no coordinator answers after it."""

        delete = staticmethod(world.delete)

        @staticmethod
        def commit(rows: Any) -> Any:
            """See the port."""
            found = world.commit(rows)
            world.silent = {MOVING[0]}
            return found

    with pytest.raises(Transient, match="is not answered"):
        driver.go_on(run, ports=replace(driver.ports, restoring=Restoring()))
    world.silent = set()
    assert where(driver.go_on(run)) == ("finalised", "")
    assert sum(map(len, world.world.logs)) == records
    assert equal(world)


def test_without_a_fence_the_plan_has_none() -> None:
    """Drivers that cannot; with one it comes right behind the approval, and at the very end."""
    bare = driver_of(committed(Coordinator.NEW))
    kinds = [each.kind for each in bare.claim(begun(bare)).plan.steps]
    assert not {"fence", "reopen"} & set(kinds)
    driver, _ = fenced(committed(Coordinator.NEW))
    kinds = [each.kind for each in driver.claim(begun(driver)).plan.steps]
    assert kinds[kinds.index("approve") + 1] == "fence"
    assert kinds[-2:] == ["audit", "reopen"]


@pytest.mark.parametrize("point", CrashPoint)
def test_a_process_killed_around_the_fence_ends_with_it_open(point: CrashPoint) -> None:
    """At every point of both steps."""
    world = committed(Coordinator.NEW)
    driver, fence = fenced(world)
    run = begun(driver)
    for kind in ("fence", "reopen"):
        with suppress(Killed):
            driver.go_on(run, At(kind, point, die))
    while driver.runs.find(run).state.is_open:
        driver.go_on(run)
    assert (fence.closed_by, equal(world)) == (set(), True)
