"""The log of a topic fetched from the brokers: straight from the leaders to Arrow, for Spark's tasks.

Spark's own Kafka source makes a JVM object of every record and waits at the end of each partition; this one
asks the leaders itself (`fetch_reader`) and reads the batches as it does those of segment files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.wire import Api, BrokerError, fill, raise_for
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.spark.batches.inflation import Origin
from groupshift.spark.batches.records import Keep, Records, read_records
from groupshift.spark.batches.transactions import Transactions, Visible, resolve, spans, visible
from groupshift.spark.fetch_reader import PartitionReader
from groupshift.spark.segments import OFFSETS_TOPIC, Into, in_tasks, raw_rows, shared

_LATEST, _EARLIEST = -1, -2
_OFFSETS = {"at_least": 2, "at_most": 7}
"""ListOffsets 2 is the first that tells the last stable offset; after 7 comes tiered storage."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """Offsets for one task. ``stable`` asks the broker which transactions were aborted; otherwise their
    markers are found first, up to ``end``."""

    partition: int
    start: int
    end: int
    stable: bool


def fetched(
    spark: SparkSession,
    brokers: Brokers,
    *,
    topic: str = OFFSETS_TOPIC,
    wanted: Visible = Visible.DECIDED,
    keep: Keep = Keep.ALL,
    bounds: Sequence[Bounds] | None = None,
) -> DataFrame:
    """The records of ``topic`` as rows of `segments.SCHEMA`, each partition in log order.

    Ends are those of ``bounds`` (`log_bounds`, taken now when not given): what is written later is not
    read, whatever happens meanwhile. Raises as `log_bounds`.
    """
    return fetched_into(spark, brokers, Into(keep=keep), topic=topic, wanted=wanted, bounds=bounds)


def fetched_into(
    spark: SparkSession,
    brokers: Brokers,
    into: Into,
    *,
    topic: str = OFFSETS_TOPIC,
    wanted: Visible = Visible.DECIDED,
    bounds: Sequence[Bounds] | None = None,
) -> DataFrame:
    """As `fetched`; the tasks that fetch also convert, so rows are of ``into.schema``."""
    known = log_bounds(brokers, topic) if bounds is None else bounds
    tasks = _tasks(known, wanted, 2 * spark.sparkContext.defaultParallelism, whole=into.keep is Keep.WINNERS)

    def read(each: _Range) -> Iterator[pa.RecordBatch]:
        with closing(brokers.cluster()) as cluster:
            yield from _rows(cluster, topic, each, wanted)

    return in_tasks(spark, tasks, read, into)


def log_bounds(brokers: Brokers, topic: str = OFFSETS_TOPIC) -> tuple[Bounds, ...]:
    """Start, last stable offset and end of every partition, asked for at one moment.

    Raises `Rejected` when the topic does not exist or asking for it is refused, `Transient` when brokers
    do not answer in time.
    """
    with closing(brokers.cluster()) as cluster:
        found = cluster.attempt(lambda: _bounds(cluster, topic))
    if not found:
        raise Rejected(
            f"topic {topic!r} does not exist at {brokers.bootstrap_servers}; give the cluster that has it"
        )
    return found


def _bounds(cluster: KafkaCluster, topic: str) -> tuple[Bounds, ...]:
    leaders, errors = cluster.partitions_of([topic])
    if errors.get(topic) not in {None, _UNKNOWN_TOPIC}:
        raise BrokerError(errors[topic], f"topic {topic!r}")
    led: dict[int, list[int]] = {}
    for at, leader in sorted(leaders.items()):
        raise_for(_NO_LEADER if leader < 0 else 0, str(at))
        led.setdefault(leader, []).append(at.partition)
    questions = ((_EARLIEST, False), (_LATEST, True), (_LATEST, False))
    asked = {
        node: [(_list_offsets(cluster, node, (topic, numbers), each), each) for each in questions]
        for node, numbers in led.items()
    }
    found: dict[tuple[int, bool], dict[int, int]] = {each: {} for each in questions}
    for question, answer in cluster.ask_each(asked):
        for each in answer.topics[0].partitions:
            raise_for(each.error_code, str(TopicPartition(topic, int(each.partition_index))))
            found[question][int(each.partition_index)] = int(each.offset)
    starts, stables, ends = (found[each] for each in questions)
    return tuple(
        Bounds(
            partition=number,
            start=starts[number],
            stable=min(stables[number], ends[number]),
            end=ends[number],
        )
        for number in sorted(ends)
    )


def _list_offsets(
    cluster: KafkaCluster, node: int, of: tuple[str, Sequence[int]], question: tuple[int, bool]
) -> Any:
    module = cluster.broker(node).messages(Api.LIST_OFFSETS, **_OFFSETS)
    partitions = tuple(
        module.ListOffsetsPartition(partition_index=number, timestamp=question[0]) for number in of[1]
    )
    return fill(
        module.ListOffsetsRequest,
        replica_id=-1,
        isolation_level=int(question[1]),
        topics=(module.ListOffsetsTopic(name=of[0], partitions=partitions),),
    )


def _tasks(bounds: Sequence[Bounds], wanted: Visible, count: int, *, whole: bool) -> list[list[_Range]]:
    """One list of ranges a task. Unless partitions are read ``whole``, large ones are cut into ranges of
    offsets; small ones share a task."""
    ranges = [list(_ranges(bound, wanted)) for bound in bounds]
    if not whole:
        share = sum(each.end - each.start for of in ranges for each in of) // count + 1
        ranges = [[part] for of in ranges for each in of for part in _cut(each, share)]
    return shared(ranges, [sum(each.end - each.start for each in of) for of in ranges], count)


def _ranges(bound: Bounds, wanted: Visible) -> Iterator[_Range]:
    """What to read of one partition: up to the last stable offset as the broker tells what was aborted,
    from there on by the markers."""
    number = bound.partition
    if wanted is Visible.READ_UNCOMMITTED:
        yield _Range(partition=number, start=bound.start, end=bound.end, stable=False)
        return
    if wanted is not Visible.UNDECIDED and bound.stable > bound.start:
        yield _Range(partition=number, start=bound.start, end=bound.stable, stable=True)
    if wanted is not Visible.READ_COMMITTED and bound.end > bound.stable:
        yield _Range(partition=number, start=bound.stable, end=bound.end, stable=False)


def _cut(whole: _Range, share: int) -> Iterator[_Range]:
    if not whole.stable:  # its markers are looked for from its start to its end
        yield whole
        return
    for start in range(whole.start, whole.end, share):
        yield _Range(partition=whole.partition, start=start, end=min(start + share, whole.end), stable=True)


def _rows(cluster: KafkaCluster, topic: str, each: _Range, wanted: Visible) -> Iterator[pa.RecordBatch]:
    at = TopicPartition(topic, each.partition)
    reader = PartitionReader(cluster, at, stable=each.stable)
    known: Transactions | None = None
    if not each.stable and wanted is not Visible.READ_UNCOMMITTED:
        known = resolve(_spans(reader, each))
    for answer in reader.read(each.start, each.end):
        transactions = answer.transactions if known is None else known
        table = visible(answer.part.headers.table, transactions, wanted)
        for records in read_records(answer.part.data, table, Origin(name=f"an answer for {at}")):
            yield _between(raw_rows(each.partition, records), records, each)


def _spans(reader: PartitionReader, each: _Range) -> Iterator[Any]:
    """The transactions up to the end: what is decided later counts as open."""
    for answer in reader.read(each.start, each.end):
        table = answer.part.headers.table
        yield spans(table[table[:, 0] < each.end])


def _between(rows: pa.RecordBatch, records: Records, each: _Range) -> pa.RecordBatch:
    """Without the records before the start and from the end on: batches reach over both."""
    low, high = np.searchsorted(records.offset.to_numpy(), (each.start, each.end))
    return rows.slice(int(low), int(high - low))


def read_partition(
    cluster: KafkaCluster, bounds: Bounds, wanted: Visible = Visible.DECIDED, topic: str = OFFSETS_TOPIC
) -> Iterator[pa.RecordBatch]:
    """One partition's records within ``bounds`` in log order, in this process: rows of `segments.SCHEMA`.

    Raises as `PartitionReader.read`."""
    for each in _ranges(bounds, wanted):
        yield from _rows(cluster, topic, each, wanted)
