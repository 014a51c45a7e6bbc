"""The simulated brokers lose what real ones lost (docs/reference/coordinator-on-real-brokers.md §F), and
nothing else."""

from __future__ import annotations

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.domain.verdict import Verdict
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.restore import read_back
from groupshift.moves.expansion.rules import audit_placement
from groupshift_testing.offset_brokers import OffsetBrokers
from support.simulated_placement import Placed

GROUPS = [f"g{number}" for number in range(200)]
MOVING = {group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)}


def committed(kind: Coordinator, nodes: int) -> Placed:
    """200 groups at five partitions."""
    placed = Placed(OffsetBrokers(kind=kind, count=5, nodes=nodes))
    for group in GROUPS:
        assert placed.commit_as_client(group, 100, 1)
    return placed


def careless(kind: Coordinator, nodes: int) -> Placed:
    """Five become eight, and all brokers are restarted."""
    placed = committed(kind, nodes)
    placed.world.expand(8)
    for node in placed.running():
        placed.world.restart(node)
    return placed


@pytest.mark.parametrize("kind", list(Coordinator))
def test_nothing_changes_before_a_broker_restarts(kind: Coordinator) -> None:
    """All brokers count five still, and answer for all."""
    placed = committed(kind, 3)
    placed.world.expand(8)
    assert {placed.answered(group) for group in GROUPS} == {100}
    assert {placed.world.find_coordinator(node, "g9") for node in (1, 2, 3)} == {1}


@pytest.mark.parametrize("nodes", [1, 3])
def test_new_loses_exactly_the_groups_that_move(nodes: int) -> None:
    """-1, and without an error."""
    placed = careless(Coordinator.NEW, nodes)
    assert {group for group in GROUPS if placed.answered(group) == -1} == MOVING


def test_old_on_one_broker_loses_nothing_and_hides_what_is_committed_then() -> None:
    """Its one cache has every group; a commit from a lower place in the log is acknowledged and not visible:
    exactly the moving groups whose old record lies higher. 73 of 200 on a real 3.9.2, 74 of these names."""
    placed = careless(Coordinator.OLD, 1)
    assert {placed.answered(group) for group in GROUPS} == {100}
    for group in GROUPS:
        assert placed.commit_as_client(group, 1100, 1)
    stale = {group for group in GROUPS if placed.answered(group) == 100}
    assert len(stale) == 74
    assert stale <= MOVING


def test_old_on_three_brokers_loses_some_of_them() -> None:
    """Which ones depends on what each broker loaded while others were away."""
    placed = careless(Coordinator.OLD, 3)
    lost = {group for group in GROUPS if placed.answered(group) == -1}
    assert lost < MOVING
    assert lost


def test_two_brokers_serve_one_group_in_a_mixed_window() -> None:
    """Both take commits; some groups are sent on for ever."""
    placed = committed(Coordinator.NEW, 3)
    placed.world.expand(8)
    placed.world.restart(3)
    owners = placed.owners(GROUPS)
    two = [group for group, nodes in owners.items() if len(nodes) > 1]
    assert two
    assert [group for group, nodes in owners.items() if not nodes]
    first, second = owners[two[0]]
    assert placed.commit_as_client(two[0], 7, first)
    assert placed.commit_as_client(two[0], 9, second)
    assert {row.offset for node in (first, second) for row in placed.world.fetch_at(node, two[0])} == {7, 9}


def prepared(kind: Coordinator, without: str = "") -> tuple[Placed, list[OffsetRow]]:
    """The safe order (docs/reference/group-coordinator.md §3.4): snapshot, delete what moves, expand, restart
    all, commit again; ``without`` one step. And the snapshot."""
    placed = committed(kind, 3)
    rows = placed.take().offsets
    if without != "delete":
        placed.delete(sorted(MOVING))
    placed.world.expand(8)
    for node in placed.running() if without != "restart" else ():
        if (without, node) != ("restart one", 2):
            placed.world.restart(node)
    if without != "commit":
        placed.commit(row for row in rows if row.group in MOVING)
    return placed, list(rows)


@pytest.mark.parametrize("kind", list(Coordinator))
def test_the_safe_order_keeps_every_offset(kind: Coordinator) -> None:
    """Equal to the snapshot and clean, also after leaders moved and brokers were restarted."""
    placed, rows = prepared(kind)
    for _ in range(3):
        assert read_back(placed, rows).differing == ()
        assert audit_placement(placed, placed).judgement.verdict is Verdict.PASS
        for partition in range(8):
            placed.world.bounce(partition)
        for node in placed.running():
            placed.world.restart(node)


@pytest.mark.parametrize("kind", list(Coordinator))
@pytest.mark.parametrize("without", ["delete", "restart", "restart one", "commit"])
def test_a_step_that_is_left_out_is_caught(kind: Coordinator, without: str) -> None:
    """By the audit, or by reading the snapshot back; but for the deletion on NEW, which is tidiness there:
    residue, a warning."""
    placed, rows = prepared(kind, without)
    found = audit_placement(placed, placed)
    if (kind, without) == (Coordinator.NEW, "delete"):
        assert found.judgement.verdict is Verdict.INCONCLUSIVE
        assert read_back(placed, rows).differing == ()
        return
    caught = {each.rule for each in found.judgement.findings if each.verdict is Verdict.FAIL}
    if read_back(placed, rows).differing:
        caught.add("read back")
    assert caught >= {"delete": {"X07"}, "commit": {"read back"}}.get(without, {"X04"})


def test_old_falls_back_where_nothing_was_deleted_before() -> None:
    """The step that is left out: what was committed again is stale after the next restart (scenario 17)."""
    placed = careless(Coordinator.OLD, 3)
    for group in sorted(MOVING):
        assert placed.commit_as_client(group, 200, 1)
    for node in placed.running():
        placed.world.restart(node)
    assert {group for group in MOVING if placed.answered(group) == 100}
