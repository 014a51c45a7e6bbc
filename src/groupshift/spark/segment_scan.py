"""A first pass over segment files: are they whole, where do they end, which transactions do they hold.

Every file is read once by a Spark task, headers and checksums only (nothing is inflated). What comes back
is small, so damage is an error of the driver's before any record is read.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from groupshift.errors import Broken
from groupshift.spark.batches.headers import LAST, OFFSET, POSITION, Ending, find_batch
from groupshift.spark.batches.segment_files import WINDOW, Replica, SegmentFile, filesystem, read_parts
from groupshift.spark.batches.transactions import Transactions, resolve, transactions_in

T = TypeVar("T")
Reading = Callable[[Iterable[Any]], Iterator[pa.RecordBatch]]
"""Rows from some of a frame's tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What one file holds: offsets ``first`` to ``next`` (exclusive; both 0 without a batch), the byte
    ``end`` of the last whole batch and what comes there, ``damage`` in words, ``spans`` of transactions."""

    first: int
    next: int
    end: int
    ending: Ending
    damage: str | None
    spans: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """What one copy of a partition holds; ``facts`` in the order of its files. Offsets are exclusive at
    the end; ``torn`` counts the bytes of an unfinished batch at the end, which a live copy may have."""

    replica: Replica
    facts: tuple[FileFacts, ...]
    transactions: Transactions
    torn: int

    @property
    def log_start(self) -> int:
        """The base offset of the first batch that is there (of a wrapper of format 0 or 1: its last)."""
        return next((each.first for each in self.facts if each.next), self.replica.files[0].base)

    @property
    def log_end(self) -> int:
        """The offset that the next record gets."""
        return max(self.replica.files[-1].base, *(each.next for each in self.facts))

    @property
    def last_stable_offset(self) -> int:
        """Before it every transaction is decided."""
        return min(self.transactions.open.values(), default=self.log_end)


def scan(spark: SparkSession, uri: str, replicas: Sequence[Replica]) -> tuple[ReplicaFacts, ...]:
    """The facts of each replica.

    Raises `Broken` for the first damage, naming file and byte.
    """
    files = [file for replica in replicas for file in replica.files]
    sizes = [file.size for file in files]
    most = min(sum(sizes) // (4 << 20) + 1, 4 * spark.sparkContext.defaultParallelism)
    tasks = shared(files, sizes, most)

    def read(mine: Iterable[list[SegmentFile]]) -> Iterator[pa.RecordBatch]:
        store, _ = filesystem(uri)
        for task in mine:
            yield pa.record_batch({"facts": [pickle.dumps(scan_file(store, file)) for file in task]})

    rows = by_task(spark, tasks, read, "facts binary").collect()
    facts = (pickle.loads(row.facts) for row in rows)  # noqa: S301 - what our own tasks wrote
    return tuple(_replica(replica, list(islice(facts, len(replica.files)))) for replica in replicas)


def shared(pieces: Sequence[T], sizes: Sequence[int], count: int) -> list[list[T]]:
    """Consecutive pieces put together to about ``count`` tasks of equal size; no piece is divided."""
    share = sum(sizes) // count + 1
    tasks: list[list[T]] = [[]]
    filled = 0
    for piece, size in zip(pieces, sizes, strict=True):
        if tasks[-1] and filled >= share:
            tasks.append([])
            filled = 0
        tasks[-1].append(piece)
        filled += size
    return tasks


def by_task(spark: SparkSession, tasks: Sequence[Any], read: Reading, schema: str) -> DataFrame:
    """What ``read`` gives for each task, in their order. Every pass goes this way: Spark forks the workers of
    an RDD from a process of their own, which would load all our code a second time."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return read(tasks[number] for batch in batches for number in batch.column(0).to_pylist())

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, schema)


def replica_facts(store: fs.FileSystem, replica: Replica) -> ReplicaFacts:
    """The facts of one replica, read in this process. Raises as `scan`."""
    return _replica(replica, [scan_file(store, file) for file in replica.files])


def scan_file(store: fs.FileSystem, file: SegmentFile) -> FileFacts:
    """The facts of one file; damage is one of them."""
    first, following, end = 0, 0, 0
    ending, damage = Ending.TORN, cast("str | None", None)
    tables = [np.empty((0, 4), dtype=np.int64)]
    for part in read_parts(store, file.path, 0, file.size, check=True):
        table, ending, damage = part.headers.table, part.headers.ending, part.headers.damage
        end = part.position + part.headers.end
        before = np.concatenate(([following - 1], table[:-1, LAST]))[: len(table)]
        if len(wrong := np.flatnonzero(table[:, OFFSET] <= before)):
            damage = f"its offset {table[wrong[0], OFFSET]} is not above those before it"
            end = part.position + int(table[wrong[0], POSITION])
        elif len(table):
            first = first if following else int(table[0, OFFSET])
            following = int(table[-1, LAST]) + 1
            tables.append(transactions_in(table))
        if damage:
            break
        if ending is Ending.BLANK:  # is there nothing but zeros?
            with store.open_input_file(file.path) as log:
                pieces = (log.read_at(WINDOW, at) for at in range(end, file.size, WINDOW))
                written = any(np.frombuffer(piece, dtype=np.uint8).any() for piece in pieces)
            damage = "zeros where its header should be" if written else None
        if ending is Ending.TORN and end < file.size:  # it is only torn when no whole batch comes after it
            at = find_batch(part.data, part.headers.end + 1, following)
            damage = None if at < 0 else f"its length leads past a whole batch at byte {part.position + at}"
    return FileFacts(
        first=first, next=following, end=end, ending=ending, damage=damage, spans=np.concatenate(tables)
    )


def _replica(replica: Replica, facts: Sequence[FileFacts]) -> ReplicaFacts:
    """Raises `Broken` for damage, and for files that do not belong to one log."""
    following, last = 0, replica.files[-1]
    for file, each in zip(replica.files, facts, strict=True):
        wrong = f"damaged, {each.damage}" if each.damage else ""
        if not wrong and each.ending is Ending.TORN and each.end < file.size and file is not last:
            wrong = "cut off, and later segments exist"
        if wrong:
            raise Broken(
                f"{file.path}: byte {each.end}: the batch there is {wrong}; copy the file again, or take "
                "another replica's"
            )
        if each.next and each.first < following:
            raise Broken(
                f"{file.path} begins at offset {each.first}, and an earlier segment already reaches "
                f"{following}: the copy mixes segments from before and after a compaction; copy the "
                "folder again"
            )
        following = max(following, each.next)
    tail = facts[-1]
    torn = last.size - tail.end if tail.ending is Ending.TORN else 0
    transactions = resolve(each.spans for each in facts)
    return ReplicaFacts(replica=replica, facts=tuple(facts), transactions=transactions, torn=torn)
