"""The log of a topic read from segment files that were copied from brokers, without a cluster.

`segments` gives the rows; `scan_segments` and `read_segments` are its two steps, for those who also want to
know what the copy holds: log ends, last stable offsets, open transactions, torn ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC
from groupshift.errors import Rejected
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.records import latest_by_key, read_records
from groupshift.spark.batches.segment_files import filesystem, find_replicas, read_parts
from groupshift.spark.batches.transactions import Transactions, visible
from groupshift.spark.segment_scan import ReplicaFacts, by_task, scan, shared

SCHEMA = "partition int, offset long, timestamp_ms long, key binary, value binary"
"""Of every source of raw records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Into:
    """What the reading task gives to Spark: its rows, converted from batches of `SCHEMA` to batches of
    ``schema``. A `mapInArrow` after it would send them to the JVM and on to another worker.

    ``winners``: of each partition only what `latest_by_key` leaves, as a coordinator loads it, without a
    shuffle. A partition is then read by one task, which holds its winners; many partitions of about one size
    suit it."""

    winners: bool = False
    schema: str = SCHEMA
    convert: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]] = iter


AS_READ = Into()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLog:
    """A topic's log as files: ``uri`` is where it was asked for; one copy of each partition, in order."""

    uri: str
    partitions: tuple[ReplicaFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The whole batches of one file: its bytes up to ``end``."""

    partition: int
    path: str
    end: int


def units(replica: ReplicaFacts) -> list[Unit]:
    """The files of one copy of a partition that hold anything, in order."""
    files = zip(replica.replica.files, replica.facts, strict=True)
    number = replica.replica.partition
    return [Unit(partition=number, path=file.path, end=facts.end) for file, facts in files if facts.end]


def segments(spark: SparkSession, uri: str, *, topic: str = OFFSETS_TOPIC) -> DataFrame:
    """The records of ``topic`` in the folder ``uri`` as rows of `SCHEMA`; each partition in log order.

    Reads every file once before it returns (headers and checksums), and its records when rows are asked
    for. Raises `Rejected` when there are no segments, or several copies of a partition; `Broken` for damage,
    naming file and byte. An unfinished batch at the end is left out.
    """
    return read_segments(spark, scan_segments(spark, uri, topic=topic))


def scan_segments(spark: SparkSession, uri: str, *, topic: str = OFFSETS_TOPIC) -> SegmentLog:
    """What the folder holds. Raises as `segments`."""
    replicas_of = find_replicas(uri, topic)
    for copies in replicas_of.values():
        if len(copies) > 1:
            raise Rejected(
                f"partition {copies[0].partition} of {topic} is in {copies[0].folder} and in "
                f"{copies[1].folder}; give one broker's folder"
            )
    replicas = [replicas_of[number][0] for number in sorted(replicas_of)]
    return SegmentLog(uri=uri, partitions=scan(spark, uri, replicas))


def read_segments(spark: SparkSession, log: SegmentLog, into: Into = AS_READ) -> DataFrame:
    """The decided records of a scanned log as rows of ``into.schema``. Reads nothing yet."""
    pieces = [units(each) for each in log.partitions]
    whole = pieces if into.winners else [[unit] for each in pieces for unit in each]
    sizes = [sum(unit.end for unit in each) for each in whole]
    tasks = shared(whole, sizes, 4 * spark.sparkContext.defaultParallelism)
    transactions = {each.replica.partition: each.transactions for each in log.partitions}
    uri = log.uri

    def read(unit: Unit) -> Iterator[pa.RecordBatch]:
        return unit_rows(filesystem(uri)[0], unit, transactions[unit.partition])

    return in_tasks(spark, tasks, read, into)


def unit_rows(store: fs.FileSystem, unit: Unit, transactions: Transactions) -> Iterator[pa.RecordBatch]:
    """The decided records of one file as rows of `SCHEMA`; its partition has these transactions."""
    for part in read_parts(store, unit.path, 0, unit.end, check=False):
        table = visible(part.headers.table, transactions)
        at = Origin(name=unit.path, position=part.position, partition=unit.partition)
        yield from read_records(part.data, table, at)


def in_tasks(
    spark: SparkSession,
    tasks: Sequence[Sequence[Sequence[Any]]],
    read: Callable[[Any], Iterable[pa.RecordBatch]],
    into: Into,
) -> DataFrame:
    """What ``read`` gives for each piece of work, thinned out and converted where it was read. A task is a
    list of pieces that follow each other in one partition, for several partitions."""

    def rows(mine: Iterable[Sequence[Sequence[Any]]]) -> Iterator[pa.RecordBatch]:
        for task in mine:
            for pieces in task:
                records = chain.from_iterable(map(read, pieces))
                yield from latest_by_key(records) if into.winners else records

    return by_task(spark, tasks, lambda mine: into.convert(rows(mine)), into.schema)
