"""The topics of a link itself: MirrorMaker's offset syncs, and the last proven positions; without Spark.

Implements `groupshift.links.sync_log.SyncLog` and `groupshift.links.proven_positions.ProvenPositions`. Each
has one partition, of which one class reads the tail and the other all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import ensure_compacted_topic
from groupshift.adapters.kafka.commit_places import told_topics
from groupshift.adapters.kafka.group_changes import produce, producing
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.links.proven_positions import (
    PositionKey,
    PositionsRead,
    ProvenPosition,
    encode_position,
    positions_in,
)
from groupshift.links.sync_log import SyncLogPosition, SyncRecord, SyncsRead, decode_syncs
from groupshift.spark.broker_source import Bounds, Brokers, bounds_of, read_partition

_AT_ONCE = 200_000
"""Records of the offset-syncs topic that are held at a time."""


class KafkaSyncLog:
    """See the port. Each call opens connections of its own."""

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self._brokers, self._topic = brokers, topic

    def read(self, position: SyncLogPosition) -> SyncsRead:
        """See the port."""
        with closing(self._brokers.cluster()) as cluster:
            topic_id, bounds = self._look(cluster)
            position = position.within(topic_id, bounds.start, bounds.stable)
            unread = replace(bounds, start=position.next_offset, end=bounds.stable)
            records = _records(cluster, self._topic, unread)
            return decode_syncs(records, position, end=bounds.stable, limit=_AT_ONCE)

    def log_end(self, position: SyncLogPosition) -> int:
        """See the port."""
        with closing(self._brokers.cluster()) as cluster:
            topic_id, bounds = self._look(cluster)
        return position.within(topic_id, bounds.start, bounds.stable).shift + bounds.end

    def _look(self, cluster: KafkaCluster) -> tuple[str, Bounds]:
        """Id and bounds of the topic."""
        now = cluster.attempt(lambda: told_topics(cluster, {self._topic})).get(self._topic)
        bounds = bounds_of(cluster, [self._topic]) if now and now.exists else {}
        if not now or not bounds:
            raise Rejected(
                f"topic {self._topic!r} is not at {self._brokers.bootstrap_servers}: MirrorMaker keeps its "
                "offset syncs on the other cluster (set the link's sync_location), under another name (its "
                "aliases and separator), or this login may not see them"
            )
        return now.topic_id, bounds[TopicPartition(self._topic, 0)]


class KafkaProvenPositions:
    """See the port. Each call opens connections of its own."""

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self._brokers, self._topic = brokers, topic

    def prepare(self) -> None:
        """See the port."""
        with closing(self._brokers.cluster()) as cluster:
            ensure_compacted_topic(cluster, self._topic)

    def write(self, positions: Mapping[PositionKey, ProvenPosition]) -> None:
        """See the port."""
        self._write(positions)

    def forget(self, keys: Collection[PositionKey]) -> None:
        """See the port."""
        self._write(dict.fromkeys(keys))

    def read(self) -> PositionsRead:
        """See the port."""
        with closing(self._brokers.cluster()) as cluster:
            bounds = bounds_of(cluster, [self._topic]).get(TopicPartition(self._topic, 0))
            records = _records(cluster, self._topic, bounds) if bounds else ()
            return positions_in((each.offset, each.key, each.value) for each in records)

    def _write(self, positions: Mapping[PositionKey, ProvenPosition | None]) -> None:
        where, timeout_s = self._brokers, self._brokers.timeout_s
        settings = producing(where.bootstrap_servers, where.properties, timeout_s)
        records = ((0, *encode_position(key, position)) for key, position in positions.items())
        produce(settings, timeout_s, self._topic, records, what="proven positions")


def _records(cluster: KafkaCluster, topic: str, bounds: Bounds) -> Iterator[SyncRecord]:
    """What is committed within the bounds."""
    for rows in read_partition(cluster, bounds, topic):
        names = ("offset", "timestamp_ms", "key", "value")
        yield from map(SyncRecord, *(rows.column(name).to_pylist() for name in names))
