"""Repairs on OLD coordinators: what is erased, what is left alone, and that a cut-off one is gone on with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.errors import Transient
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
DAY_MS = 24 * 3_600_000


def careless() -> Expansible:
    """Every group committed, then 8 partitions and a restart of every broker: nothing was prepared."""
    world = Expansible(world=OffsetBrokers(kind=Coordinator.OLD, count=5, nodes=3))
    for number, group in enumerate(GROUPS):
        assert world.commit_as_client(group, 100 + number, 1)
    world.world.expand(8)
    restarted(world)
    return world


def restarted(world: Expansible) -> None:
    """Every broker."""
    for node in world.world.brokers:
        world.world.restart(node)


def planned(world: Expansible) -> PlannedRepair:
    """What the log says."""
    return plan_repair(world, world, DAY_MS)


def tools(world: Expansible) -> RepairTools:
    """Every port."""
    return RepairTools(views=world, log=world, restoring=world, reader=world, erasing=world)


def unlike(world: Expansible) -> set[str]:
    """Groups that answer something else than was acknowledged last."""
    return {group for group, offset in world.told.items() if world.answered(group) != offset}


def test_everything_is_back_after_a_restart_and_stays() -> None:
    """Before it, a cache may still answer what it loaded; after it nothing is left that could."""
    world = careless()
    assert unlike(world)
    done = repair(planned(world), tools(world))
    assert (done.equal, done.differing) == (len(MOVING), ())
    assert done.erased == set(MOVING)
    restarted(world)
    for partition in range(8):
        world.world.bounce(partition)
    assert unlike(world) == set()
    again = planned(world)
    assert (again.repairs, repair(again, tools(world)).erased) == ((), frozenset())


def test_a_group_with_members_is_left_alone_whole() -> None:
    """Named; nothing of it is committed or erased."""
    world = careless()
    busy = MOVING[0]
    world.members = {busy}
    listed = {each.group for broker in world.look().cluster.brokers for each in broker.groups}
    if busy not in listed:  # it answers nothing: its members come back and commit first
        world.commit_as_client(busy, 1, 1)
    done = repair(planned(world), tools(world))
    assert done.erased == set(MOVING) - {busy}
    assert done.strays_left == {busy: "it has members: stop them, then run it again"}
    restarted(world)
    assert unlike(world) <= {busy}


def test_a_group_that_needs_no_commit_is_named_when_its_strays_stay() -> None:
    """Its members committed at home, where nothing is to be restored; the stray can hide that."""
    world = careless()
    busy = MOVING[0]
    asked = next(node for node in world.world.brokers if world.world.serves(node, busy))
    assert world.commit_as_client(busy, 999, asked)
    world.members = {busy}
    plan = planned(world)
    assert [each.mend for each in plan.repairs if each.chosen.group == busy] == [Mend.OVERWRITTEN]
    done = repair(plan, tools(world))
    assert (done.differing, set(done.strays_left)) == ((), {busy})
    world.members = set()
    again = repair(planned(world), tools(world))
    assert (again.erased, again.strays_left) == ({busy}, {})
    restarted(world)
    assert unlike(world) == set()


def test_what_a_person_has_to_decide_keeps_its_strays() -> None:
    """They are the only trace of it."""
    world = careless()
    world.world.now_ms += 60_000
    old = plan_repair(world, world, 1_000)
    assert {each.mend for each in old.repairs} == {Mend.CONFLICT}
    done = repair(old, tools(world))
    assert (done.erased, world.asked) == (frozenset(), ["commit"])
    assert set(done.strays_left) == set(MOVING)
    assert {"a person has to decide about an offset of it first"} == set(done.strays_left.values())
    assert planned(world).counts[Mend.RESTORE] == len(MOVING)


def test_what_is_refused_keeps_its_strays() -> None:
    """The next run finds them, and restores what may be committed then."""
    world = careless()
    world.uncommitted = {MOVING[0]: "GROUP_AUTHORIZATION_FAILED (30)"}
    done = repair(planned(world), tools(world))
    (left,) = done.differing
    assert (left.wanted.group, "30" in left.reason) == (MOVING[0], True)
    assert done.erased == set(MOVING) - {MOVING[0]}
    assert done.strays_left == {MOVING[0]: left.reason}
    world.uncommitted = {}
    assert repair(planned(world), tools(world)).erased == {MOVING[0]}
    restarted(world)
    assert unlike(world) == set()


def test_a_commit_between_look_and_act_wins() -> None:
    """Its group is left alone; the next run knows of it, and only erases."""
    world = careless()
    plan = planned(world)
    asked = next(node for node in world.world.brokers if world.world.serves(node, MOVING[2]))
    assert world.commit_as_client(MOVING[2], 999, asked)
    done = repair(plan, tools(world))
    assert [each.wanted.group for each in done.differing] == [MOVING[2]]
    again = planned(world)
    assert again.counts == {Mend.RESTORE: 0, Mend.OVERWRITTEN: 1, Mend.CONFLICT: 0}
    assert repair(again, tools(world)).erased == {MOVING[2]}
    restarted(world)
    assert unlike(world) == set()


@dataclass
class Erasing:
    """Writes only some tombstones: the process was killed then."""

    world: Expansible
    number: int

    def erase(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """See the port."""
        self.world.erase(list(keys)[: self.number])


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_repair_that_was_cut_off_is_gone_on_with(number: int) -> None:
    """What was committed at home is newer than its strays by then: only tombstones are left to write."""
    world = careless()
    with pytest.raises(Transient, match="groups are still in the log"):
        repair(planned(world), replace(tools(world), erasing=Erasing(world, number)))
    again = planned(world)
    assert again.counts == {
        Mend.RESTORE: 0, Mend.OVERWRITTEN: len(MOVING) - number, Mend.CONFLICT: 0,
    }  # fmt: skip
    assert len(repair(again, tools(world)).erased) == len(MOVING) - number
    restarted(world)
    assert unlike(world) == set()
