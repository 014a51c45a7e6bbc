"""Order-free checksums of rows, by file and by segment, computed by Catalyst and merged on the driver.

A row gives two 64-bit hashes (xxHash64): over its key and the compared values, and over its key under
another seed and the values. A checksum is the number of rows, the exact sum of the first hash (its halves
apart, so that nothing overflows) and the exclusive or of the second. The order of rows and files does not
matter, and checksums of parts add up to that of the whole, which is what makes them resumable. That two
different sets of rows get the same checksum takes a collision of both: about 2^-64 for the sums and 2^-64
for the exclusive or, if xxHash64 behaves as random; over 2^18 segments less than 2^-109. It is no defence
against an author of rows who aims at it; the SHA-256 of the manifest is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.domain.equality_rules import Field
from groupshift.spark.comparison.rows import key_hash, segment

_LOW = 0xFFFFFFFF
_SECOND_SEED = 0x5EED
SUMS = ("rows", "low", "high", "xor")

Checksum = tuple[int, int, int, int]


def _hashed(committed: DataFrame, values: Sequence[Field]) -> DataFrame:
    """``key, first, second``: the hash of the key, and both hashes of the row."""
    names = [F.col(f"`{name}`") for name in values]
    keys = committed.select(key_hash().alias("key"), key_hash(F.lit(_SECOND_SEED)).alias("other"), *names)
    return keys.select(
        "key", F.xxhash64("key", *names).alias("first"), F.xxhash64("other", *names).alias("second")
    )


def _sums() -> tuple[Column, ...]:
    first = F.col("first")
    return (
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(first.bitwiseAND(F.lit(_LOW))), F.lit(0)).alias("low"),
        F.coalesce(F.sum(F.shiftrightunsigned(first, 32)), F.lit(0)).alias("high"),
        F.coalesce(F.bit_xor("second"), F.lit(0)).alias("xor"),
    )


def by_file(committed: Mapping[str, DataFrame], values: Sequence[Field]) -> DataFrame:
    """One checksum a file: ``file, rows, low, high, xor``; frames by the name of their file."""
    frames = [
        _hashed(frame, values).agg(*_sums()).select(F.lit(name).alias("file"), *SUMS)
        for name, frame in committed.items()
    ]
    return reduce(DataFrame.unionAll, frames)


def by_segment(committed: DataFrame, values: Sequence[Field], segments: int) -> DataFrame:
    """One checksum a segment: ``segment, rows, low, high, xor``."""
    rows = _hashed(committed, values)
    return rows.groupBy(segment(F.col("key"), segments).alias("segment")).agg(*_sums())


@dataclass(frozen=True, slots=True)
class Segments:
    """Checksums of all segments of one side; ``sums`` is an int64 array of shape (4, segments)."""

    sums: NDArray[np.int64]

    @classmethod
    def none(cls, segments: int) -> Segments:
        """Of no rows."""
        return cls(np.zeros((len(SUMS), segments), dtype=np.int64))

    def add(self, part: pa.Table) -> None:
        """Merge the answer of `by_segment` for further rows."""
        at = part.column("segment").to_numpy()
        for row, name in enumerate(SUMS[:-1]):
            np.add.at(self.sums[row], at, part.column(name).to_numpy())
        np.bitwise_xor.at(self.sums[-1], at, part.column(SUMS[-1]).to_numpy())

    def differing(self, other: Segments) -> NDArray[np.int64]:
        """Numbers of the segments whose checksums differ."""
        return np.flatnonzero((self.sums != other.sums).any(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """Files of both sides that are left to compare."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def none(self) -> bool:
        """Whether nothing is left."""
        return not self.before and not self.after


def cancelled(before: Iterable[tuple[str, object]], after: Iterable[tuple[str, object]]) -> Remaining:
    """Drop files that hold the same rows on both sides, by what identifies their content.

    Each file cancels one file of the other side at most: two alike on one side are not one."""
    sides = (list(before), list(after))
    counts = [Counter(content for _, content in side) for side in sides]
    common = counts[0] & counts[1]
    return Remaining(before=_left(sides[0], common), after=_left(sides[1], common))


def _left(side: Iterable[tuple[str, object]], common: Counter[object]) -> tuple[str, ...]:
    budget = Counter(common)
    left = []
    for name, content in side:
        if budget[content]:
            budget[content] -= 1
        else:
            left.append(name)
    return tuple(left)


def total(checksums: Iterable[Checksum]) -> Checksum:
    """The checksum of all rows together."""
    rows, low, high, xor = 0, 0, 0, 0
    for one in checksums:
        rows, low, high, xor = rows + one[0], low + one[1], high + one[2], xor ^ one[3]
    return rows, low, high, xor
