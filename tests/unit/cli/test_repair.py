"""What ``groupshift repair placement`` says to do next, and whether it is satisfied; on OLD coordinators."""

from __future__ import annotations

from dataclasses import replace

from groupshift.cli.repair import clean, following
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.repair_lost_offsets import (
    Mend,
    PlannedRepair,
    RepairTools,
    plan_repair,
    repair,
)
from groupshift_testing.offset_brokers import OffsetBrokers
from support.simulated_expansion import Expansible

GROUPS = [f"g{number}" for number in range(24)]
MOVING = [group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)]
AGAIN = "stop the members of these groups, then: groupshift repair placement --execute"
DAY_MS = 24 * 3_600_000


def careless() -> Expansible:
    """Every group committed, then 8 partitions and a restart of every broker."""
    world = Expansible(world=OffsetBrokers(kind=Coordinator.OLD, count=5, nodes=3))
    for number, group in enumerate(GROUPS):
        assert world.commit_as_client(group, 100 + number, 1)
    world.world.expand(8)
    for node in world.world.brokers:
        world.world.restart(node)
    return world


def planned(world: Expansible, within_ms: int = DAY_MS) -> PlannedRepair:
    """What the log says."""
    return plan_repair(world, world, within_ms)


def tools(world: Expansible) -> RepairTools:
    """Every port."""
    return RepairTools(views=world, log=world, restoring=world, reader=world, erasing=world)


def test_a_whole_repair_ends_with_restarts_also_when_it_is_asked_again() -> None:
    """Caches keep what they loaded: a run that finds nothing left to write says so, with the time."""
    world = careless()
    plan = planned(world)
    assert (clean(plan, None), following(plan, None)) == (False, AGAIN)
    done = repair(plan, tools(world))
    assert clean(plan, done)
    then = "restart every broker while clients are stopped, then: groupshift audit placement"
    assert following(plan, done) == then
    again = planned(world)
    assert clean(again, None)
    nothing = repair(again, tools(world))
    for found in (None, nothing):
        assert following(again, found).startswith("restart brokers that run since before ")
        assert following(again, found).endswith(
            "(they may answer what was erased then), then: groupshift audit placement"
        )


def test_a_cluster_where_nothing_was_ever_elsewhere_needs_no_restart() -> None:
    """Nothing is lost, nothing was erased."""
    world = Expansible(world=OffsetBrokers(kind=Coordinator.OLD, count=5, nodes=3))
    assert world.commit_as_client("g1", 1, 1)
    plan = planned(world)
    assert (clean(plan, None), following(plan, None)) == (True, "groupshift audit placement")


def test_strays_of_a_group_with_members_are_waited_for() -> None:
    """Although nothing of it is to be committed."""
    world = careless()
    asked = next(node for node in world.world.brokers if world.world.serves(node, MOVING[0]))
    assert world.commit_as_client(MOVING[0], 999, asked)
    world.members = {MOVING[0]}
    plan = planned(world)
    done = repair(plan, tools(world))
    assert (clean(plan, done), following(plan, done)) == (False, AGAIN)


def test_a_person_is_asked_where_only_a_person_can_decide() -> None:
    """Old commits are conflicts: no run settles them, with members or without."""
    world = careless()
    world.world.now_ms += 60_000
    world.members = {MOVING[0]}
    plan = planned(world, within_ms=1_000)
    assert {each.mend for each in plan.repairs} == {Mend.CONFLICT}
    assert following(plan, None).startswith("decide each conflict")
    done = repair(plan, tools(world))
    assert not clean(plan, done)
    assert following(plan, done).startswith("decide each conflict")


def test_what_forbids_a_repair_is_said_although_nothing_is_to_be_restored() -> None:
    """Not clean: a broker that deviates could lose offsets at its next restart."""
    world = careless()
    plan = replace(planned(world), against="X04: broker 1 counts 5", repairs=())
    assert (clean(plan, None), following(plan, None)) == (False, "groupshift audit placement")
