"""Counts that are not the plan's, on the engine: somebody else gives the topic more, or a broker keeps one of
before and its answers do not show it. No offset is lost by it, nor a run stuck."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from groupshift.domain.cluster import PlacementView
from groupshift.domain.rows import LISTED_TOO, ClusterState, ProblemRow
from groupshift.engine.move import Run
from groupshift.errors import Conflict
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.ports import count_of
from groupshift.ports.clock import CrashPoint
from support.driven_expansion import BOTH, LATE, MOVING, STAYING, accepted, accepting, begun, killed
from support.driven_moves import Driver, detail, where
from support.simulated_expansion import GROUPS, Expansible, committed, driver_of, equal


def run_to(world: Expansible, kind: str, to: int = 8) -> tuple[Driver, str]:
    """A run, up to the first step of this kind."""
    driver = driver_of(world)
    run = begun(driver, to)
    killed(driver, run, kind)
    return driver, run


def with_late(kind: Coordinator, **changes: int) -> Expansible:
    """Groups that move at 12 partitions have offsets, too."""
    world = committed(kind, **changes)
    for group in LATE:
        assert world.commit_as_client(group, 7, 1)
    return world


def test_more_partitions_than_were_made_stop_the_run_at_once() -> None:
    """Before they are read back as the plan's: only a rollback helps."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)

    def meanwhile() -> bool:
        if world.asked[-1] == "create":
            world.world.expand(12)
        return False

    world.answers_lost = meanwhile
    run = begun(driver)
    stopped = driver.go_on(run)
    assert (where(stopped)[0], stopped.checked.only_rollback_helps) == ("failed", True)
    assert "has 12 partitions" in detail(stopped)
    assert driver.roll_back(run)
    accepting(driver, run, "rolled_back")
    assert equal(world)


def test_more_partitions_before_any_are_made_stop_the_run_which_can_be_rolled_back() -> None:
    """Brokers still use what they used: what was deleted is committed there again."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "create-partitions")
    world.world.expand(12)
    with pytest.raises(Conflict, match=f"12 partitions, neither 5 nor 8.*groupshift roll-back {run} --execu"):
        driver.go_on(run)
    assert driver.roll_back(run)
    back = driver.go_on(run)
    assert where(back)[0] == "waiting"
    assert "X04: __consumer_offsets has 12 partitions and all brokers count 5" in detail(back)
    assert equal(world)
    assert where(accepted(driver, run, back)) == ("rolled_back", "")


@BOTH
def test_residue_hides_no_difference(kind: Coordinator) -> None:
    """More groups are listed twice than sentences are journaled: what is lost is named before them, and what
    is accepted is all of it."""
    world = with_late(kind)
    world.dies = {3}
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run, patience_s=5.0)) == ("failed", "restart 3")
    world.world.expand(12)
    found = driver.go_on(run, patience_s=5.0)
    for _ in range(6):
        if where(found)[1] == "compare V":
            break
        found = accepted(driver, run, found)
    assert where(found) == ("failed", "compare V")
    lost = STAYING[0]
    before = GROUPS.index(lost)
    world.delete({lost})
    again = accepted(driver, run, found)
    assert where(again) == ("failed", "compare V"), "nobody was shown that"
    assert f"{lost}: {100 + before} is None" in detail(again).split(";")[0]


@BOTH
@pytest.mark.parametrize("until", ["restore S", "compare V", "verify V", "audit"])
def test_more_partitions_after_brokers_were_asked_send_the_run_back_there(
    kind: Coordinator, until: str
) -> None:
    """Somebody else restarts a broker then: all are restarted, and every step since is done again."""
    world = with_late(kind)
    driver, run = run_to(world, until)
    world.world.expand(12)
    world.world.restart(1)
    asked = driver.go_on(run)
    assert where(asked) == ("waiting", "place 8")
    assert f"to go on to 12: groupshift continue {run} --accept '{asked.step.key}'" in detail(asked)
    accepting(driver, run)
    assert {broker.count for broker in world.world.brokers.values()} == {12}
    assert count_of(Run.reader(driver.move, driver.tools(), driver.ports, run)) == 12
    assert equal(world)


@pytest.mark.parametrize("point", CrashPoint)
def test_going_back_to_a_step_may_be_cut_off_anywhere(point: CrashPoint) -> None:
    """The next process sees the same, and ends what is left."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "audit")
    world.world.expand(12)
    killed(driver, run, "place", point)
    assert where(driver.go_on(run)) == ("waiting", "place 8")
    accepting(driver, run)
    assert equal(world)


@BOTH
def test_a_rollback_names_who_does_not_use_what_somebody_else_made(kind: Coordinator) -> None:
    """While brokers use different counts nothing is committed; then every group that moves by that count gets
    its offsets back, also those that the plan did not move."""
    world = with_late(kind)
    driver, run = run_to(world, "create-partitions")
    world.world.expand(12)
    world.world.restart(1)
    assert driver.roll_back(run)
    before = list(world.asked)
    with pytest.raises(Conflict, match=r"12 partitions.*; broker 2, 3 does not: .*restart broker 2, 3,"):
        driver.go_on(run)
    assert world.asked == before
    for node in (2, 3):
        world.world.restart(node)
    accepting(driver, run, "rolled_back")
    assert equal(world)


@BOTH
@pytest.mark.parametrize(("count", "nodes"), [(6, 3), (5, 1)])
def test_a_rollback_where_answers_fit_both_counts(kind: Coordinator, count: int, nodes: int) -> None:
    """The log shows which one brokers use."""
    world = with_late(kind, count=count, nodes=nodes)
    driver, run = run_to(world, "create-partitions")
    world.world.expand(12)
    for node in world.world.brokers:
        world.world.restart(node)
    assert driver.roll_back(run)
    accepting(driver, run, "rolled_back")
    assert equal(world)


