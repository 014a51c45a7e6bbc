"""The log of a topic from the brokers: straight from the leaders to Arrow, for Spark's tasks.

Spark's own Kafka source makes a JVM object of every record and waits at the end of each partition; this one
asks the leaders itself and reads the batches as it does those of segment files.

`PartitionReader` needs no Spark. While it reads one answer it has already sent the next request. It looks a
leader up again that moved or went away, and repeats what failed, within the time of `KafkaCluster`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import EARLIEST, LATEST, log_offsets
from groupshift.adapters.kafka.wire import Api, BrokerError, raise_for
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Rejected
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.headers import ABORT, CONTROL, LAST, OFFSET, PRODUCER, read_headers
from groupshift.spark.batches.records import read_records
from groupshift.spark.batches.segment_files import Part
from groupshift.spark.batches.transactions import FOR_EVER, Transactions, resolve, transactions_in, visible
from groupshift.spark.segment_scan import shared
from groupshift.spark.segments import AS_READ, Into, in_tasks

_UNKNOWN_TOPIC, _NO_LEADER = 3, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """Where and how to ask: ``properties`` are librdkafka's security keys (never printed), ``timeout_s``
    bounds every request with its retries."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False, default_factory=dict)
    timeout_s: float = 30.0

    def cluster(self) -> KafkaCluster:
        """Connections of one's own; close them."""
        return KafkaCluster(self.bootstrap_servers, properties=self.properties, timeout_s=self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one partition at one moment: log start, last stable offset, and high watermark (``end``)."""

    partition: int
    start: int
    stable: int
    end: int


def fetched(
    spark: SparkSession,
    brokers: Brokers,
    into: Into = AS_READ,
    *,
    topic: str = OFFSETS_TOPIC,
    bounds: Sequence[Bounds] | None = None,
) -> DataFrame:
    """The records of ``topic``, each partition in log order and read by one task. Rows are of
    ``into.schema``: the tasks that fetch also convert.

    Ends are those of ``bounds`` (`log_bounds`, taken now when not given): what is written later is not
    read, whatever happens meanwhile. Raises as `log_bounds`.
    """
    whole = log_bounds(brokers, topic) if bounds is None else bounds
    ranges = [[each] for each in whole if each.end > each.start]
    count = 2 * spark.sparkContext.defaultParallelism
    tasks = shared(ranges, [each.end - each.start for (each,) in ranges], count)

    def read(each: Bounds) -> Iterator[pa.RecordBatch]:
        with closing(brokers.cluster()) as cluster:
            yield from read_partition(cluster, each, topic)

    return in_tasks(spark, tasks, read, into)


def log_bounds(brokers: Brokers, topic: str = OFFSETS_TOPIC) -> tuple[Bounds, ...]:
    """Start, last stable offset and end of every partition, asked for at one moment.

    Raises `Rejected` when the topic does not exist or asking for it is refused, `Transient` when brokers
    do not answer in time.
    """
    with closing(brokers.cluster()) as cluster:
        bounds = cluster.attempt(lambda: _bounds(cluster, topic))
    if not bounds:
        raise Rejected(
            f"topic {topic!r} does not exist at {brokers.bootstrap_servers}; give the cluster that has it"
        )
    return bounds


def _bounds(cluster: KafkaCluster, topic: str) -> tuple[Bounds, ...]:
    """`log_bounds` by one cluster: leaders first, then three questions to each of them at the same time.

    Raises `BrokerError` for a partition without a leader, and for what a leader refuses."""
    leaders, errors = cluster.partitions_of([topic])
    if errors.get(topic) not in {None, _UNKNOWN_TOPIC}:
        raise BrokerError(errors[topic], f"topic {topic!r}")
    for at, leader in sorted(leaders.items()):
        raise_for(_NO_LEADER if leader < 0 else 0, str(at))
    led = [(leader, (topic, at.partition)) for at, leader in sorted(leaders.items())]
    questions = ((EARLIEST, 0), (LATEST, 1), (LATEST, 0))

    def requests(connection: BrokerConnection, each: list[tuple[str, int]]) -> Iterator[tuple[Any, Any]]:
        for spec, level in questions:
            yield log_offsets(connection, each, spec, isolation=level), (spec, level)

    offsets: dict[tuple[int, int], dict[int, int]] = {each: {} for each in questions}
    for question, answer in cluster.ask_at(led, requests):
        for each in answer.topics[0].partitions:
            raise_for(each.error_code, str(TopicPartition(topic, int(each.partition_index))))
            offsets[question][int(each.partition_index)] = int(each.offset)
    starts, stables, ends = (offsets[each] for each in questions)
    return tuple(
        Bounds(partition=at, start=starts[at], stable=min(stables[at], end), end=end)
        for at, end in sorted(ends.items())
    )


def read_partition(
    cluster: KafkaCluster, bounds: Bounds, topic: str = OFFSETS_TOPIC
) -> Iterator[pa.RecordBatch]:
    """One partition's decided records within ``bounds`` in log order, in this process, an Arrow batch at a
    time: rows of `segments.SCHEMA`. Up to the last stable offset the broker tells what was aborted; what lies
    behind it is read twice, markers first.

    Raises as `PartitionReader.read`."""
    at = TopicPartition(topic, bounds.partition)
    origin = Origin(name=f"an answer for {at}", partition=at.partition)
    for start, end, stable in ((bounds.start, bounds.stable, True), (bounds.stable, bounds.end, False)):
        reader = PartitionReader(cluster, at, stable=stable)
        known: Transactions | None = None
        if not stable:
            headers = (answer.headers.table for answer, _ in reader.read(start, end))
            # What is decided after the end counts as open.
            known = resolve(transactions_in(table[table[:, OFFSET] < end]) for table in headers)
        for part, aborted in reader.read(start, end):
            table = visible(part.headers.table, aborted if known is None else known)
            for rows in read_records(part.data, table, origin):
                low, high = np.searchsorted(rows.column("offset").to_numpy(), (start, end))
                yield rows.slice(int(low), int(high - low))  # batches reach over start and end


_VERSIONS = {"at_least": 4, "at_most": 12}
"""Fetch 4 is the first that knows transactions, 12 the last that names topics (KIP-98, KIP-516)."""
_ANSWER_BYTES = 8 << 20
_WAIT = timedelta(milliseconds=500)
_OUT_OF_RANGE = 1
_EVERYTHING = 1 << 20  # batches a call of `read_headers` may find: more than an answer holds


class PartitionReader:
    """Reads one partition through ``cluster``; `stable` asks as a consumer with read_committed does."""

    def __init__(self, cluster: KafkaCluster, at: TopicPartition, *, stable: bool) -> None:
        self._cluster, self._at, self._stable = cluster, at, stable
        self._leader: int | None = None
        self._under_way: tuple[BrokerConnection, int, int] | None = None

    def read(self, start: int, end: int) -> Iterator[tuple[Part, Transactions]]:
        """The batches with offsets from ``start`` to ``end`` (exclusive), an answer at a time, with the
        transactions that the broker says were aborted. The first and the last batch may reach beyond. Records
        that were deleted meanwhile are left out.

        Raises `Transient` when no leader answers in time, `Rejected` when one refuses, `Broken` for damage.
        """
        position = start
        while position < end:
            answer = self._cluster.attempt(lambda at=position: self._answer(at))  # type: ignore[misc]
            data = np.frombuffer(answer.records or b"", dtype=np.uint8)
            headers = read_headers(data, capacity=min(_EVERYTHING, len(data) // 60 + 1))
            if headers.damage:
                raise Broken(f"{self._at}: the batch after offset {position} came damaged, {headers.damage}")
            table = headers.table
            position = int(table[-1, LAST]) + 1 if len(table) else int(answer.log_start_offset)
            if position < end:
                self._ask(position)
            aborted = _aborted_ranges(answer.aborted_transactions or (), table)
            yield Part(data=data, headers=headers, position=0), Transactions(hidden=aborted, open={})

    def _answer(self, position: int) -> Any:
        """What the leader answers for ``position``: already asked for, or asked now."""
        try:
            if self._under_way is None or self._under_way[2] != position:
                self._ask(position)
            assert self._under_way is not None  # noqa: S101 - `_ask` has set it
            connection, correlation, _ = self._under_way
            self._under_way = None
            answer = connection.receive(correlation)
            raise_for(getattr(answer, "error_code", 0), str(self._at))
            ((partition,),) = [topic.partitions for topic in answer.responses]
            if partition.error_code == _OUT_OF_RANGE and partition.log_start_offset > position:
                return partition  # deleted since the ends were taken: what is left begins later
            raise_for(partition.error_code, f"{self._at} at offset {position}")
            # The end was known when it was asked for: a leader that has nothing there is behind.
            raise_for(0 if partition.records else _NO_LEADER, f"{self._at} has nothing at offset {position}")
        except (OSError, BrokerError):
            self._leader = self._under_way = None
            raise
        return partition

    def _ask(self, position: int) -> None:
        """Send the request for what lies from ``position`` on to the leader, which is looked up first."""
        if self._leader is None:
            leader = self._cluster.partitions_of([self._at.topic])[0].get(self._at)
            if leader is None or leader < 0:
                raise BrokerError(_UNKNOWN_TOPIC if leader is None else _NO_LEADER, str(self._at))
            self._leader = leader
        connection = self._cluster.broker(self._leader)
        partition = {
            "partition": self._at.partition,
            "fetch_offset": position,
            "partition_max_bytes": _ANSWER_BYTES,
        }
        request = connection.request(
            Api.FETCH,
            **_VERSIONS,
            max_wait=_WAIT,
            min_bytes=1,
            max_bytes=_ANSWER_BYTES,
            isolation_level=int(self._stable),
            topics=[{"topic": self._at.topic, "partitions": [partition]}],
            forgotten_topics_data=[],
        )
        self._under_way = connection, connection.send(request), position


def _aborted_ranges(aborted: Iterable[Any], table: Any) -> Any:
    """Rows of (producer id, first, last) of the transactions that the broker says were aborted: each ends
    with its producer's next marker in this answer, or after it."""
    rows = []
    markers = table[table[:, CONTROL] == ABORT]
    for one in aborted:
        producer, first = int(one.producer_id), int(one.first_offset)
        ends = markers[(markers[:, PRODUCER] == producer) & (markers[:, OFFSET] > first), OFFSET]
        rows.append((producer, first, int(ends[0]) if len(ends) else FOR_EVER))
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
