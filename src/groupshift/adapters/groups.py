"""One group at the real servers: its view, and whether the tool may read and change it.

Implements `groupshift.ports.cluster.GroupReader` twice: from ZooKeeper and Kafka, and from Kafka alone with
every broker. Implements `groupshift.ports.cluster.Access` too.
"""

from __future__ import annotations

from groupshift.adapters.kafka.groups import KafkaGroups, KafkaRights
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.mode import ZookeeperRights
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import Kind
from groupshift.domain.observation import (
    merge,
    partitions_of,
    topics_of_group,
    view_of,
)
from groupshift.errors import Transient
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import GroupSnapshots, Identity, ProtocolViews


class LiveAccess:
    """Both halves, asked one after the other."""

    def __init__(self, zookeeper: ZookeeperRights, kafka: KafkaRights) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """See the port; a group that does not exist is nothing to have rights on."""
        if not view.exists:
            return ()
        return (
            self._zookeeper.identity(view.group),
            self._kafka.identity(view.group, sorted(_topics(view))),
        )


class KafkaAccess:
    """Kafka alone, where a move has nothing to do with ZooKeeper."""

    def __init__(self, kafka: KafkaRights) -> None:
        self._kafka = kafka

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """See the port; a group that does not exist is nothing to have rights on."""
        return (self._kafka.identity(view.group, sorted(_topics(view))),) if view.exists else ()


def _topics(view: GroupView) -> set[str]:
    """Every topic that the group has to do with, whether or not Kafka shows it."""
    owned = {each.partition.topic for each in view.owners}
    committed = {each.partition.topic for each in (*view.zookeeper_offsets, *view.kafka_offsets)}
    static = [member for member in view.members if member.pattern == "static"]
    return owned | committed | {topic for member in static for topic, _ in member.subscription}


_AGAIN, _APART_MS = 2, 1_500


class LiveGroupReader:
    """Reads ZooKeeper first, then Kafka's offsets, then log ends.

    In kafka mode members commit to Kafka first and raise the znode at once (F8), so in this order no
    znode of a view is ahead of Kafka; and no offset is ahead of its log end. Where Kafka answered so late
    that its offsets are of another time than ZooKeeper's, both are read again, while that is faster: a stall
    is no difference between the stores.
    """

    def __init__(self, zookeeper: ZookeeperGroups, kafka: KafkaGroups, clock: Clock) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._clock = clock

    def read(self, group: str) -> GroupView:
        """The group now; see `groupshift.ports.cluster.GroupReader.read`."""
        view, apart_ms = self._read(group)
        for _ in range(_AGAIN if apart_ms > _APART_MS else 0):
            try:
                again, again_ms = self._read(group)
            except Transient:
                break  # what was read is whole, if of two times
            if again_ms >= apart_ms:
                break  # this cluster is as slow as that
            view, apart_ms = again, again_ms
            if apart_ms <= _APART_MS:
                break
        return view

    def _read(self, group: str) -> tuple[GroupView, int]:
        """A view, and how long after ZooKeeper's answer Kafka's last one came."""
        taken_at_ms = self._clock.now_ms()
        zookeeper = self._zookeeper.observe(group)
        answered_ms = self._clock.now_ms()
        kafka = self._kafka.observe(group, zookeeper.migration_ids)
        partitions = partitions_of(topics_of_group(zookeeper, kafka), kafka.topics)
        answered = {at.partition for at in kafka.offsets}
        positions = self._kafka.positions(group, partitions, answered)
        apart_ms = self._clock.now_ms() - answered_ms
        return merge(group, taken_at_ms, zookeeper, kafka, positions), apart_ms

    def close(self) -> None:
        """Close both connections."""
        self._zookeeper.close()
        self._kafka.close()


_READ = frozenset({Kind.CLASSIC, Kind.CONSUMER})


class KafkaGroupReader:
    """Looks at the brokers first, then reads offsets and log ends: no offset is ahead of its log end."""

    def __init__(self, views: ProtocolViews, snapshots: GroupSnapshots) -> None:
        self._views, self._snapshots = views, snapshots

    def read(self, group: str) -> GroupView:
        """The group now; see `groupshift.ports.cluster.GroupReader.read`. ZooKeeper is not asked."""
        look = self._views.look(group)
        known = look.group.kind in _READ
        return view_of(look, self._snapshots.take([group]) if known else None)

    def close(self) -> None:
        """Close the connections."""
        self._views.close()
        self._snapshots.close()
