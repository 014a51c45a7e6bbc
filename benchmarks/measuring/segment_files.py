"""Made-up coordinator records as segment files of a broker: format 2 batches, one file a partition.

A batch holds 1 to 20 records, as one commit request writes one batch for its partitions. Encoded here, not
with the code that is measured; Kafka's own dump tool says whether every batch is valid.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from crc32c import crc32c
from numba import njit

from measuring.coordinator_records import Chunk

HEADER = 61
_MOST_A_RECORD = 32  # bytes besides key and value: lengths, deltas, attributes


def encoded(chunk: Chunk) -> Any:
    """The batches of a chunk, as an array of bytes."""
    rng = np.random.default_rng(chunk.partition)
    ends = np.cumsum(rng.integers(1, 21, len(chunk.offsets)))
    ends = np.append(ends[ends < len(chunk.offsets)], len(chunk.offsets))
    out = np.zeros(
        len(chunk.keys) + len(chunk.values) + len(chunk.offsets) * _MOST_A_RECORD + len(ends) * HEADER,
        np.uint8,
    )
    starts = np.empty(len(ends) + 1, np.int64)
    _bodies(
        (chunk.offsets, chunk.timestamps_ms, chunk.tombstones),
        (chunk.key_starts, chunk.keys, chunk.value_starts, chunk.values),
        ends,
        out,
        starts,
    )
    _seal(chunk, ends, out.data, starts)
    return out[: starts[-1]]


def _seal(chunk: Chunk, ends: Any, out: memoryview, starts: Any) -> None:
    first = 0
    for number, last in enumerate(ends.tolist()):
        begin, end = int(starts[number]), int(starts[number + 1])
        base, time = int(chunk.offsets[first]), int(chunk.timestamps_ms[first])
        latest, delta = int(chunk.timestamps_ms[last - 1]), int(chunk.offsets[last - 1]) - base
        struct.pack_into(">hiqqqhii", out, begin + 21, 0, delta, time, latest, -1, -1, -1, last - first)
        struct.pack_into(">qiibI", out, begin, base, end - begin - 12, 0, 2, crc32c(out[begin + 21 : end]))
        first = last


@njit(nogil=True)
def _varint(value: int, out: Any, at: int) -> Any:
    rest = (value << 1) ^ (value >> 63)
    while rest & ~0x7F:
        out[at] = rest & 0x7F | 0x80
        rest >>= 7
        at += 1
    out[at] = rest
    return at + 1


@njit(nogil=True)
def _width(value: int) -> Any:
    rest, width = (value << 1) ^ (value >> 63), 1
    while rest & ~0x7F:
        rest >>= 7
        width += 1
    return width


@njit(nogil=True)
def _bodies(fixed: Any, variable: Any, ends: Any, out: Any, starts: Any) -> None:
    offsets, times, tombstones = fixed
    key_starts, keys, value_starts, values = variable
    at, row = 0, 0
    for number in range(len(ends)):
        starts[number] = at
        at += HEADER
        first = row
        while row < ends[number]:
            time, delta = times[row] - times[first], offsets[row] - offsets[first]
            key = key_starts[row + 1] - key_starts[row]
            value = -1 if tombstones[row] else value_starts[row + 1] - value_starts[row]
            size = 2 + _width(time) + _width(delta) + _width(key) + _width(value) + key + max(value, 0)
            at = _varint(size, out, at) + 1
            at = _varint(key, out, _varint(delta, out, _varint(time, out, at)))
            out[at : at + key] = keys[key_starts[row] : key_starts[row + 1]]
            at = _varint(value, out, at + key)
            if value > 0:
                out[at : at + value] = values[value_starts[row] : value_starts[row + 1]]
                at += value
            out[at] = 0
            at += 1
            row += 1
    starts[len(ends)] = at
