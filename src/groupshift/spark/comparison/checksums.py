"""Order-free checksums of rows, by file and by segment, and the keys whose rows are the same on both sides.

A row gives two 64-bit hashes of its key and the compared values (`groupshift.spark.comparison.hashes`). A
checksum is the number of rows and the sum of either hash modulo 2^64. The order of rows and files does not
matter, and checksums of parts add up to that of the whole, which is what makes them resumable. That two
different sets of rows get the same checksum takes a collision of both sums: about 2^-128 if the hashes
behave as random; over 2^18 segments less than 2^-109. It is no defence against an author of rows who aims
at it; the SHA-256 of the manifest is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupshift.spark.comparison.hashes import Hashes, Words

SUMS = ("rows", "first", "second")
_ALL = (1 << 64) - 1

Checksum = tuple[int, int, int]


def of_rows(hashes: Hashes) -> Checksum:
    """The checksum of these rows."""
    return len(hashes.key), int(hashes.first.sum()), int(hashes.second.sum())


def total(checksums: Iterable[Checksum]) -> Checksum:
    """The checksum of all rows together."""
    rows, first, second = 0, 0, 0
    for one in checksums:
        rows, first, second = rows + one[0], (first + one[1]) & _ALL, (second + one[2]) & _ALL
    return rows, first, second


def segment(keys: Words, segments: int) -> NDArray[np.int64]:
    """The segment of each row, by the hash of its *whole* key: a group of millions of rows is spread as
    evenly as many groups of one. ``segments`` is a power of two."""
    return (keys & (segments - 1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Segments:
    """Checksums of all segments of some rows; ``sums`` is an uint64 array of shape (3, segments)."""

    sums: Words

    @classmethod
    def none(cls, segments: int) -> Segments:
        """Of no rows."""
        return cls(np.zeros((len(SUMS), segments), dtype=np.uint64))

    def add_rows(self, hashes: Hashes) -> None:
        """Take in further rows."""
        at = segment(hashes.key, self.sums.shape[1])
        self.sums[0] += np.bincount(at, minlength=self.sums.shape[1]).astype(np.uint64)
        np.add.at(self.sums[1], at, hashes.first)
        np.add.at(self.sums[2], at, hashes.second)

    def add(self, part: pa.Table) -> None:
        """Take in the checksums of further rows, as `table` gives them."""
        for row, name in enumerate(SUMS):
            self.sums[row] += part.column(name).to_numpy()

    def table(self) -> pa.Table:
        """One row a segment, in their order."""
        return pa.table(dict(zip(SUMS, map(pa.array, self.sums), strict=True)))

    def differing(self, other: Segments) -> NDArray[np.int64]:
        """Numbers of the segments whose checksums differ."""
        return np.flatnonzero((self.sums != other.sums).any(axis=0))


def differing_rows(before: Hashes, after: Hashes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows of either side are left to compare: all but those of keys that each side has once with the
    same values. A key that is there twice is left, and so are two keys of one hash."""
    keys = np.concatenate([before.key, after.key])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.concatenate([before.first, after.first])[order]
    seconds = np.concatenate([before.second, after.second])[order]
    later = order >= len(before.key)
    starts = np.ones(len(keys) + 1, dtype=np.bool_)
    starts[1:-1] = keys[1:] != keys[:-1]
    pair = starts[:-2] & ~starts[1:-1] & starts[2:] & ~later[:-1] & later[1:]
    pair &= (firsts[:-1] == firsts[1:]) & (seconds[:-1] == seconds[1:])
    left = np.ones(len(keys), dtype=np.bool_)
    at = np.flatnonzero(pair)
    left[order[at]] = left[order[at + 1]] = False
    return left[: len(before.key)], left[len(before.key) :]


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
