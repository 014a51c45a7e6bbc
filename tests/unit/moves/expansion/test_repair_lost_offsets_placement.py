"""Repairs of placement, over memory: what is committed, what is left alone, and why nothing may be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from groupshift.domain.cluster import PlacementView, Property
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import LISTED_TOO, ClusterState, Committed, OffsetRow, ProblemRow
from groupshift.errors import Rejected
from groupshift.log import LogRecord
from groupshift.moves.expansion.repair_lost_offsets import (
    Mend,
    PlannedRepair,
    RepairTools,
    plan_repair,
    repair,
)
from groupshift.moves.expansion.restore import Restored, read_back, restore_offsets
from groupshift.ports.changes import unheld
from groupshift_testing.offset_brokers import MemoryPlacementViews
from support.placement_clusters import Log, changed, commit, view


@dataclass(slots=True)
class Coordinators:
    """Offsets by key; ``busy`` groups have members. Restores and reads."""

    offsets: dict[tuple[str, str, int], OffsetRow] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    untold: Mapping[str, str] = field(default_factory=dict)
    given: list[OffsetRow] = field(default_factory=list)

    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """Refuses groups with members."""
        refused = {}
        for row in rows:
            if row.group in self.busy:
                refused[row.group] = "UNKNOWN_MEMBER_ID (25)"
                continue
            self.given.append(row)
            self.offsets[row.group, row.topic, row.partition] = row
        return refused

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> Mapping[str, str]:
        """Nobody asks for that."""
        raise AssertionError(groups, hold)

    def take(self, groups: Collection[str] | None = None, *, progress: object = None) -> ClusterState:
        """The offsets of these groups."""
        assert progress is None
        rows = [row for row in self.offsets.values() if groups is None or row.group in groups]
        problems = [
            ProblemRow(group=group, problem=why)
            for group, why in self.untold.items()
            if groups is None or group in groups
        ]
        return ClusterState(cluster_id="c", taken_at_ms=0, offsets=rows, problems=problems)

    def committed(self, groups: Collection[str]) -> Committed:
        """The offsets of these groups, alone."""
        found = self.take(groups)
        return Committed(offsets=found.offsets, problems=found.problems)

    def cluster_id(self) -> str:
        """One."""
        return "c"

    def close(self) -> None:
        """Nothing is open."""


HOUR_MS = 3_600_000
LOST = [commit("g9", 0, offset=42), commit("g10", 0, offset=43)]


def planned(*records: LogRecord, found: PlacementView | None = None) -> PlannedRepair:
    """The plan of a cluster that counts eight, or of another one."""
    return plan_repair(MemoryPlacementViews(found or view(8)), Log(records), 24 * HOUR_MS)


def mended(plan: PlannedRepair, world: Coordinators) -> Restored:
    """What a repair on NEW coordinators comes to: it asks neither the log nor the list of groups again."""
    views, log = MemoryPlacementViews(view(8)), Log(())
    return repair(plan, RepairTools(views=views, log=log, restoring=world, reader=world, erasing=world))


def test_lost_offsets_are_committed_and_read_back() -> None:
    """Twice is as once: what is restored is not committed by somebody else."""
    world, plan = Coordinators(), planned(*LOST)
    assert plan.counts == {Mend.RESTORE: 2, Mend.OVERWRITTEN: 0, Mend.CONFLICT: 0}
    done = mended(plan, world)
    assert (done.equal, done.differing) == (2, ())
    assert {(row.group, row.offset, row.leader_epoch, row.metadata) for row in world.given} == {
        ("g9", 42, 3, "m"), ("g10", 43, 3, "m"),
    }  # fmt: skip
    again = mended(plan, world)
    assert (again.equal, again.differing) == (2, ())


def test_what_is_older_at_home_gives_way() -> None:
    """As the coordinator answered when the log was read."""
    home = partition_of("g9", 8)
    plan = planned(commit("g9", 0, offset=42, ms=9_000), commit("g9", home, offset=5, ms=1_000))
    row = plan.repairs[0].chosen.row
    world = Coordinators({(row.group, row.topic, row.partition): replace(row, offset=5)})
    done = mended(plan, world)
    assert (done.differing, done.equal, world.given) == ((), 1, [row])


def test_offsets_below_zero_are_none_and_others_are_read_back_exactly() -> None:
    """A coordinator that stores something else is found out; no metadata is empty metadata."""
    rows = [plan.chosen.row for plan in planned(*LOST).repairs]
    world = Coordinators()
    found = restore_offsets(world, world, [*rows, replace(rows[0], partition=1, offset=-1)])
    assert (found.equal, len(world.given)) == (2, 2)
    for change in ({"offset": 1}, {"leader_epoch": None}, {"metadata": "other"}):
        world.offsets[rows[0].group, "t", 0] = replace(rows[0], **change)
        (left,) = read_back(world, rows).differing
        assert left.current == replace(rows[0], **change)
    bare = replace(rows[0], metadata=None, leader_epoch=-1)
    world.offsets[rows[0].group, "t", 0] = replace(rows[0], metadata="", leader_epoch=None)
    assert read_back(world, [bare]).differing == ()


def test_what_is_older_than_the_retention_is_left_to_a_person() -> None:
    """What was asked for, or what a broker keeps offsets for: the shortest counts."""
    day = 24 * HOUR_MS
    for taken_at_ms, minutes, mend in (
        (day, "", Mend.RESTORE), (day + 2_000, "", Mend.CONFLICT), (day + 2_000, "20000", Mend.CONFLICT),
        (HOUR_MS, "50", Mend.CONFLICT), (HOUR_MS, "70", Mend.RESTORE),
    ):  # fmt: skip
        found = view(8)
        found = replace(found, cluster=replace(found.cluster, taken_at_ms=taken_at_ms))
        kept = {"offsets.retention.minutes": Property(value=minutes, static=True)} if minutes else {}
        (one,) = planned(commit("g9", 0, ms=1_000), found=changed(found, 2, properties=kept)).repairs
        assert one.mend is mend, (taken_at_ms, minutes)


def test_what_its_coordinator_does_not_tell_is_left_alone() -> None:
    """A transaction is open, a right is missing: nothing there is not the same as nothing told."""
    world, plan = Coordinators(untold={"g9": "a transaction is open"}), planned(*LOST)
    done = mended(plan, world)
    assert [(each.wanted.group, each.reason) for each in done.differing] == [("g9", "a transaction is open")]
    assert [row.group for row in world.given] == ["g10"]
    residue = Coordinators(untold={"g9": f"group 'g9': listed by broker 1{LISTED_TOO}2: it moved just now"})
    assert mended(plan, residue).equal == 2


def test_a_deletion_since_the_look_is_not_undone() -> None:
    """What was at home when the log was read is gone now."""
    home = partition_of("g9", 8)
    plan = planned(commit("g9", 0, offset=42, ms=9_000), commit("g9", home, offset=5, ms=1_000))
    world = Coordinators()
    (left,) = mended(plan, world).differing
    assert (left.current, world.given) == (None, [])
    assert left.reason == "somebody changed it: the log said 5, its coordinator answers None"


def test_more_groups_than_are_taken_at_a_time() -> None:
    """All of them, each once."""
    world = Coordinators()
    lost = [commit(f"g{number}", (partition_of(f"g{number}", 8) + 1) % 8, at=number) for number in range(250)]
    done = mended(planned(*lost), world)
    assert (done.equal, len(world.given)) == (250, 250)


def test_a_group_with_members_is_named_and_hides_no_other() -> None:
    """Its coordinator refuses."""
    world = Coordinators(busy=frozenset({"g9"}))
    done = mended(planned(*LOST), world)
    assert done.equal == 1
    assert [(each.wanted.group, each.reason) for each in done.differing] == [("g9", "UNKNOWN_MEMBER_ID (25)")]


def test_what_somebody_committed_since_the_look_is_left_alone() -> None:
    """A client that came and went between the plan and the act."""
    world, plan = Coordinators(), planned(*LOST)
    row = plan.repairs[0].chosen.row
    world.offsets[row.group, row.topic, row.partition] = replace(row, offset=1)
    done = mended(plan, world)
    assert [(each.wanted.group, each.current and each.current.offset) for each in done.differing] == [
        (row.group, 1)
    ]
    assert world.offsets[row.group, row.topic, row.partition].offset == 1
    assert done.equal == 1


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (view(8, {1: 5, 2: 5, 3: 5}), "X04: "),
        (view(8, {1: 5, 2: 5, 3: 8}), "X04: "),
        (view(8, open_transactions={3: ("pay-1",)}), "X11: transactional id 'pay-1'"),
        (changed(view(8), 2, untold="no right"), "X03: broker 2 does not tell its configuration"),
        (view(8, differing=(2,)), "X01: "),
    ],
)
def test_nothing_is_committed_where_it_would_not_stay(found: PlacementView, said: str) -> None:
    """Said before anything is changed."""
    world, plan = Coordinators(), planned(*LOST, found=found)
    with pytest.raises(Rejected, match=f"nothing was changed: {said}"):
        mended(plan, world)
    assert world.given == []
