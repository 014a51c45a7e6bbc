"""Random operators against simulated brokers: a cluster that an audit calls clean has lost nothing, and a
repair brings back what it says it does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.repair_lost_offsets import Mend, RepairTools, plan_repair, repair
from groupshift.moves.expansion.rules import Placement, audit_placement
from groupshift_testing.offset_brokers import OffsetBrokers
from support.simulated_placement import Placed

GROUPS = [f"g{number}" for number in range(24)]
DAY_MS = 24 * 3_600_000

nodes = st.integers(1, 3)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from(GROUPS), nodes),
        st.tuples(st.just("restart"), nodes),
        st.tuples(st.just("stop"), nodes),
        st.tuples(st.just("start"), nodes),
        st.tuples(st.just("expand"), st.sampled_from((7, 8, 10, 12))),
        st.tuples(st.just("bounce"), st.integers(0, 4)),
        st.just(("restart all",)),
        st.tuples(st.just("everybody commits"), nodes),
    ),
    max_size=30,
)


def operated(kind: Coordinator, done: list[tuple[Any, ...]]) -> Placed:
    """Every group commits once, then somebody operates the brokers; all run in the end."""
    placed = Placed(OffsetBrokers(kind=kind, count=5, nodes=3))
    for number, group in enumerate(GROUPS):
        placed.commit_as_client(group, number + 1, 1)
    for number, (what, *more) in enumerate(done):
        operate(placed, what, more, offset=100 + number)
    for node, broker in placed.world.brokers.items():
        if not broker.running:
            placed.world.start(node)
    return placed


def tools_of(placed: Placed) -> RepairTools:
    """Every port of a repair."""
    return RepairTools(views=placed, log=placed, restoring=placed, reader=placed, erasing=placed)


def operate(placed: Placed, what: str, more: list[Any], *, offset: int) -> None:
    """One thing that an operator or a client does; what is not possible now is left out."""
    if what in {"commit", "everybody commits"}:
        *named, asked = more
        for group in (named or GROUPS) if asked in placed.running() else ():
            placed.commit_as_client(group, offset, asked)
        return
    world, running = placed.world, placed.running()
    match what, *more:
        case "restart", node if node in running:
            world.restart(node)
        case "stop", node if node in running and len(running) > 1:
            world.stop(node)
        case "start", node if node not in running:
            world.start(node)
        case "expand", count if count > len(world.logs):
            world.expand(count)
        case "bounce", partition:
            world.bounce(partition)
        case ("restart all",):
            for node in running:
                world.restart(node)


def audited(placed: Placed) -> Placement:
    """What the audit says."""
    return audit_placement(placed, placed)


@pytest.mark.parametrize("kind", list(Coordinator))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(done=operations)
def test_a_clean_cluster_answers_every_commit(kind: Coordinator, done: list[tuple[Any, ...]]) -> None:
    """The newest commit that was acknowledged, of each group; however counts, restarts and leaders came to
    be. And so it does after leaders moved."""
    placed = operated(kind, done)
    clean = audited(placed).clean
    event(f"clean: {clean}, partitions: {len(placed.world.logs)}")
    if not clean:
        return
    assert {group: placed.answered(group) for group in GROUPS} == placed.told
    for partition in range(len(placed.world.logs)):
        placed.world.bounce(partition)
    assert {group: placed.answered(group) for group in GROUPS} == placed.told


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(done=operations)
def test_a_repair_brings_back_what_it_says(done: list[tuple[Any, ...]]) -> None:
    """NEW: after all brokers were restarted nobody lost an offset but to a client that overwrote it, or to a
    conflict that is named; and a second repair has nothing to do."""
    placed = operated(Coordinator.NEW, [*done, ("restart all",)])
    for _ in range(2):
        planned = plan_repair(placed, placed, DAY_MS)
        if planned.against:  # leaders so regular that other counts lead to the same ones, and no commit since
            assert "and other counts" in planned.against
            assert len(placed.world.logs) in {6, 9, 12}
            return
        found = repair(planned, tools_of(placed))
        assert found.differing == ()
        conflicts = {each.chosen.group for each in planned.of(Mend.CONFLICT)}
        lost = {group for group in GROUPS if placed.answered(group) != placed.told[group]}
        assert lost <= conflicts
    assert planned.of(Mend.RESTORE) == ()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(done=operations)
def test_a_repair_on_old_coordinators_leaves_nothing_that_hides_a_commit(done: list[tuple[Any, ...]]) -> None:
    """OLD: after it and a restart of every broker nobody lost an offset but to a conflict that is named, also
    after leaders moved; and a second repair has nothing to do."""
    placed = operated(Coordinator.OLD, [*done, ("restart all",)])
    planned = plan_repair(placed, placed, DAY_MS)
    if planned.against:
        event("refused")
        return
    found = repair(planned, tools_of(placed))
    assert found.differing == ()
    for node in placed.world.brokers:
        placed.world.restart(node)
    for partition in range(len(placed.world.logs)):
        placed.world.bounce(partition)
    conflicts = {each.chosen.group for each in planned.of(Mend.CONFLICT)}
    event(f"conflicts: {len(conflicts)}, erased: {len(found.erased)}")
    assert {group for group in GROUPS if placed.answered(group) != placed.told[group]} <= conflicts
    again = plan_repair(placed, placed, DAY_MS)
    assert {each.chosen.group for each in again.repairs} <= conflicts
