"""Cycles over random logs and commits: nothing is lost, nothing is written twice, and a killed process leaves
nothing half done.

The truth is the simulator's, which knows every copy. At rest means: the replicator has copied everything.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from groupshift.domain.partitions import grouped
from groupshift.errors import Fenced
from groupshift.links.link import LinkKind
from groupshift.links.sync import SyncPlanner
from groupshift.links.sync_apply import KeptPositions, lease
from groupshift.links.sync_follow import write_plain
from groupshift.links.translation import Certainty
from groupshift.links.write_rules import Action
from groupshift_testing.link_sides import LinkWorld
from groupshift_testing.replication import Chances, play
from groupshift_testing.world import Killed
from support.link_worlds import Cycles, link, request

HOSTILE = Chances(hole=0.1, filtered=0.1, foreign=0.05, target_marker=0.05, crash=0.02, sync_lost=0.2)
SEEDS = st.integers(0, 1 << 32)
GROUPS = ("billing", "fraud", "g,b", "reports")
PARTITIONS = 2
_MOST = 40


def world_of(random: Random, kind: LinkKind = LinkKind.MM2_DEFAULT) -> LinkWorld:
    """Partly replicated partitions of which the replicator leaves out records, and others write some."""
    declared = link(kind=kind, drops_records=True, foreign_writers=True)
    return LinkWorld(declared, partitions=PARTITIONS, offset_lag_max=random.choice((0, 5, 20)))


def go_on(world: LinkWorld, random: Random, records: int, *, chances: Chances = HOSTILE) -> None:
    """Produce, replicate, and let groups commit, mostly forward; some use the target."""
    for at, replication in enumerate(world.replications):
        play(replication, random, records=records, chances=chances)
        for group in GROUPS:
            if random.random() < 0.7:
                world.commit(group, at, random.randint(0, replication.source.end), random.choice(("", "m\0")))


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_cluster_03_cycles_lose_nothing_at_rest(seed: int) -> None:
    """Whatever was written while replication went on, and whatever the policies are: only forward."""
    random = Random(seed)
    world = world_of(random)
    cycles = Cycles(world)
    committed: dict[tuple[str, int], int] = {}
    for _ in range(3):
        go_on(world, random, 30)
        cycles.cycle()
        for group in GROUPS:
            for at in range(PARTITIONS):
                before, now = committed.get((group, at), 0), world.offset(group, at)
                assert now is None or now >= before
                committed[group, at] = now or 0
    world.settle()
    for at, replication in enumerate(world.replications):
        for group in GROUPS:  # what was committed last counts: a rewind is not followed
            world.commit(group, at, replication.source.end)
    applied = cycles.cycle()
    assert world.lost() == 0
    for row in applied.rows:
        if row.x is not None and row.c is not None:
            exact = world.replications[row.key.partition.partition].exact(row.c)
            assert row.x <= exact
            assert row.certainty is not Certainty.EXACT_PROVEN or row.x == exact


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.sampled_from([0, 0.02]))
def test_cluster_03_each_planned_offset_is_safe_and_estimates_are_bounds(seed: int, crash: float) -> None:
    """At rest, for every commit: x ≤ exact(c), and no more is read again than the plan says; what a replay
    copied again is not estimated."""
    random = Random(seed)
    world = world_of(random)
    go_on(world, random, 80, chances=replace(HOSTILE, crash=crash))
    world.settle()
    rows = Cycles(world).plan().rows
    for row in rows:
        if row.x is None or row.c is None:
            continue
        replication = world.replications[row.key.partition.partition]
        assert replication.lost(row.x, row.c) == 0
        assert crash or replication.again(row.x, row.c) <= row.est_again
    event(f"{sum(row.certainty is Certainty.EXACT_PROVEN for row in rows)} of {len(rows)} are proven")


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_second_cycle_over_the_same_state_writes_nothing(seed: int) -> None:
    """In mid-replication, too."""
    random = Random(seed)
    world = world_of(random)
    go_on(world, random, 60)
    cycles = Cycles(world)
    cycles.cycle()
    offsets, positions = len(world.target.written), world.positions.writes
    assert cycles.cycle().writes == 0
    assert (len(world.target.written), world.positions.writes) == (offsets, positions)


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.integers(0, 45), st.integers(1, 3))
def test_cluster_17_a_process_killed_before_any_act_leaves_nothing_half_done(
    seed: int, acts: int, groups_at_once: int
) -> None:
    """The next one is refused until it takes over, and comes to the same offsets as one that never died."""
    wholes = []
    for left in (-1, acts):
        random = Random(seed)
        world = world_of(random)
        go_on(world, random, 50)
        world.settle()
        cycles = Cycles(world)
        plan = cycles.plan()
        world.fuse.left = left
        died = False
        try:
            cycles.apply(plan, groups_at_once=groups_at_once)
        except Killed:
            died = True
            if cycles.holder:
                with pytest.raises(Fenced, match="add --take-over"):
                    cycles.apply(plan)
            cycles.apply(plan, take_over=True)
        event(f"died: {died}")
        world.fuse.left = -1
        assert cycles.cycle().writes == 0
        wholes.append(
            (
                {(group, at): world.offset(group, at) for group in GROUPS for at in range(PARTITIONS)},
                {key: (each.source_offset, each.target_offset) for key, each in world.positions.rows.items()},
            )
        )
        assert world.lost() == 0
    assert wholes[0] == wholes[1]


class _Points:
    """Kills at the n-th crash point."""

    def __init__(self, left: int) -> None:
        self._left = left

    def reached(self, _step: str, _point: str) -> None:
        """See the port."""
        self._left -= 1
        if self._left < 0:
            raise Killed


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(0, 11))
def test_cluster_17_a_process_killed_at_any_crash_point_leaves_nothing_half_done(
    seed: int, left: int
) -> None:
    """Before and after the write, and after the reading back; at the groups one by one."""
    random = Random(seed)
    world = world_of(random)
    go_on(world, random, 50)
    world.settle()
    cycles = Cycles(world)
    try:
        cycles.apply(cycles.plan(), groups_at_once=1, crash=_Points(left))
    except Killed:
        cycles.apply(cycles.plan(), take_over=True)
    assert cycles.cycle().writes == 0
    assert world.lost() == 0
    proven = {key: each.target_offset for key, each in world.positions.rows.items()}
    for key, offset in proven.items():
        assert world.offset(key.group, key.partition) == offset


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(0, _MOST))
def test_groups_that_are_used_on_the_target_are_never_taken_back(seed: int, moments: int) -> None:
    """Members join, commit and leave between any two looks, and at the write itself."""
    random = Random(seed)
    world = world_of(random)
    go_on(world, random, 60)
    world.settle()
    cycles = Cycles(world)
    highest: dict[tuple[str, int], int] = {}

    def use(group: str) -> None:
        at = random.randrange(PARTITIONS)
        offset = random.randint(highest.get((group, at), 0), world.replications[at].target.end)
        world.target.join(group)
        world.target.commit_as_client(group, world.at_target(at), offset)
        highest[group, at] = offset
        if random.random() < 0.5:
            world.target.leave(group)

    plan = cycles.plan()
    for _ in range(moments):
        use(random.choice(GROUPS))
    cycles.apply(plan)
    cycles.cycle()
    for (group, at), offset in highest.items():
        now = world.offset(group, at)
        assert now is not None
        assert now >= offset


def disturb_group(world: LinkWorld, random: Random, group: str) -> None:
    """Something that makes a group not plain, or nothing."""
    match random.randrange(9):
        case 0:
            world.target.join(group)
        case 1:
            world.target.states_unread[group] = "REQUEST_TIMED_OUT"
        case 2:
            world.target.commit_as_client(group, world.at_target(0), random.randint(-1, 60))
        case 3:
            world.source.unread[group] = "some of its offsets are not given"
        case 4:
            world.commit(group, 0, 0)
        case 5:
            world.commit(group, 1, world.replications[1].source.end + 1)


def disturb_logs(world: LinkWorld, random: Random) -> None:
    """Something that happens to a topic, or nothing."""
    match random.randrange(9):
        case 0:
            world.replications[0].recreate_source()
        case 1:
            world.replications[0].truncate_target(20)
        case 2:
            world.replications[0].source.delete_before(30)
        case 3:
            world.replications[0].delete_target_before(30)
        case 4:
            world.source.tells_ids = False


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_what_is_written_without_a_plan_is_what_a_plan_says(seed: int) -> None:
    """Group by group: each offset is the planned one, and a cycle after it finds nothing to do there."""
    random = Random(seed)
    world = world_of(random)
    go_on(world, random, 60, chances=random.choice((HOSTILE, Chances(sync_lost=0.2), Chances())))
    cycles = Cycles(world)
    if random.random() < 0.6:
        cycles.cycle()
        go_on(world, random, 20)
    if random.random() < 0.7:
        world.settle()
    for group in GROUPS:
        disturb_group(world, random, group)
    disturb_logs(world, random)
    at = world.opened
    before = len(world.target.written)
    planned = grouped((row.group, row) for row in cycles.plan().rows)
    with lease(at, cycles.runs, "follower") as held:
        planner, kept = SyncPlanner(at, request(), compares=False), KeptPositions(at, held)
        plain = write_plain(at, planner, held, kept, GROUPS)
        kept.flush()
    for group in plain.groups:
        for row in planned[group]:
            assert (row.reason.value[:2], row.certainty) == ("OK", Certainty.EXACT_PROVEN)
            assert world.offset(group, row.key.partition.partition) == row.x
    assert {row.group for row in world.target.written[before:]} <= plain.groups
    after = cycles.plan()
    assert not [row for row in after.rows if row.group in plain.groups and row.action is Action.WRITE]
    event(f"{len(plain.groups)} of {len(GROUPS)} groups are plain")
