"""A whole member over memory adapters, its threads being steps."""

from __future__ import annotations

import pytest

from groupshift.consumers.callbacks import Callbacks
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.group_state import Parts, Policy
from groupshift.consumers.reconciler import Reconciler
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import Member
from groupshift.ports.consumer import Reset
from groupshift_testing.coordination import MemoryCoordination, MemoryZookeeper
from groupshift_testing.membership import MemoryFetch, MemoryKafkaGroup, MemoryMembership

TOPIC = "t"


class Bench:
    """One ZooKeeper, one Kafka group, logs of four records in each of four partitions."""

    def __init__(self) -> None:
        partitions = {TOPIC: (0, 1, 2, 3)}
        self.ends = {TopicPartition(TOPIC, number): 4 for number in partitions[TOPIC]}
        self.zookeeper = MemoryZookeeper(partitions=partitions)
        self.group = MemoryKafkaGroup(partitions=partitions)
        self.members: list[SteppedMember] = []

    def join(self, number, *, auto_commit=True, wake_every_s=0.0, drain_s=0.05, **listeners):
        """A member with one stream."""
        policy = Policy(
            reset=Reset.EARLIEST,
            auto_commit=auto_commit,
            commit_every_s=3600.0,
            drain_s=drain_s,
            wake_every_s=wake_every_s,
        )
        member = SteppedMember(self, number, policy, listeners)
        self.members.append(member)
        return member

    def settle(self) -> None:
        """Everyone gets a few turns, and the Kafka group finishes its rebalance."""
        for _ in range(4):
            for member in self.members:
                member.step()
                member.pump()
            if self.group.letting_go:
                self.group.complete()


class SteppedMember:
    """`step` is one pass of the reconciler, `pump` one of the fetcher, `read` what a reader gets."""

    def __init__(self, bench, number, policy, listeners) -> None:
        self.name = f"g_m{number}"
        self.heard: list[tuple[str, object]] = []
        self.delivery = Delivery(store_on_delivery=True)
        self.link = MemoryCoordination(bench.zookeeper, self.name)
        self.membership = MemoryMembership(bench.group, self.name)
        self.fetch = MemoryFetch(bench.ends)
        self.parts = Parts(
            coordination=self.link,
            membership=self.membership,
            fetch=self.fetch,
            delivery=self.delivery,
            application=Callbacks(self, self.delivery.notify, **listeners),
        )
        self.reconciler = Reconciler(
            Member(consumer_id=self.name, subscription={TOPIC: 1}, aware=True),
            self.parts,
            policy,
        )
        self.link.start(self.reconciler, 1.0)

    def step(self) -> None:
        """What has happened, then one pass."""
        self.reconciler._loop.receive(0)
        self.reconciler._attempt()

    def pump(self) -> None:
        """Fetch and buffer."""
        self.delivery.offer(list(self.fetch.poll(100, 0)))

    def read(self, limit: int = 100) -> list[object]:
        """Records, the notices before them carried out."""
        return self.delivery.take(None, limit, 0)


@pytest.fixture
def bench() -> Bench:
    """Empty."""
    return Bench()
