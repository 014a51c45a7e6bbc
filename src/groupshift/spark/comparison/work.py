"""The steps of a comparison over millions of rows: files, then segments, then rows. Each part is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.domain.equality_rules import EqualityRule, Field
from groupshift.domain.evidence import FileEntry
from groupshift.spark.comparison import checksums, differences, rows
from groupshift.spark.comparison.checksums import SUMS, Remaining, Segments
from groupshift.spark.comparison.inputs import Input
from groupshift.spark.comparison.progress import Progress

SIDES = ("before", "after")
_MOST_SEGMENTS, _FEWEST_SEGMENTS, _ROWS_A_SEGMENT = 1 << 18, 1 << 6, 128

Told = Callable[[str, int, int], None]
"""Progress: what is done, how many parts of it are, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows read as one part (the unit of resuming), and rows compared at once."""

    part: int = 2_500_000
    at_once: int = 4_000_000


def segments_for(count: int) -> int:
    """Number of segments for ``count`` rows: a power of two, about 128 rows each, at most 2^18."""
    wanted = 1 << max(count // _ROWS_A_SEGMENT, 1).bit_length()
    return min(max(wanted, _FEWEST_SEGMENTS), _MOST_SEGMENTS)


@dataclass(kw_only=True)
class Work:
    """One comparison of table ``offsets``; ``session`` is called when Spark is first needed."""

    inputs: Mapping[str, Input]
    rules: Mapping[Field, EqualityRule]
    values: Sequence[Field]
    progress: Progress
    session: Callable[[], SparkSession]
    told: Told
    sizes: Sizes

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        return self.session()

    @cached_property
    def segments(self) -> int:
        """How many segments there are."""
        counts = [sum(entry.rows for entry in self.entries(side)) for side in SIDES]
        return segments_for(max(counts))

    def entries(self, side: str) -> tuple[FileEntry, ...]:
        """The files of table ``offsets``."""
        return self.inputs[side].manifest.of_table("offsets")

    def parts(self, side: str, files: Sequence[str] | None = None) -> list[list[str]]:
        """Names of files, in groups of about `Sizes.part` rows; all of them, or only ``files``."""
        found: list[list[str]] = [[]]
        held = 0
        for entry in self.entries(side):
            if files is not None and entry.file not in files:
                continue
            if found[-1] and held + entry.rows > self.sizes.part:
                found.append([])
                held = 0
            found[-1].append(entry.file)
            held += entry.rows
        return [part for part in found if part]

    def rows(self, side: str, files: Sequence[str]) -> DataFrame:
        """What was committed according to these files."""
        given = self.inputs[side]
        paths = [str(given.folder / name) for name in files]
        return rows.committed(rows.read(self.spark, "offsets", paths, given.columns["offsets"]))

    def committed(self, side: str) -> DataFrame:
        """Everything that a side committed."""
        return self.rows(side, [entry.file for entry in self.entries(side)])

    def each(self, what: str, parts: Mapping[str, list[list[str]]]) -> Iterator[tuple[str, int, list[str]]]:
        """Side, number and files of every part, one after the other, telling how far it is."""
        total = sum(map(len, parts.values()))
        done = 0
        for side, groups in parts.items():
            for number, files in enumerate(groups):
                self.told(what, done, total)
                yield side, number, files
                done += 1
        self.told(what, total, total)


def left_by_bytes(work: Work) -> Remaining:
    """Files that do not lie on the other side byte by byte."""
    sides = [[(entry.file, entry.sha256) for entry in work.entries(side)] for side in SIDES]
    return checksums.cancelled(*sides)


def left_by_rows(work: Work, remaining: Remaining) -> Remaining:
    """Files of these whose rows (in any order and encoding) are no file of the other side; none if all rows
    together are the same."""
    parts = {
        side: work.parts(side, files)
        for side, files in zip(SIDES, (remaining.before, remaining.after), strict=True)
    }
    found: dict[str, list[tuple[str, tuple[int, int, int, int]]]] = {side: [] for side in SIDES}
    for side, number, files in work.each("checksums of files", parts):
        table = work.progress.table(f"files-{side}-{number:04d}", partial(_file_sums, work, side, files))
        found[side] += [
            (row["file"], (row["rows"], row["low"], row["high"], row["xor"])) for row in table.to_pylist()
        ]
    sums = [checksums.total(content for _, content in found[side]) for side in SIDES]
    if sums[0] == sums[1]:
        return Remaining(before=(), after=())
    return checksums.cancelled(found["before"], found["after"])


def _file_sums(work: Work, side: str, files: Sequence[str]) -> pa.Table:
    frames = {name: work.rows(side, [name]) for name in files}
    return checksums.by_file(frames, work.values).toArrow()


def differing_segments(work: Work, remaining: Remaining) -> NDArray[np.int64]:
    """Numbers of the segments that differ. Files left out must be the same on both sides."""
    parts = {
        side: work.parts(side, files)
        for side, files in zip(SIDES, (remaining.before, remaining.after), strict=True)
    }
    sums = {side: Segments.none(work.segments) for side in SIDES}
    for side, number, files in work.each("checksums of segments", parts):
        name = f"segments-{side}-{number:04d}"
        sums[side].add(work.progress.table(name, partial(_segment_sums, work, side, files)))
    return sums["before"].differing(sums["after"])


def _segment_sums(work: Work, side: str, files: Sequence[str]) -> pa.Table:
    frame = checksums.by_segment(work.rows(side, files), work.values, work.segments)
    return frame.select("segment", *SUMS).toArrow()


def found_differences(work: Work, segments: NDArray[np.int64], log_ends: DataFrame | None) -> list[Path]:
    """Compare the rows of these segments, so many at once; folders with `differences.COLUMNS`."""
    count = sum(entry.rows for side in SIDES for entry in work.entries(side)) * len(segments) // work.segments
    ranges = max(1, -(-count // work.sizes.at_once))
    wanted = _wanted(work, segments, ranges)
    parts = {side: work.parts(side) for side in SIDES}
    taken: dict[str, list[Path]] = {side: [] for side in SIDES}
    for side, number, files in work.each("rows of segments that differ", parts):
        name = f"rows-{side}-{number:04d}"
        taken[side].append(work.progress.folder(name, partial(_take, work, (side, files), wanted)))
    found = []
    for number in range(ranges):
        work.told("rows compared", number, ranges)
        found.append(
            work.progress.folder(f"found-{number:04d}", partial(_compare, work, taken, (number, log_ends)))
        )
    work.told("rows compared", ranges, ranges)
    return found


def _wanted(work: Work, segments: NDArray[np.int64], ranges: int) -> Path:
    table = pa.table({"segment": segments.astype(np.int32), "range": (segments % ranges).astype(np.int32)})
    work.progress.table("differing", lambda: table)
    return work.progress.root / "differing.parquet"


def _take(work: Work, given: tuple[str, Sequence[str]], wanted: Path, part: Path) -> None:
    frame = work.rows(*given).withColumn("segment", rows.segment(rows.key_hash(), work.segments))
    chosen = F.broadcast(work.spark.read.schema("segment int, range int").parquet(str(wanted)))
    frame.join(chosen, "segment").drop("segment").write.partitionBy("range").parquet(str(part))


def _compare(
    work: Work, taken: Mapping[str, list[Path]], chosen: tuple[int, DataFrame | None], part: Path
) -> None:
    number, log_ends = chosen
    sides = {}
    for side in SIDES:
        schema = work.rows(side, work.parts(side)[0]).schema
        folders = [str(at / f"range={number}") for at in taken[side] if (at / f"range={number}").is_dir()]
        read = work.spark.read.schema(schema)
        sides[side] = read.parquet(*folders) if folders else work.spark.createDataFrame([], schema)
    pairs = differences.paired(sides["before"], sides["after"], work.values)
    found = differences.classified(pairs, work.values, work.rules, log_ends)
    found.write.parquet(str(part))
