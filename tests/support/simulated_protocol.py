"""A simulated group that changes its rebalance protocol: a coordinator that converts it online (policy
``bidirectional``) when the first native member comes, and back when the last one leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupshift.domain.group import GroupView, view_of
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember, Kind, Protocol, ProtocolView
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState, LogEndRow, OffsetRow
from groupshift_testing.clock import ManualClock
from groupshift_testing.world import World
from support.protocol_groups import view
from support.simulated_group import SimulatedGroup, group_of_world

SPOKEN = {MemberKind.PLAIN: Protocol.CLASSIC, MemberKind.NATIVE: Protocol.CONSUMER}


@dataclass(slots=True)
class ProtocolWorld(World):
    """Members in places that speak one of the two protocols; offsets are in Kafka alone."""

    def look(self) -> ProtocolView:
        """What the coordinator says of the group."""
        assigned: dict[str, set[TopicPartition]] = {}
        for partition, place in self._assignment().items():
            assigned.setdefault(place, set()).add(partition)
        spoken = [(place, SPOKEN[self.places[place].kind]) for place in self._running(*SPOKEN)]
        native = any(speaks is Protocol.CONSUMER for _, speaks in spoken)
        members = tuple(
            KafkaMember(
                member_id=f"{self.identity(place)}-uuid",
                client_id=self.identity(place),
                host="/127.0.0.1",
                speaks=speaks,
                epoch=3 if native else None,
                topics=tuple(sorted(self.partitions)),
                assigned=frozenset(assigned.get(place, ())),
            )
            for place, speaks in spoken
        )
        group = KafkaGroup(
            group=self.group,
            kind=Kind.CONSUMER if native else Kind.CLASSIC,
            state="Stable" if members else "Empty",
            protocol_type="consumer",
            protocol="uniform" if native else "range",
            epoch=3 if native else None,
            assignment_epoch=3 if native else None,
            members=members,
        )
        return replace(view(group), taken_at_ms=self.clock.now_ms())

    def read(self, group: str) -> GroupView:
        """`groupshift.ports.cluster.GroupReader`, of Kafka alone."""
        if group != self.group:
            return view_of(view(KafkaGroup(group=group, kind=Kind.ABSENT)), None)
        state = ClusterState(
            cluster_id="c",
            taken_at_ms=self.clock.now_ms(),
            groups=[],
            offsets=[
                OffsetRow(group=group, topic=at.topic, partition=at.partition, offset=offset)
                for at, offset in sorted(self.kafka.items())
            ],
            log_ends=[
                LogEndRow(topic=at.topic, partition=at.partition, log_start=0, log_end=self.ends.get(at, 0))
                for at in self.all_partitions()
            ],
        )
        return view_of(self.look(), state)

    def tick(self, records: int = 10) -> None:
        """Records are produced, consumed and committed to Kafka."""
        owners = self._assignment()
        for partition in self.all_partitions():
            self.ends[partition] = self.ends.get(partition, 0) + records
            if partition in owners:
                self.kafka[partition] = self.ends[partition]


def make_protocol_group(kind: MemberKind, members: int = 3) -> SimulatedGroup:
    """A healthy group of one protocol."""
    world = _world(kind, members)
    return group_of_world(world.clock, world)


def _world(kind: MemberKind, members: int) -> ProtocolWorld:
    clock = ManualClock()
    world = ProtocolWorld(clock=clock, places={})
    made = World.of(clock, kind, members)
    world.places, world.ends, world.kafka = made.places, made.ends, made.kafka
    return world
