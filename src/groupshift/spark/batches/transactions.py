"""Which batches count: a transaction's records do so once its marker says that it was committed.

The rules are those of a consumer with ``isolation.level=read_committed`` (KIP-98), told from the log alone:
a producer id has one transaction at a time, which begins with its first batch and ends with its next
marker. A batch that compaction emptied begins nothing: its marker may be gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from groupshift.spark.batches.compiled import compiled
from groupshift.spark.batches.headers import (
    ABORT,
    ATTRIBUTES,
    COMMIT,
    CONTROL,
    COUNT,
    IS_CONTROL,
    LAST,
    OFFSET,
    PRODUCER,
    TRANSACTIONAL,
)

_OPEN = 2
FOR_EVER = np.iinfo(np.int64).max


class Visible(StrEnum):
    """Which records are wanted; markers are none."""

    DECIDED = "decided"
    """Those outside of transactions and those of committed ones, up to the log's end: what a coordinator
    serves."""
    READ_COMMITTED = "read_committed"
    """As a consumer is given them: also nothing at or after the first record of an open transaction."""
    UNDECIDED = "undecided"
    """Those of open transactions only."""
    READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """Of one partition. ``aborted`` are rows of (producer id, first offset, last offset), sorted; ``open``
    the first offset of each producer's open transaction, by producer id."""

    aborted: Any
    open: dict[int, int]

    def stable_end(self, end: int) -> int:
        """The last stable offset of a log that ends at ``end`` (exclusive)."""
        return min(self.open.values(), default=end)


NONE = Transactions(aborted=np.empty((0, 3), dtype=np.int64), open={})


def spans(table: Any) -> Any:
    """The transactions in a part of a log: int64 rows of (producer id, first offset or -1, last, outcome).

    Of committed ones only a producer's first is given, for it may have begun in an earlier part.
    """
    attributes, marker = table[:, ATTRIBUTES], table[:, CONTROL]
    ends = (marker == ABORT) | (marker == COMMIT)
    data = (attributes & (TRANSACTIONAL | IS_CONTROL) == TRANSACTIONAL) & (table[:, COUNT] > 0)
    chosen = table[ends | data]
    if not len(chosen):
        return np.empty((0, 4), dtype=np.int64)
    chosen = chosen[np.lexsort((chosen[:, OFFSET], chosen[:, PRODUCER]))]
    producer, marker = chosen[:, PRODUCER], chosen[:, CONTROL]
    other = np.concatenate(([True], producer[1:] != producer[:-1]))
    begins = np.flatnonzero(other | np.concatenate(([False], marker[:-1] >= 0)))
    finishes = np.concatenate((begins[1:], [len(chosen)])) - 1
    outcome = np.where(marker[finishes] >= 0, marker[finishes], _OPEN)
    first = np.where(marker[begins] >= 0, -1, chosen[begins, OFFSET])
    rows = np.stack((producer[begins], first, chosen[finishes, LAST], outcome), axis=1)
    return rows[(outcome != COMMIT) | other[begins]]


def resolve(parts: Iterable[Any]) -> Transactions:
    """The transactions of a whole log, from the `spans` of its parts in their order."""
    unfinished: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    for part in parts:
        for producer, first, last, outcome in part.tolist():
            begun = unfinished.pop(producer, first)
            if outcome == _OPEN:
                unfinished[producer] = begun
            elif outcome == ABORT and begun >= 0:
                aborted.append((producer, begun, last))
    rows = np.array(sorted(aborted), dtype=np.int64).reshape(-1, 3)
    return Transactions(aborted=rows, open=unfinished)


def visible(table: Any, transactions: Transactions, wanted: Visible) -> Any:
    """The rows of ``table`` whose records are wanted."""
    data = table[:, ATTRIBUTES] & IS_CONTROL == 0
    if wanted is Visible.READ_UNCOMMITTED:
        return table[data]
    undecided = np.array(
        [(producer, first, FOR_EVER) for producer, first in sorted(transactions.open.items())],
        dtype=np.int64,
    ).reshape(-1, 3)
    if wanted is Visible.UNDECIDED:
        return table[data & within(table, undecided)]
    kept = data & ~within(table, transactions.aborted)
    if wanted is Visible.DECIDED:
        return table[kept & ~within(table, undecided)]
    return table[kept & (table[:, OFFSET] < transactions.stable_end(FOR_EVER))]


def within(table: Any, ranges: Any) -> Any:
    """Which batches belong to one of these transactions: sorted rows of (producer id, first, last)."""
    marks = np.zeros(len(table), dtype=np.bool_)
    if len(ranges):
        _mark(table, ranges, marks)
    return marks


@compiled
def _mark(table: Any, ranges: Any, marks: Any) -> None:
    for row in range(len(table)):
        if table[row, ATTRIBUTES] & TRANSACTIONAL:
            producer, offset = table[row, PRODUCER], table[row, OFFSET]
            low, high = 0, len(ranges)
            while low < high:  # the first range that begins after this batch
                middle = (low + high) // 2
                begun = ranges[middle, 0] < producer or (
                    ranges[middle, 0] == producer and ranges[middle, 1] <= offset
                )
                low, high = (middle + 1, high) if begun else (low, middle)
            marks[row] = low > 0 and ranges[low - 1, 0] == producer and offset <= ranges[low - 1, 2]
