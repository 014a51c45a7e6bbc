"""The steps of a comparison over millions of rows: files, segments, keys, then rows. Each part is kept.

Up to the keys the driver reads the files itself, as it did to prove them whole; Spark is started for the
rows whose keys differ.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.parquet import row_hashes
from groupshift.adapters.parquet.compare_inputs import Input
from groupshift.adapters.parquet.row_hashes import Hashes, Segments
from groupshift.domain.equality_rules import Comparison, EqualityRule, Field
from groupshift.domain.evidence import FileEntry
from groupshift.domain.snapshot import CLUSTER_TABLES
from groupshift.spark.compare import differences as rows
from groupshift.spark.output import Progress

SIDES = ("before", "after")
_MOST_SEGMENTS, _FEWEST_SEGMENTS, _ROWS_A_SEGMENT = 1 << 18, 1 << 6, 128
_THREADS = min(os.cpu_count() or 1, 4)
_FEW_ROWS = 1_000_000
_HASHES = ("key_hash", "first_hash", "second_hash")

T = TypeVar("T")
Told = Callable[[str, int, int], None]
"""Progress: what is done, how many parts of it are, of how many."""


PART_ROWS = 2_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to compare. ``live`` says that commits went on between the snapshots; ``memory`` is the heap of
    Spark's driver where this process starts it, ``part_rows`` are read as one part (the unit of resuming),
    ``rows_at_once`` compared at once."""

    before: Path
    after: Path
    output: Path
    comparison: Comparison
    live: bool = False
    memory: str = "2g"
    part_rows: int = PART_ROWS
    rows_at_once: int = 4_000_000


