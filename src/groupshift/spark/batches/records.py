"""The records of batches as Arrow columns, written by one compiled loop straight into Arrow's buffers.

`latest_by_key` keeps the newest record of each key of one partition while that is read in log order. It is
what a group coordinator loads (docs/reference/group-coordinator.md §1.7): per key the highest offset wins,
types 0 and 1 are the same commit, and all records without key count as one.
"""

# ruff: noqa: PLR2004 - places and versions that the format fixes

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupshift.errors import Rejected
from groupshift.spark.batches.compiled import compiled, copy8, int32, uint8
from groupshift.spark.batches.decompress import Origin, Plain, expand
from groupshift.spark.batches.headers import (
    APPEND_TIME,
    ATTRIBUTES,
    CODEC_MASK,
    COUNT,
    END,
    MAGIC,
    MAX_TIMESTAMP,
    OFFSET,
    SOURCE,
    START,
    TIMESTAMP,
    record,
)

ROWS, BYTES = 131_072, 16 << 20
"""A piece of the output holds about so many records, or so many bytes of them, whichever is less."""

_SLACK = 8  # `copy8` writes up to seven bytes too many
_INFLATION = 8  # a guess, to keep pieces of compressed batches about as large as others


def read_records(log: Any, table: Any, origin: Origin) -> Iterator[pa.RecordBatch]:
    """The records of the batches in ``table``, whose bytes are in ``log`` (uint8), piece by piece and in log
    order: rows of `groupshift.spark.segments.SCHEMA`; key and value are null where the record's is.

    Raises `Broken` for a batch that cannot be inflated, or whose records do not end where they should.
    """
    for piece in _pieces(table):
        for plain in expand(log, piece, origin):
            for part in _parts_that_fit(plain.table):
                yield _filled(plain, part, origin)


def _pieces(table: Any) -> Iterator[Any]:
    if not len(table):
        return
    length = table[:, END] - table[:, START]
    length = np.where(table[:, ATTRIBUTES] & CODEC_MASK, length * _INFLATION, length)
    number = np.cumsum(table[:, COUNT]) // ROWS + np.cumsum(length) // BYTES
    yield from np.split(table, np.flatnonzero(np.diff(number)) + 1)


