"""Brokers that die, lie or wait for a person while an expansion restarts them, and what their files say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from groupshift.cli.run_output import progress_data
from groupshift.errors import Conflict
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.ports import counts_of
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import ForPerson, Replacement, Started
from support.driven_expansion import BOTH, STAYING, accepted, begun, killed
from support.driven_moves import Driver, detail, where
from support.simulated_expansion import Expansible, committed, driver_of, equal


class Once:
    """A driver that makes a change once, whatever becomes of the broker, as its port says."""

    def __init__(self, world: Expansible) -> None:
        self._world = world
        self.made: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)

    def start(self, replacement: Replacement) -> Started | ForPerson:
        """See the port."""
        if replacement.change_id in self.made:
            return Started(change_id=replacement.change_id)
        self.made.append(replacement.change_id)
        return self._world.start(replacement)


def once(world: Expansible) -> tuple[Driver, str, Once]:
    """A run to 8 partitions with such a driver."""
    driver, nodes = driver_of(world), Once(world)
    driver.ports = replace(driver.ports, nodes=nodes)
    return driver, begun(driver), nodes


@BOTH
def test_a_broker_that_died_is_started_by_another_change(kind: Coordinator) -> None:
    """A driver that was asked for the same change again would do nothing."""
    world = committed(kind)
    world.dies = {3}
    driver, run, nodes = once(world)
    stopped = driver.go_on(run, patience_s=5.0)
    assert where(stopped) == ("failed", "restart 3")
    assert "broker 3 does not run: killed" in detail(stopped)
    assert where(driver.go_on(run, patience_s=5.0)) == ("finalised", "")
    assert equal(world)
    assert len([each for each in nodes.made if "restart_3" in each]) == 2


@BOTH
def test_a_broker_that_died_after_its_restart_is_started_before_the_next(kind: Coordinator) -> None:
    """No step is left that would, and no broker is restarted while one is away."""
    world = committed(kind)
    world.dies = {3}
    driver, run, _ = once(world)
    assert where(driver.go_on(run, patience_s=5.0))[0] == "failed"
    world.world.stop(2)
    assert where(driver.go_on(run, patience_s=5.0)) == ("finalised", "")
    assert equal(world)


class Overtaken:
    """The same topic; another process claims the run each time it is asked whether the cluster is whole."""

    def __init__(self, world: Expansible, driver: Driver, run: str) -> None:
        self._world, self._driver, self._run = world, driver, run

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)

    def cluster_lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        self._driver.claim(self._run)
        return self._world.cluster_lacks(brokers)


@pytest.mark.parametrize("kind", ["restart", "place"])
def test_a_process_that_was_overtaken_while_it_waited_restarts_nothing(kind: str) -> None:
    """The fence is read after the waiting, right before the driver is asked."""
    world = committed(Coordinator.NEW)
    world.lies = {3} if kind == "place" else set()
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, kind)
    before = list(world.asked)
    with pytest.raises(Conflict):
        driver.go_on(run, ports=replace(driver.ports, topic=Overtaken(world, driver, run)))
    assert world.asked == before
    assert where(driver.go_on(run)) == ("finalised", "")


@BOTH
def test_a_count_that_is_not_in_the_file_of_a_broker_is_asked_about(kind: Coordinator) -> None:
    """Restarted without it: all offsets are there, and a person says whether it may stay so."""
    world = committed(kind)
    world.unset = {2}
    driver = driver_of(world)
    run = begun(driver)
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "audit __consumer_offsets")
    assert "broker 2 has offsets.topic.num.partitions=5" in detail(waiting)
    assert where(accepted(driver, run, waiting)) == ("finalised", "")
    assert equal(world)


@BOTH
def test_a_broker_that_was_not_restarted_is_found_and_restarted(kind: Coordinator) -> None:
    """Whatever its driver said: each broker is asked by which count it coordinates."""
    world = committed(kind)
    world.lies = {3}
    driver = driver_of(world)
    assert where(driver.go_on(begun(driver))) == ("finalised", "")
    assert world.asked.count("restart 3") == 2
    assert equal(world)


def test_brokers_that_all_deviate_are_restarted_one_a_process() -> None:
    """Never two of them at once; each process says whose turn it is."""
    world = committed(Coordinator.NEW)
    world.lies = {1, 3}
    driver = driver_of(world)
    run = begun(driver)
    stopped = driver.go_on(run)
    assert where(stopped) == ("failed", "place 8")
    assert "broker 3 still uses another partition count than 8" in detail(stopped)
    assert "run it again for the next one" in detail(stopped)
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)


def test_a_broker_that_dies_while_it_is_placed_is_started_again() -> None:
    """Its driver had lied first; then it did not come up."""
    world = committed(Coordinator.NEW)
    world.lies = {2}
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "place")
    world.dies = {2}
    stopped = driver.go_on(run)
    assert where(stopped) == ("failed", "place 8")
    assert "broker 2 does not run: killed" in detail(stopped)
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)


def test_no_broker_is_restarted_while_somebody_is_there() -> None:
    """Two brokers could serve one group; when they are gone it goes on."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "restart")
    world.members = {STAYING[0]}
    with pytest.raises(Conflict, match=f"members are in 1 group: {STAYING[0]}; stop them, then run it again"):
        driver.go_on(run)
    assert not any(each.startswith("restart") for each in world.asked)
    world.members = set()
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)


