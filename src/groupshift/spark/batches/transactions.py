"""Which batches count: a transaction's records do so once its marker says that it was committed.

The rules are those of a consumer with ``isolation.level=read_committed`` (KIP-98), told from the log alone:
a producer id has one transaction at a time, which begins with its first batch and ends with its next
marker. A batch that compaction emptied begins nothing: its marker may be gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """Of one partition. ``hidden`` are those that were aborted or are open, sorted: (producer, first offset,
    last offset); ``open`` is the first offset of each producer's open one, by producer id."""

    hidden: Any
    open: dict[int, int]


NONE = Transactions(hidden=np.empty((0, 3), dtype=np.int64), open={})


def transactions_in(table: Any) -> Any:
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
    new_producer = np.concatenate(([True], producer[1:] != producer[:-1]))
    begins = np.flatnonzero(new_producer | np.concatenate(([False], marker[:-1] >= 0)))
    finishes = np.concatenate((begins[1:], [len(chosen)])) - 1
    outcome = np.where(marker[finishes] >= 0, marker[finishes], _OPEN)
    first = np.where(marker[begins] >= 0, -1, chosen[begins, OFFSET])
    rows = np.stack((producer[begins], first, chosen[finishes, LAST], outcome), axis=1)
    return rows[(outcome != COMMIT) | new_producer[begins]]


def resolve(parts: Iterable[Any]) -> Transactions:
    """The transactions of a whole log, from the `transactions_in` of its parts in their order."""
    unfinished: dict[int, int] = {}
    hidden: list[tuple[int, int, int]] = []
    for part in parts:
        for producer, first, last, outcome in part.tolist():
            begun = unfinished.pop(producer, first)
            if outcome == _OPEN:
                unfinished[producer] = begun
            elif outcome == ABORT and begun >= 0:
                hidden.append((producer, begun, last))
    hidden += ((producer, first, FOR_EVER) for producer, first in unfinished.items())
    return Transactions(hidden=np.array(sorted(hidden), dtype=np.int64).reshape(-1, 3), open=unfinished)


def visible(table: Any, transactions: Transactions) -> Any:
    """The rows of ``table`` that count: those outside of transactions and those of committed ones, up to the
    log's end, which is what a coordinator serves. Markers are none."""
    hidden = table[:, ATTRIBUTES] & IS_CONTROL != 0
    _mark(table, transactions.hidden, hidden)
    return table[~hidden]


@compiled
def _mark(table: Any, ranges: Any, marks: Any) -> None:
    """Mark the batches that belong to one of these transactions, too."""
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
            if low > 0 and ranges[low - 1, 0] == producer and offset <= ranges[low - 1, 2]:
                marks[row] = True
