"""``__consumer_offsets`` without a Spark session: from copied segment files, or from the leaders.

`CopiedLog` reads files that were copied from a broker and needs no cluster
(`groupshift.ports.log.OffsetsLog`). `DirectLog` reads from the leaders (`groupshift.ports.log.LogReader`).

What a cluster of some thousand groups holds is read and decoded in less time than a Spark session takes to
start. Larger logs go through `groupshift.spark.segments` and `groupshift.spark.broker_source`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cached_property

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import BROKER, describe_configs
from groupshift.adapters.kafka.wire import UnsupportedByBroker
from groupshift.domain.cluster import RETENTION
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC
from groupshift.log import LogRecord
from groupshift.log.decode import Position
from groupshift.ports.log import LogProgress
from groupshift.spark.batches.coordinator_records import log_records
from groupshift.spark.batches.segment_files import filesystem, find_replicas
from groupshift.spark.broker_source import Bounds, Brokers, log_bounds, read_partition
from groupshift.spark.segment_scan import ReplicaFacts, replica_facts
from groupshift.spark.segments import unit_rows, units


class CopiedLog:
    """The copy below ``uri``; of several copies of a partition the longest. Raises as `segments`."""

    def __init__(self, uri: str, topic: str = OFFSETS_TOPIC) -> None:
        self._uri = uri
        self._topic = topic

    def position(self) -> Position:
        """See the port."""
        return {number: each.log_end for number, each in self._replicas.items()}

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, progress: LogProgress | None = None
    ) -> Iterator[LogRecord]:
        """See the port."""
        wanted = sorted(number for number in up_to if partitions is None or number in partitions)
        total = sum(up_to[number] for number in wanted)
        done = 0
        store, _ = filesystem(self._uri)
        for number in wanted:
            replica = self._replicas[number]
            for unit in units(replica):
                for rows in unit_rows(store, unit, replica.transactions):
                    yield from (each for each in log_records(rows) if each.offset < up_to[number])
            done += up_to[number]
            if progress is not None:
                progress(done, total)

    @cached_property
    def _replicas(self) -> Mapping[int, ReplicaFacts]:
        """Of each partition the copy with the highest log end, the first by path among equal ones. Every file
        is read once: headers and checksums."""
        store, _ = filesystem(self._uri)
        replicas = find_replicas(self._uri, self._topic)
        return {
            number: max((replica_facts(store, each) for each in copies), key=lambda each: each.log_end)
            for number, copies in sorted(replicas.items())
        }


_MINUTE_MS = 60_000


class DirectLog:
    """Reads through connections of its own; used by one thread at a time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._bounds: Mapping[int, Bounds] = {}

    def position(self) -> Position:
        """See the port."""
        self._bounds = {each.partition: each for each in log_bounds(self._brokers)}
        return {number: each.end for number, each in self._bounds.items()}

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, progress: LogProgress | None = None
    ) -> Iterator[LogRecord]:
        """See the port. Where each log begins, and what is stable, is as the last `position` found it."""
        bounds = self.bounds(up_to, partitions)
        total = sum(each.end - each.start for each in bounds)
        done = 0
        with closing(self._brokers.cluster()) as cluster:
            for each in bounds:
                for batch in read_partition(cluster, each):
                    yield from log_records(batch)
                done += each.end - each.start
                if progress is not None:
                    progress(done, total)

    def bounds(self, up_to: Position, partitions: Collection[int] | None = None) -> tuple[Bounds, ...]:
        """What `read` would read of each partition, in their order."""
        within = []
        for number in sorted(up_to):
            if partitions is None or number in partitions:
                known, end = self._bounds[number], up_to[number]
                stable = min(max(known.stable, known.start), end)
                within.append(replace(known, start=min(known.start, end), stable=stable, end=end))
        return tuple(within)

    def retention_ms(self) -> int | None:
        """See the port: the shortest that a broker has."""
        with closing(self._brokers.cluster()) as cluster:
            minutes_of = cluster.attempt(
                lambda: [_retention(cluster, node.node_id) for node in cluster.brokers()]
            )
        return min((minutes * _MINUTE_MS for minutes in minutes_of if minutes is not None), default=None)

    def close(self) -> None:
        """Nothing stays open between calls."""


def _retention(cluster: KafkaCluster, node: int) -> int | None:
    """What this broker says of itself, in minutes; None when it does not tell (no right to ask)."""
    connection = cluster.broker(node)
    try:
        request = describe_configs(connection, BROKER, [str(node)], (RETENTION,))
    except UnsupportedByBroker:
        return None
    configured = [each.configs for each in connection.ask(request).results if not each.error_code]
    values = [config.value for configs in configured for config in configs if config.name == RETENTION]
    return int(values[0]) if values and values[0] else None