def test_a_restart_that_was_only_written_down_does_not_close_the_rollback() -> None:
    """No broker uses the new partitions yet, but they are there: the run only goes on."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, "restart", CrashPoint.AFTER_JOURNAL)
    world.members = {STAYING[0]}
    with pytest.raises(Conflict, match="members are in 1 group"):
        driver.go_on(run)
    assert not any(each.startswith("restart") for each in world.asked)
    world.members = set()
    assert where(driver.go_on(run)) == ("finalised", "")


def test_a_person_may_restart_brokers_and_the_cluster_shows_when_it_is_done() -> None:
    """The count that a broker uses is the proof."""
    world = committed(Coordinator.NEW)
    world.knows = False
    driver = driver_of(world)
    run = begun(driver)
    nodes = (2, 3, 1)
    assert sorted(nodes) == list(counts_of(driver.claim(run).plan).brokers)
    for node in nodes:
        waiting = driver.go_on(run)
        assert where(waiting) == ("waiting", f"restart {node}")
        assert f"restart broker {node} (broker {node} counts 5)" in detail(waiting)
        world.world.restart(node)
    assert where(driver.go_on(run)) == ("finalised", "")
    assert equal(world)


def test_a_count_that_brokers_have_not_taken_up_is_taken_up_by_a_run() -> None:
    """The latent bomb: somebody made partitions long ago, and restarted nobody."""
    world = committed(Coordinator.OLD)
    world.world.expand(8)
    driver = driver_of(world)
    assert where(driver.go_on(begun(driver))) == ("finalised", "")
    assert "create" not in world.asked
    assert equal(world)


def test_what_nobody_was_asked_for_was_not_accepted() -> None:
    """The process that was to show it was killed: the next one shows it first, whatever was answered."""
    world = committed(Coordinator.NEW, count=6)
    world.knows = False
    driver = driver_of(world)
    run = begun(driver, 12)
    killed(driver, run, "restart", CrashPoint.AFTER_READ_BACK)
    first = next(each for each in driver.claim(run).plan.steps if each.kind == "restart")
    shown = driver.go_on(run, accept=first.key)
    assert where(shown) == ("waiting", f"restart {first.subject}")
    assert f"--accept '{first.key}'" in detail(shown)
    assert where(accepted(driver, run, shown))[1] != f"restart {first.subject}"


def test_a_rollback_is_only_named_while_there_is_one() -> None:
    """A broker dies: its run only goes on. Before partitions are made, what was deleted can be undone."""
    world = committed(Coordinator.NEW)
    world.dies = {3}
    driver = driver_of(world)
    run = begun(driver)
    died = driver.go_on(run, patience_s=5.0)
    shown = progress_data(driver.claim(run), died)
    assert (where(died)[0], shown["undo"]) == ("failed", [])
    assert shown["next"] == f"groupshift continue {run} --execute"
    grown = committed(Coordinator.NEW)
    driver = driver_of(grown)
    grown.answers_lost = lambda: grown.asked[-1] == "create" and bool(grown.world.expand(12))
    run = begun(driver)
    shown = progress_data(driver.claim(run), driver.go_on(run))
    assert len(shown["undo"]) == 1
    assert shown["next"] == f"groupshift roll-back {run} --execute"
