"""A fleet of real Kafka members changes its protocol under the driver `process`, rolling and all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.domain.facts import SlotState
from groupshift.domain.group_protocol import Kind, Protocol
from groupshift.domain.modes import MemberKind
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from support.protocol_fleet import PATIENCE_S, FleetOptions, fleet_at

pytestmark = pytest.mark.timeout(900)  # the fixtures count too


def test_a_fleet_rolls_to_native_is_emptied_and_filled_again(
    kraft: Cluster, group: str, tmp_path: Path
) -> None:
    """Three members of confluent-kafka: the group's type flips under the roll, an emptying leaves it without
    members, and plain ones make it classic again. Each partition has one owner at a time, no record is lost,
    and the client ids that the driver tells are those that the coordinator shows."""
    options = FleetOptions(group=group, topic=f"rolled-{group}")
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet:
        first = fleet.await_group(lambda found: len(found.members) == 3, "has three members")
        assert first.kind is Kind.CLASSIC
        fleet.await_written(20)

        fleet.carry_out(fleet.change("native", MemberKind.NATIVE))
        rolled = fleet.await_group(
            lambda found: len(found.speaking(Protocol.CONSUMER)) == len(found.members) == 3, "is all native"
        )
        assert rolled.kind is Kind.CONSUMER
        told = {slot.member_id for slot in fleet.driver.slots(group)}
        assert told == {each.client_id for each in rolled.members}
        fleet.await_owned()
        fleet.await_written(20)

        fleet.carry_out(fleet.change("empty", MemberKind.VACANT))
        empty = fleet.await_group(lambda found: found.state == "Empty", "is empty")
        assert empty.members == ()
        assert all(slot.state is SlotState.DOWN for slot in fleet.driver.slots(group))

        fleet.carry_out(fleet.change("fill", MemberKind.PLAIN))
        filled = fleet.await_group(lambda found: len(found.members) == 3, "has three members")
        assert filled.kind is Kind.CLASSIC
        fleet.await_owned()
        fleet.await_written(20)
        found = fleet.settle()
    assert (found.lost, found.repeated_within) == ({}, {})
    assert found.overlaps == []
    assert found.fatal == []
    assert all(found.unowned_ms[at] for at in fleet.partitions), "the emptying left each without an owner"
    assert len(found.all_unowned_ms) >= 1


def test_one_place_is_emptied_and_filled_while_the_other_goes_on(
    kraft: Cluster, group: str, tmp_path: Path
) -> None:
    """Two native members of librdkafka 2.8.0, which hands out whole assignments: who gives partitions up
    tells it, so that each has one owner again."""
    options = FleetOptions(
        group=group,
        topic=f"whole-{group}",
        partitions=4,
        clients=("confluent-kafka 2.8.0",) * 2,
        kind=MemberKind.NATIVE,
    )
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet:
        fleet.carry_out(fleet.change("empty", MemberKind.VACANT, "m1"))
        wait_until(
            lambda: all(each == ["m2-1"] for each in fleet.owners().values()), PATIENCE_S, "m2 owns all"
        )
        fleet.carry_out(fleet.change("fill", MemberKind.NATIVE, "m1"))
        wait_until(
            lambda: sorted(map(tuple, fleet.owners().values())) == [("m1-2",)] * 2 + [("m2-1",)] * 2,
            PATIENCE_S,
            "each owns two partitions",
        )
        fleet.await_written(5)
        found = fleet.settle()
    assert (found.lost, found.overlaps, found.fatal) == ({}, [], [])
