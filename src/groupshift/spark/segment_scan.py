"""A first pass over segment files: are they whole, where may they be cut, which transactions do they hold.

Every file is read once by a Spark task, headers and checksums only (nothing is inflated). What comes back
is small, so damage is an error of the driver's before any record is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from groupshift.errors import Broken
from groupshift.spark.batches.files import WINDOW, Part, Replica, SegmentFile, filesystem, read_parts
from groupshift.spark.batches.headers import COUNT, LAST, OFFSET, POSITION, Ending, find_batch
from groupshift.spark.batches.transactions import Transactions, resolve, spans
from groupshift.spark.session import arrow_schema

CUT = 8 << 20
"""Files are cut at batches about so many bytes apart, so that tasks can share one."""

_SCHEMA = (
    "file int, first long, next long, records long, end long, ending string, damage string, "
    "cuts array<long>, spans array<long>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What one file holds: offsets ``first`` to ``next`` (exclusive; both 0 without a batch), ``records``
    (a compressed set of format 0 or 1 counts as one), the byte ``end`` of the last whole batch and what
    comes there, ``damage`` in words, ``cuts`` where batches begin, and `spans` of transactions."""

    first: int
    next: int
    records: int
    end: int
    ending: Ending
    damage: str | None
    cuts: tuple[int, ...]
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
        return self.transactions.stable_end(self.log_end)


def scan(
    spark: SparkSession, uri: str, replicas: Sequence[Replica], cut: int = CUT
) -> tuple[ReplicaFacts, ...]:
    """The facts of each replica; files are cut about every ``cut`` bytes.

    Raises `Broken` for the first damage, naming file and byte.
    """
    files = [file for replica in replicas for file in replica.files]
    groups = _balanced(files, _tasks(spark, files))

    schema = arrow_schema(_SCHEMA)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store, _ = filesystem(uri)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for index in groups[number]:
                    row = _row(index, scan_file(store, files[index], cut))
                    yield pa.RecordBatch.from_pylist([row], schema=schema)

    rows = spark.range(0, len(groups), 1, len(groups)).mapInArrow(run, _SCHEMA).collect()
    facts = [_facts(row) for row in sorted(rows, key=lambda row: row["file"])]
    found, done = [], 0
    for replica in replicas:
        found.append(_replica(replica, facts[done : done + len(replica.files)]))
        done += len(replica.files)
    return tuple(found)


def replica_facts(store: fs.FileSystem, replica: Replica) -> ReplicaFacts:
    """The facts of one replica, read in this process. Raises as `scan`."""
    return _replica(replica, [scan_file(store, file) for file in replica.files])


def _tasks(spark: SparkSession, files: Sequence[SegmentFile]) -> int:
    total = sum(file.size for file in files)
    return max(1, min(len(files), total // (4 << 20) + 1, 4 * spark.sparkContext.defaultParallelism))


def _balanced(files: Sequence[SegmentFile], count: int) -> list[list[int]]:
    """Groups of about equal size: the largest files first, each to the group with least."""
    groups: list[list[int]] = [[] for _ in range(count)]
    sizes = [0] * count
    for index in sorted(range(len(files)), key=lambda index: -files[index].size):
        least = sizes.index(min(sizes))
        groups[least].append(index)
        sizes[least] += files[index].size + 1
    return groups


def scan_file(store: fs.FileSystem, file: SegmentFile, cut: int = CUT) -> FileFacts:
    """The facts of one file; damage is one of them."""
    seen = _Seen(cut)
    for part in read_parts(store, file.path, 0, file.size, check=True):
        seen.add(part)
        if seen.damage:
            break
        if part.headers.ending is Ending.BLANK and not _blank(store, file, seen.end):
            seen.damage = "zeros where its header should be"
        if part.headers.ending is Ending.TORN and seen.end < file.size:
            seen.damage = _overlooked(part, seen.next)
    return seen.facts()


class _Seen:
    """What the parts of a file have shown so far."""

    def __init__(self, cut: int) -> None:
        self._cut = cut
        self.first, self.next, self.records, self.end = 0, 0, 0, 0
        self.ending, self.damage = Ending.TORN, cast("str | None", None)
        self._cuts, self._bucket, self._spans = [0], 0, [np.empty((0, 4), dtype=np.int64)]

    def add(self, part: Part) -> None:
        """Take note of one more part."""
        table = part.headers.table
        self.end, self.ending = part.position + part.headers.end, part.headers.ending
        self.damage = part.headers.damage
        if not len(table):
            return
        before = np.concatenate(([self.next - 1], table[:-1, LAST]))
        if len(wrong := np.flatnonzero(table[:, OFFSET] <= before)):
            self.damage = f"its offset {table[wrong[0], OFFSET]} is not above those before it"
            self.end = part.position + int(table[wrong[0], POSITION])
            return
        self.first = self.first if self.next else int(table[0, OFFSET])
        self.next = int(table[-1, LAST]) + 1
        self.records += int(table[:, COUNT].sum())
        begins = part.position + table[:, POSITION]
        buckets = begins // self._cut
        self._cuts += begins[np.flatnonzero(np.diff(buckets, prepend=self._bucket))].tolist()
        self._bucket = int(buckets[-1])
        self._spans.append(spans(table))

    def facts(self) -> FileFacts:
        """All of it."""
        return FileFacts(
            first=self.first,
            next=self.next,
            records=self.records,
            end=self.end,
            ending=self.ending,
            damage=self.damage,
            cuts=tuple(self._cuts),
            spans=np.concatenate(self._spans),
        )


def _blank(store: fs.FileSystem, file: SegmentFile, start: int) -> bool:
    """Whether nothing but zeros follows."""
    with store.open_input_file(file.path) as opened:
        for at in range(start, file.size, WINDOW):
            if np.frombuffer(opened.read_at(min(WINDOW, file.size - at), at), dtype=np.uint8).any():
                return False
    return True


def _overlooked(part: Part, following: int) -> str | None:
    """A batch that does not end is only torn when no whole one comes after it."""
    found = find_batch(part.data, part.headers.end + 1, following)
    return None if found < 0 else f"its length leads past a whole batch at byte {part.position + found}"


def _row(index: int, facts: FileFacts) -> dict[str, Any]:
    told = {each.name: getattr(facts, each.name) for each in fields(facts)}
    return {**told, "file": index, "spans": facts.spans.ravel().tolist()}


def _facts(row: Any) -> FileFacts:
    told = row.asDict()
    del told["file"]
    return FileFacts(
        **told
        | {"ending": Ending(row["ending"]), "cuts": tuple(row["cuts"])}
        | {"spans": np.array(row["spans"], dtype=np.int64).reshape(-1, 4)}
    )


def _replica(replica: Replica, facts: Sequence[FileFacts]) -> ReplicaFacts:
    """Raises `Broken` for damage, and for files that do not belong to one log."""
    following, last = 0, replica.files[-1]
    for file, each in zip(replica.files, facts, strict=True):
        if each.damage:
            raise Broken(
                f"{file.path}: byte {each.end}: the batch there is damaged, {each.damage}; copy the file "
                "again, or take another replica's"
            )
        if each.ending is Ending.TORN and each.end < file.size and file is not last:
            raise Broken(
                f"{file.path}: byte {each.end}: the batch there is cut off, and later segments exist; copy "
                "the file again"
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