@dataclass(kw_only=True)
class Work:
    """One comparison of table ``offsets``; ``session`` is called when Spark is first needed. ``few_left``:
    no more than a million rows are left for Spark to compare."""

    request: Request
    inputs: Mapping[str, Input]
    rules: Mapping[Field, EqualityRule]
    values: Sequence[Field]
    progress: Progress
    session: Callable[[], SparkSession]
    tell: Told
    few_left: bool = True

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        return self.session()

    @cached_property
    def segments(self) -> int:
        """How many segments there are: a power of two, for about 128 rows each, at most 2^18."""
        count = max(sum(entry.rows for entry in self.entries(side)) for side in SIDES)
        wanted = 1 << max(count // _ROWS_A_SEGMENT, 1).bit_length()
        return min(max(wanted, _FEWEST_SEGMENTS), _MOST_SEGMENTS)

    def entries(self, side: str) -> tuple[FileEntry, ...]:
        """The files of table ``offsets``."""
        return self.inputs[side].manifest.of_table("offsets")

    def committed(self, side: str) -> DataFrame:
        """Everything that a side committed."""
        return rows.committed(rows.read(self.spark, self.inputs[side], "offsets"))

    def of_files(self, side: str, files: Sequence[str], ask: Callable[[Path], T]) -> list[T]:
        """What ``ask`` says about each of these files, several at a time."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(ask, (self.inputs[side].folder / name for name in files)))

    def each(self, what: str, files: Mapping[str, Collection[str]]) -> Iterator[tuple[str, int, list[str]]]:
        """Yield side, number and names of files of every part, one after the other, telling how far it is: of
        ``files`` by side, in parts of about ``part_rows`` rows."""
        parts: list[tuple[str, int, list[str]]] = []
        for side, names in files.items():
            groups: list[list[str]] = []
            held = 0
            for entry in (each for each in self.entries(side) if each.file in names):
                if not groups or held + entry.rows > self.request.part_rows:
                    groups.append([])
                    held = 0
                groups[-1].append(entry.file)
                held += entry.rows
            parts += [(side, number, group) for number, group in enumerate(groups)]
        for done, part in enumerate(parts):
            self.tell(what, done, len(parts))
            yield part
        self.tell(what, len(parts), len(parts))


def left_by_bytes(work: Work) -> dict[str, list[str]]:
    """Return by side the files of table ``offsets`` that do not lie on the other side byte by byte. A file
    cancels one of the other side at most: two alike on one side are not one."""
    common = Counter(entry.sha256 for entry in work.entries("before"))
    common &= Counter(entry.sha256 for entry in work.entries("after"))
    left: dict[str, list[str]] = {side: [] for side in SIDES}
    for side in SIDES:
        budget = Counter(common)
        for entry in work.entries(side):
            if budget[entry.sha256]:
                budget[entry.sha256] -= 1
            else:
                left[side].append(entry.file)
    return left


def differing_segments(work: Work, left: Mapping[str, Collection[str]]) -> NDArray[np.int64]:
    """Return the numbers of the segments whose checksums differ, by the rows of the files that are ``left``
    by side; those left out must be the same on both sides."""
    sums = {side: Segments.none(work.segments) for side in SIDES}
    for side, number, files in work.each("checksums of segments", left):
        name = f"segments-{side}-{number:04d}"
        sums[side].add(work.progress.table(name, partial(_segment_sums, work, side, files)))
    return sums["before"].differing(sums["after"])


def _segment_sums(work: Work, side: str, files: Sequence[str]) -> pa.Table:
    def of_file(path: Path) -> pa.Table:
        segments_of_file = Segments.none(work.segments)
        for table in row_hashes.committed(path, work.values):
            segments_of_file.add_rows(row_hashes.hashed(table, work.values))
        return segments_of_file.table()

    sums = Segments.none(work.segments)
    for table in work.of_files(side, files, of_file):
        sums.add(table)
    return sums.table()


def found_differences(work: Work, segments: NDArray[np.int64]) -> list[Path]:
    """Compare the rows of these segments, so many at once; returns folders of Parquet files with what is told
    of each difference (the columns of ``sql/checks/compare/differences.sql``)."""
    count = sum(entry.rows for side in SIDES for entry in work.entries(side)) * len(segments) // work.segments
    ranges = max(1, -(-count // work.request.rows_at_once))
    range_of = np.full(work.segments, -1, dtype=np.int32)
    range_of[segments] = segments % ranges
    taken: dict[str, list[Path]] = {side: [] for side in SIDES}
    every = {side: [entry.file for entry in work.entries(side)] for side in SIDES}
    for side, number, files in work.each("rows of segments that differ", every):
        name = f"rows-{side}-{number:04d}"
        taken[side].append(work.progress.part(name, partial(_take, work, (side, files), range_of)))
    left = []
    for number in range(ranges):
        work.tell("keys compared", number, ranges)
        left.append(work.progress.part(f"keys-{number:04d}", partial(_leave_equal, taken, number)))
    pieces = [path for folder in left for path in folder.glob("*.parquet")]
    work.few_left = sum(pq.read_metadata(path).num_rows for path in pieces) <= _FEW_ROWS
    ends = rows.read(work.spark, work.inputs["after"], "log_ends")
    parts = []
    for number, folder in enumerate(left):
        work.tell("rows compared", number, ranges)
        parts.append(work.progress.part(f"found-{number:04d}", partial(_compare, work, folder, ends)))
    work.tell("rows compared", ranges, ranges)
    return parts


def _take(work: Work, files: tuple[str, Sequence[str]], range_of: NDArray[np.int32], part: Path) -> None:
    """Rows of the segments that have a range, with their hashes; a file a range."""

    def of_file(path: Path) -> pa.Table:
        tables = row_hashes.committed(path, work.values)
        return pa.concat_tables(_chosen(work, table, range_of) for table in tables)

    part.mkdir()
    table = pa.concat_tables(work.of_files(*files, of_file))
    numbers = table.column("range").to_numpy()
    for number in np.unique(numbers):
        rows_ = table.filter(pa.array(numbers == number)).drop_columns("range")
        pq.write_table(rows_, part / f"{number:04d}.parquet")


def _chosen(work: Work, table: pa.Table, range_of: NDArray[np.int32]) -> pa.Table:
    ranges = range_of[row_hashes.segment(row_hashes.hashed(table, ()).key, work.segments)]
    chosen = table.filter(pa.array(ranges >= 0))
    of_rows = row_hashes.hashed(chosen, work.values)
    rows = row_hashes.plain(chosen, work.values).append_column("range", pa.array(ranges[ranges >= 0]))
    for name, words in zip(_HASHES, (of_rows.key, of_rows.first, of_rows.second), strict=True):
        rows = rows.append_column(name, pa.array(words))
    return rows


def _leave_equal(taken: Mapping[str, list[Path]], number: int, part: Path) -> None:
    """Of one range the rows that are left to compare, a file a side."""
    name = f"{number:04d}.parquet"
    files = {side: [each / name for each in taken[side] if (each / name).exists()] for side in SIDES}
    differing = row_hashes.differing_rows(*(_hashes_of(files[side]) for side in SIDES))
    part.mkdir()
    for side, left in zip(SIDES, differing, strict=True):
        at = 0
        for piece, path in enumerate(files[side]):
            table = pq.read_table(path)
            rows_ = table.filter(pa.array(left[at : at + len(table)])).drop_columns(list(_HASHES))
            pq.write_table(rows_, part / f"{side}-{piece:04d}.parquet")
            at += len(table)


def _hashes_of(files: Sequence[Path]) -> Hashes:
    none = np.zeros(0, dtype=np.uint64)
    tables = [pq.read_table(path, columns=list(_HASHES)) for path in files]
    key, first, second = (
        np.concatenate([none, *(table.column(name).to_numpy() for table in tables)]) for name in _HASHES
    )
    return Hashes(key=key, first=first, second=second)


def _compare(work: Work, left: Path, log_ends: DataFrame, part: Path) -> None:
    before, after = (
        rows.read_files(work.spark, CLUSTER_TABLES["offsets"], sorted(map(str, left.glob(f"{side}-*"))))
        for side in SIDES
    )
    rows.classified(before, after, work.rules, log_ends).write.parquet(str(part))
