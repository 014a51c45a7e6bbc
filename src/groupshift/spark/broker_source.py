"""The log of a topic from the brokers: straight from the leaders to Arrow, for Spark's tasks.

Spark's own Kafka source makes a JVM object of every record and waits at the end of each partition; this one
asks the leaders itself and reads the batches as it does those of segment files.

`PartitionReader` needs no Spark. While it reads one answer it has already sent the next request. It looks a
leader up again that moved or went away, and repeats what failed, within the time of `KafkaCluster`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.wire import Api, BrokerError, fill, raise_for
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Rejected
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.files import Part
from groupshift.spark.batches.headers import ABORT, CONTROL, LAST, OFFSET, PRODUCER, Headers, read_headers
from groupshift.spark.batches.records import Keep, Records, read_records
from groupshift.spark.batches.transactions import FOR_EVER, Transactions, Visible, resolve, spans, visible
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


_VERSIONS = {"at_least": 4, "at_most": 12}
"""Fetch 4 is the first that knows transactions, 12 the last that names topics (KIP-98, KIP-516)."""
_ANSWER_BYTES = 8 << 20
_WAIT = timedelta(milliseconds=500)
_OUT_OF_RANGE, _NO_TOPIC, _LEADER_NOT_AVAILABLE = 1, 3, 5
_EVERYTHING = 1 << 20  # batches a call of `read_headers` may find: more than an answer holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One answer: its whole batches, and the aborted transactions that the broker told with them."""

    part: Part
    transactions: Transactions


class PartitionReader:
    """Reads one partition through ``cluster``; `stable` asks as a consumer with read_committed does."""

    def __init__(self, cluster: KafkaCluster, at: TopicPartition, *, stable: bool) -> None:
        self._cluster, self._at, self._stable = cluster, at, stable
        self._leader: int | None = None
        self._asked: tuple[BrokerConnection, int, int] | None = None

    def read(self, start: int, end: int) -> Iterator[Fetched]:
        """The batches with offsets from ``start`` to ``end`` (exclusive); the first and the last may reach
        beyond. Records that were deleted meanwhile are left out.

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
            yield self._fetched(data, headers, answer)

    def _fetched(self, data: Any, headers: Headers, answer: Any) -> Fetched:
        told = [(int(each.producer_id), int(each.first_offset)) for each in answer.aborted_transactions or ()]
        transactions = Transactions(aborted=_aborted_ranges(told, headers.table), open={})
        return Fetched(part=Part(data=data, headers=headers, position=0), transactions=transactions)

    def _answer(self, position: int) -> Any:
        """What the leader answers for ``position``: already asked for, or asked now."""
        try:
            if self._asked is None or self._asked[2] != position:
                self._ask(position)
            assert self._asked is not None  # noqa: S101 - `_ask` has set it
            connection, correlation, _ = self._asked
            self._asked = None
            return self._checked(connection.receive(correlation), position)
        except (OSError, BrokerError):
            self._forget()
            raise

    def _ask(self, position: int) -> None:
        if self._leader is None:
            self._leader = self._cluster.leaders([self._at.topic]).get(self._at)
            if self._leader is None:
                raise BrokerError(_NO_TOPIC, str(self._at))
            if self._leader < 0:
                leaderless, self._leader = _LEADER_NOT_AVAILABLE, None
                raise BrokerError(leaderless, str(self._at))
        connection = self._cluster.broker(self._leader)
        request = _request(connection, self._at, position, stable=self._stable)
        self._asked = connection, connection.send(request), position

    def _checked(self, answer: Any, position: int) -> Any:
        raise_for(getattr(answer, "error_code", 0), str(self._at))
        ((found,),) = [topic.partitions for topic in answer.responses]
        if found.error_code == _OUT_OF_RANGE and found.log_start_offset > position:
            return found  # deleted since the ends were taken: what is left begins later
        raise_for(found.error_code, f"{self._at} at offset {position}")
        if not found.records:  # the end was known when it was asked for: this leader is behind
            raise BrokerError(_LEADER_NOT_AVAILABLE, f"{self._at} has nothing at offset {position}")
        return found

    def _forget(self) -> None:
        self._leader = self._asked = None


def _request(connection: BrokerConnection, at: TopicPartition, position: int, *, stable: bool) -> Any:
    module = connection.messages(Api.FETCH, **_VERSIONS)
    partition = fill(
        module.FetchPartition,
        partition=at.partition,
        fetch_offset=position,
        partition_max_bytes=_ANSWER_BYTES,
    )
    return fill(
        module.FetchRequest,
        max_wait=_WAIT,
        min_bytes=1,
        max_bytes=_ANSWER_BYTES,
        isolation_level=int(stable),
        topics=(module.FetchTopic(topic=at.topic, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _aborted_ranges(told: list[tuple[int, int]], table: Any) -> Any:
    """Rows of (producer id, first, last) of the transactions that the broker says were aborted: each ends
    with its producer's next marker in this answer, or after it."""
    rows = []
    markers = table[table[:, CONTROL] == ABORT]
    for producer, first in told:
        ends = markers[(markers[:, PRODUCER] == producer) & (markers[:, OFFSET] > first), OFFSET]
        rows.append((producer, first, int(ends[0]) if len(ends) else FOR_EVER))
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