@dataclass(slots=True)
class Unfit:
    """The same brokers; nothing that broker 2 answers fits a count."""

    world: Expansible

    def __getattr__(self, name: str) -> object:
        return getattr(self.world, name)

    def look(self) -> PlacementView:
        """See the port."""
        found = self.world.look()
        answers = [
            replace(each, named=dict.fromkeys(each.named, 99)) if each.node_id == 2 else each
            for each in found.answers
        ]
        return replace(found, answers=tuple(answers))


def test_a_broker_that_fits_no_count_holds_up_no_rollback() -> None:
    """Nobody changed the topic: the audit names it."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "create-partitions")
    assert driver.roll_back(run)
    stopped = driver.go_on(run, ports=replace(driver.ports, views=Unfit(world)))
    assert where(stopped) == ("waiting", "audit __consumer_offsets")
    assert "broker 2 fits no count" in detail(stopped)
    assert equal(world)


def test_a_rollback_commits_again_where_brokers_restart_meanwhile() -> None:
    """After it committed everything where it was."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "create-partitions")
    world.world.expand(12)
    assert driver.roll_back(run)
    killed(driver, run, "compare D")
    for node in (1, 2, 3):
        world.world.restart(node)
    stopped = driver.go_on(run)
    assert world.asked.count("commit") == 3, "rehearsed, committed where it was, and committed again"
    assert where(stopped)[0] != "rolled_back", "somebody else changed the count: a person is asked"
    accepting(driver, run, "rolled_back")
    assert equal(world)


@BOTH
def test_what_was_not_deleted_names_its_cure(kind: Coordinator) -> None:
    """Groups that only the other count moves lie where 5 partitions put them, too: OLD coordinators may
    answer that one day."""
    world = with_late(kind)
    driver, run = run_to(world, "audit")
    world.world.expand(12)
    world.world.restart(1)
    said = [detail(each) for each in accepting(driver, run)[:-1]]
    assert any("groupshift repair placement --execute" in each for each in said)
    named = [each for each in said if "X07" in each]
    assert bool(named) is (kind is Coordinator.OLD)
    assert all("groupshift repair placement" in each for each in named)


def test_what_was_not_shown_is_not_accepted() -> None:
    """A broker is down, and only that is said: the count is shown once it is up."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "place")
    world.world.expand(12)
    world.world.stop(2)
    world.dies = {2}
    down = driver.go_on(run, patience_s=5.0)
    assert "broker 2 does not run" in detail(down)
    up = accepted(driver, run, down)
    assert where(up) == ("failed", "place 8")
    assert "has 12 partitions by now" in detail(up)
    assert "run it again" in detail(up)
    shown = accepted(driver, run, up)
    assert where(shown) == ("waiting", "place 8")
    assert "to go on to 12" in detail(shown)
    accepting(driver, run)
    assert equal(world)


def test_what_was_left_by_a_killed_process_is_shown_first() -> None:
    """It was journaled, and nobody saw it."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore S")
    world.uncommitted = {MOVING[0]: "TOPIC_AUTHORIZATION_FAILED (29)"}
    killed(driver, run, "restore S", CrashPoint.AFTER_READ_BACK)
    key = next(each.key for each in driver.claim(run).plan.steps if each.kind == "restore")
    asked = driver.go_on(run, accept=key)
    assert where(asked) == ("waiting", "restore S")
    assert "(29)" in detail(asked)


def test_what_is_accepted_while_a_broker_is_down_counts() -> None:
    """It is started, and nobody is asked once more."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "place")
    world.world.expand(12)
    found = driver.go_on(run)
    assert "go on to 12" in detail(found)
    world.world.stop(2)
    found = accepted(driver, run, found)
    for _ in range(10):
        if where(found)[0] == "finalised":
            break
        assert "go on to 12" not in detail(found)
        accept = found.step.key if found.step.kind == "compare" else ""
        found = driver.go_on(run, patience_s=5.0, accept=accept)
    assert where(found)[0] == "finalised"
    assert equal(world)


@BOTH
def test_more_residue_than_was_shown_is_not_accepted(kind: Coordinator) -> None:
    """Another group is listed twice, behind those that are named: it is shown first."""
    world = with_late(kind)
    driver, run = run_to(world, "audit")
    world.world.expand(12)
    world.world.restart(1)
    found = driver.go_on(run, patience_s=5.0)
    for _ in range(6):
        if where(found)[1] == "compare V":
            break
        found = accepted(driver, run, found)
    assert "more (digest of all: " in detail(found)
    more = Listed(world, MOVING[0])
    again = accepted(driver, run, found, ports=replace(driver.ports, reader=more))
    assert where(again) == ("failed", "compare V")
    assert where(accepted(driver, run, again, ports=replace(driver.ports, reader=more)))[1] != "compare V"


@dataclass(slots=True)
class Listed:
    """The same reader; one more group is listed by two brokers, behind all others."""

    world: Expansible
    group: str

    def __getattr__(self, name: str) -> object:
        return getattr(self.world, name)

    def take(self, *given: object, **named: object) -> ClusterState:
        """See the port."""
        found = self.world.take(*given, **named)  # type: ignore[arg-type]
        problem = ProblemRow(group=self.group, problem=f"1{LISTED_TOO}2")
        return replace(found, problems=[*found.problems, problem])
