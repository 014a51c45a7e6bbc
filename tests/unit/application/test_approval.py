"""What an approval is given for while a group of Kafka rebalances."""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupshift.application.approval import REBALANCE_S, current
from groupshift.application.records import load
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import ProtocolGroup
from groupshift.ports.cluster import GroupReader
from support.protocol_groups import classic, consumer, view
from support.simulated_move import Bench

TOLD = (("orders", 1),)


@dataclass
class Rebalancing:
    """A group whose coordinator tells no subscriptions at so many looks."""

    groups: GroupReader
    looks: int
    group: ProtocolGroup

    def read(self, group: str) -> GroupView:
        """See the port."""
        told = () if self.looks > 0 else TOLD
        self.looks -= 1
        found = self.groups.read(group)
        members = tuple(replace(each, subscription=told) for each in found.members)
        return replace(found, members=members, protocol=view(self.group))


def subscribed(bench: Bench, looks: int, group: ProtocolGroup | None = None) -> set[str]:
    """What the members subscribe to, by the fingerprint of now."""
    migration = load(bench.environment(), bench.plan())
    env = replace(bench.environment(), groups=Rebalancing(bench.world, looks, group or classic()))
    return set(current(env, migration).parts["subscriptions"].values())


def test_a_rebalance_is_waited_out(bench: Bench) -> None:
    """An approval for what is not told would be void at once."""
    assert subscribed(bench, 5) == {"static orders:1"}


def test_a_native_member_may_subscribe_to_nothing_that_is_told(bench: Bench) -> None:
    """By a regular expression: nobody waits for that."""
    before = bench.clock.now_ms()
    assert subscribed(bench, 10_000, consumer()) == {"static "}
    assert bench.clock.now_ms() - before < REBALANCE_S * 1000


def test_one_that_does_not_end_is_shown_as_it_is(bench: Bench) -> None:
    """The wait is bounded."""
    before = bench.clock.now_ms()
    assert subscribed(bench, 10_000) == {"static "}
    assert bench.clock.now_ms() - before <= 2 * REBALANCE_S * 1000
