"""The log of a topic read from segment files that were copied from brokers, without a cluster.

`segments` gives the rows; `scan_segments` and `read_segments` are its two steps, for those who also want to
know what the copy holds: log ends, last stable offsets, open transactions, torn ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupshift.errors import Rejected
from groupshift.spark.batches.files import filesystem, read_parts
from groupshift.spark.batches.inflation import Origin
from groupshift.spark.batches.records import Keep, Records, newest, read_records
from groupshift.spark.batches.transactions import Transactions, Visible, visible
from groupshift.spark.segment_folders import Replica, find_replicas
from groupshift.spark.segment_scan import CUT, ReplicaFacts, scan

OFFSETS_TOPIC = "__consumer_offsets"
SCHEMA = "partition int, offset long, timestamp_ms long, key binary, value binary"
"""Of every source of raw records."""


class Copies(StrEnum):
    """What to do where a folder holds several brokers' copies of one partition."""

    REFUSE = "refuse"
    LONGEST = "longest"
    """Take the copy with the highest log end, the first by path among equal ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLog:
    """A topic's log as files: ``uri`` is where it was asked for; one copy of each partition, in order."""

    uri: str
    topic: str
    partitions: tuple[ReplicaFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """The bytes ``start:end`` of one file, for one task."""

    partition: int
    path: str
    start: int
    end: int


def segments(
    spark: SparkSession,
    uri: str,
    *,
    topic: str = OFFSETS_TOPIC,
    wanted: Visible = Visible.DECIDED,
    keep: Keep = Keep.ALL,
    copies: Copies = Copies.REFUSE,
) -> DataFrame:
    """The records of ``topic`` in the folder ``uri`` as rows of `SCHEMA`; each partition in log order.

    Reads every file once before it returns (headers and checksums), and its records when rows are asked
    for. Raises `Rejected` when there are no segments, or several copies of a partition and none may be
    chosen; `Broken` for damage, naming file and byte. An unfinished batch at the end is left out.
    """
    return read_segments(spark, scan_segments(spark, uri, topic=topic, copies=copies), wanted, keep)


def scan_segments(
    spark: SparkSession,
    uri: str,
    *,
    topic: str = OFFSETS_TOPIC,
    copies: Copies = Copies.REFUSE,
    cut: int = CUT,
) -> SegmentLog:
    """What the folder holds; tasks share files that are longer than ``cut`` bytes. Raises as `segments`."""
    found = find_replicas(uri, topic)
    doubled = next((each for each in found.values() if len(each) > 1), None)
    if doubled and copies is Copies.REFUSE:
        raise Rejected(
            f"partition {doubled[0].partition} of {topic} is in {doubled[0].folder} and in "
            f"{doubled[1].folder}; give one broker's folder, or choose the longest copy"
        )
    facts = scan(spark, uri, [replica for each in found.values() for replica in each], cut)
    return SegmentLog(uri=uri, topic=topic, partitions=_chosen(found, facts))


def _chosen(
    found: Mapping[int, Sequence[Replica]], facts: Sequence[ReplicaFacts]
) -> tuple[ReplicaFacts, ...]:
    longest: dict[int, ReplicaFacts] = {}
    for each in facts:
        number = each.replica.partition
        if number not in longest or each.log_end > longest[number].log_end:
            longest[number] = each
    return tuple(longest[number] for number in sorted(found))


def read_segments(
    spark: SparkSession, log: SegmentLog, wanted: Visible = Visible.DECIDED, keep: Keep = Keep.ALL
) -> DataFrame:
    """The wanted records of a scanned log as rows of `SCHEMA`. Reads nothing yet."""
    tasks = _tasks(spark, log)
    transactions = {each.replica.partition: each.transactions for each in log.partitions}
    uri = log.uri

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for unit in tasks[number]:
                    for rows in _rows(uri, unit, transactions[unit.partition], wanted):
                        yield kept(rows, keep)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, SCHEMA)


def _tasks(spark: SparkSession, log: SegmentLog) -> list[list[_Unit]]:
    """The files cut into units, consecutive ones put together to tasks of about equal size."""
    units = [unit for each in log.partitions for unit in _units(each)]
    total = sum(unit.end - unit.start for unit in units)
    share = total // (4 * spark.sparkContext.defaultParallelism) + 1
    tasks: list[list[_Unit]] = [[]]
    size = 0
    for unit in units:
        if tasks[-1] and size >= share:
            tasks.append([])
            size = 0
        tasks[-1].append(unit)
        size += unit.end - unit.start
    return tasks


def _units(replica: ReplicaFacts) -> Iterator[_Unit]:
    for file, facts in zip(replica.replica.files, replica.facts, strict=True):
        for start, end in zip(facts.cuts, (*facts.cuts[1:], facts.end), strict=True):
            if end > start:
                yield _Unit(partition=replica.replica.partition, path=file.path, start=start, end=end)


def _rows(uri: str, unit: _Unit, transactions: Transactions, wanted: Visible) -> Iterator[pa.RecordBatch]:
    store, _ = filesystem(uri)
    for part in read_parts(store, unit.path, unit.start, unit.end, check=False):
        table = visible(part.headers.table, transactions, wanted)
        for records in read_records(part.data, table, Origin(name=unit.path, position=part.position)):
            yield raw_rows(unit.partition, records)


def raw_rows(partition: int, records: Records) -> pa.RecordBatch:
    """Records of one partition as Arrow rows of `SCHEMA`."""
    return pa.record_batch(
        {
            "partition": pa.array(np.full(len(records), partition, dtype=np.int32)),
            "offset": records.offset,
            "timestamp_ms": records.timestamp_ms,
            "key": records.key,
            "value": records.value,
        }
    )


def kept(rows: pa.RecordBatch, keep: Keep) -> pa.RecordBatch:
    """Those rows of a piece that are to be kept."""
    return rows if keep is Keep.ALL else rows.take(newest(rows.column("key")))