def _parts_that_fit(table: Any) -> Iterator[Any]:
    """Parts whose bytes Arrow's 32-bit offsets can count."""
    if len(table) > 1 and (table[:, END] - table[:, START]).sum() > 2**30:
        yield from _parts_that_fit(table[: len(table) // 2])
        yield from _parts_that_fit(table[len(table) // 2 :])
    else:
        yield table


class _Column:
    """A growing-free Arrow binary column: offsets, bytes and validity bits."""

    __slots__ = ("bits", "data", "offsets")

    def __init__(self, rows: int, size: int) -> None:
        self.offsets = np.empty(rows + 1, dtype=np.int32)
        self.offsets[0] = 0
        self.data = np.empty(size + _SLACK, dtype=np.uint8)
        self.bits = np.zeros((rows + 7) // 8, dtype=np.uint8)

    def array(self, rows: int, nulls: int) -> pa.Array:
        """The first ``rows`` as Arrow array, without copying."""
        buffers = [pa.py_buffer(part) for part in (self.bits, self.offsets, self.data)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count=nulls)


def _filled(plain: Plain, table: Any, origin: Origin) -> pa.RecordBatch:
    rows = int(table[:, COUNT].sum())
    size = int((table[:, END] - table[:, START]).sum())
    offset, time = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    key, value = _Column(rows, size), _Column(rows, size)
    nulls = np.zeros(2, dtype=np.int64)
    failed = _fill(
        (plain.log, plain.inflated),
        table,
        (offset, time),
        ((key.offsets, key.data, key.bits), (value.offsets, value.data, value.bits)),
        nulls,
    )
    if failed >= 0:
        raise origin.broken(table[failed], "its records do not end where they should")
    return pa.record_batch(
        {
            "partition": pa.array(np.full(rows, origin.partition, dtype=np.int32)),
            "offset": pa.array(offset),
            "timestamp_ms": pa.array(time),
            "key": key.array(rows, int(nulls[0])),
            "value": value.array(rows, int(nulls[1])),
        }
    )


@compiled
def _copied(source: Any, at: int, length: int, target: Any, to: int) -> Any:
    """Copy bytes, eight at a time where the source has as many; returns where the copy ends."""
    if at + length + 8 <= len(source):
        for step in range(0, length, 8):
            copy8(source, at + step, target, to + step)
    else:
        for step in range(length):
            target[to + step] = uint8(source, at + step)
    return to + length


@compiled
def _put(value: Any, column: Any, row: int, to: int) -> Any:
    """Append a value to a column (its offsets, bytes and validity bits); returns where its bytes end."""
    data, at, length = value
    offsets, target, bits = column
    if length >= 0:
        to = _copied(data, at, length, target, to)
        bits[row >> 3] |= 1 << (row & 7)
    offsets[row + 1] = to
    return to


@compiled
def _fill(sources: Any, table: Any, fixed: Any, columns: Any, nulls: Any) -> Any:
    """Write all records; returns -1, or the row of a batch whose records cannot be read."""
    offsets, times = fixed
    row, keys, values = 0, 0, 0
    for number in range(len(table)):
        head = table[number]
        data = sources[1] if head[SOURCE] else sources[0]
        at, end = head[START], head[END]
        for _ in range(head[COUNT]):
            where = record(data, at, end) if head[MAGIC] == 2 else _legacy(data, at, end)
            time, delta, key, key_length, value, value_length, at = where
            if at < 0:
                return number
            offsets[row] = head[OFFSET] + delta
            times[row] = head[MAX_TIMESTAMP] if head[ATTRIBUTES] & APPEND_TIME else head[TIMESTAMP] + time
            keys = _put((data, key, key_length), columns[0], row, keys)
            values = _put((data, value, value_length), columns[1], row, values)
            nulls[0] += key_length < 0
            nulls[1] += value_length < 0
            row += 1
        if at != end:
            return number
    return -1


@compiled
def _legacy(data: Any, at: int, end: int) -> Any:
    """Key and value of a message of format 0 or 1; as `record`."""
    bad = (0, 0, 0, 0, 0, 0, -1)
    if end - at < 8:
        return bad
    key_length, key = int32(data, at), at + 4
    if key_length > end - key - 4:
        return bad
    value = key + max(key_length, 0) + 4
    value_length = int32(data, value - 4)
    if value_length > end - value:
        return bad
    return 0, 0, key, key_length, value, value_length, value + max(value_length, 0)


_MOST_BYTES = 1 << 31
_AT_FIRST = 1 << 18
_COMMIT_0 = b"\0\0"


def latest_by_key(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The winners of a partition, in log order, from its ``pieces`` (with a column ``key``) in log order.

    Holds the winners so far and about as many rows again. Raises `Rejected` when they exceed 2 GiB.
    """
    held: list[pa.RecordBatch] = []
    count, limit = 0, _AT_FIRST
    for piece in pieces:
        held.append(_winners(piece))
        count += len(held[-1])
        if count > limit:
            held = [_winners(_joined(held))]
            count = len(held[0])
            limit = max(_AT_FIRST, 2 * count)
    if len(held) == 1:
        yield held[0]
    elif held:
        yield _winners(_joined(held))


def _joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    size = sum(piece.nbytes for piece in pieces)
    if size >= _MOST_BYTES:
        raise Rejected(
            f"the newest records of one partition take {size:,} bytes, more than a task may hold (2 GiB); "
            "read all records and let Spark find the winners"
        )
    return pa.concat_batches(pieces)


def _winners(rows: pa.RecordBatch) -> pa.RecordBatch:
    codes = _same_commits(rows.column("key")).dictionary_encode(null_encoding="encode").indices.to_numpy()
    last = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    last[codes] = np.arange(len(codes))  # of several assignments the last remains
    return rows.take(pa.array(np.sort(last)))


def _same_commits(keys: pa.Array) -> pa.Array:
    """The keys, those of type 0 written as of type 1."""
    old = pc.starts_with(keys, pattern=_COMMIT_0).fill_null(False)
    if not pc.any(old).as_py():
        return keys
    valid, places, data = keys.buffers()
    begins = np.frombuffer(places, np.int32)[keys.offset : keys.offset + len(keys)]
    renamed = np.array(np.frombuffer(data, np.uint8))
    renamed[begins[old.to_numpy(zero_copy_only=False)] + 1] = 1
    return pa.Array.from_buffers(
        keys.type, len(keys), [valid, places, pa.py_buffer(renamed)], offset=keys.offset
    )
