"""Coordinator records taken apart by one compiled loop; nested values by `coordinator_values`.

Like `sql/coordinator_log/decode.sql` it knows the usual record and vouches for nothing else: what it leaves
is for the decoder in Python. Other than SQL it also knows the hash over UTF-16 code units and nested values.
Source: specs/group-coordinator.md §§1.3, 1.4 and 2.
"""

# ruff: noqa: PLR2004 - widths, types and versions that the format fixes

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from groupshift.spark.batches.compiled import compiled
from groupshift.spark.batches.coordinator_json import BASE64, EXPANSION, HEAD, inner
from groupshift.spark.batches.coordinator_values import write_value

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

# What `parse` says of a record, by column.
(
    USUAL,
    TYPE,
    GROUP,
    GROUP_SIZE,
    SECOND,
    SECOND_SIZE,
    NUMBER,
    HASH,
    VERSION,
    OFFSET,
    EPOCH,
    NOTE,
    NOTE_SIZE,
    TIME,
    MORE,
    TOPIC_ID,
    JSON,
    JSON_SIZE,
) = range(18)
COLUMNS = 18
_TWO_NAMES = np.isin(np.arange(24), (5, 7, 8, 10, 13, 14, 16, 19, 21, 22))
_DAMAGED = -(1 << 40)


@inner
def _big(data: Bytes, at: int, width: int) -> int:
    value: Any = np.int64(np.int8(data[at]))
    for index in range(1, width):
        value = (value << 8) | np.int64(data[at + index])
    return int(value)


@inner
def _hash(data: Bytes, begin: int, end: int) -> int:
    """String.hashCode over UTF-16 code units of UTF-8 text; `_DAMAGED` where it is none."""
    value: Any = np.int64(0)
    at = begin
    while at < end:
        lead = np.int64(data[at])
        if lead < 0x80:
            value, at = (31 * value + lead) & 0xFFFFFFFF, at + 1
            continue
        more = 1 if 0xC2 <= lead < 0xE0 else 2 if 0xE0 <= lead < 0xF0 else 3 if 0xF0 <= lead < 0xF5 else 0
        if more == 0 or at + more >= end:
            return _DAMAGED
        point = lead & (0x3F >> more)
        for index in range(1, more + 1):
            byte = np.int64(data[at + index])
            if byte & 0xC0 != 0x80:
                return _DAMAGED
            point = point << 6 | (byte & 0x3F)
        least = 0x80 if more == 1 else 0x800 if more == 2 else 0x10000
        if point < least or 0xD800 <= point < 0xE000 or point > 0x10FFFF:
            return _DAMAGED
        if point < 0x10000:
            value = (31 * value + point) & 0xFFFFFFFF
        else:
            high, low = 0xD800 + ((point - 0x10000) >> 10), 0xDC00 + ((point - 0x10000) & 0x3FF)
            value = (31 * ((31 * value + high) & 0xFFFFFFFF) + low) & 0xFFFFFFFF
        at += more + 1
    return int(value - (1 << 32) if value >> 31 else value)


@inner
def _key(data: Bytes, begin: int, end: int, row: Ints) -> bool:
    """Type, names and number of a key of a known type that ends where it should."""
    if end - begin < 4:
        return False
    kind, size = _big(data, begin, 2), _big(data, begin + 2, 2)
    if kind < 0 or kind > 23 or size < 0 or begin + 4 + size > end:
        return False
    row[TYPE], row[GROUP], row[GROUP_SIZE] = kind, begin + 4, size
    row[SECOND_SIZE] = -1
    at = begin + 4 + size
    if kind < 2 or _TWO_NAMES[kind]:
        if at + 2 > end:
            return False
        second = _big(data, at, 2)
        row[SECOND], row[SECOND_SIZE] = at + 2, second
        at += 2 + second
        if second < 0 or at > end or _hash(data, row[SECOND], at) == _DAMAGED:
            return False
    if kind < 2:
        if at + 4 != end:
            return False
        row[NUMBER] = _big(data, at, 4)
        at += 4
    row[HASH] = _hash(data, row[GROUP], row[GROUP] + size)
    return at == end and row[HASH] != _DAMAGED


@inner
def _note(data: Bytes, at: int, version: int, row: Ints) -> int:
    """Where a commit's metadata ends; their place and size into ``row``; -1 for an unusual length."""
    size: Any = np.int64(data[at])
    if version < 4:
        size, at = _big(data, at, 2), at + 2
    elif size < 0x80:
        size, at = size - 1, at + 1
    else:
        high = np.int64(data[at + 1])
        size, at = (size & 0x7F) + (high << 7) - 1, at + 2
        if high == 0 or high >= 0x80:
            return -1
    row[NOTE], row[NOTE_SIZE] = at, size
    return -1 if size < 0 else at + size


@inner
def _commit(data: Bytes, begin: int, end: int, row: Ints) -> bool:
    """The value of a commit, versions 0 to 4, with no tag or only the topic's id."""
    if end - begin < 20:
        return False
    version = _big(data, begin, 2)
    if version < 0 or version > 4:
        return False
    row[VERSION], row[OFFSET], row[TOPIC_ID] = version, _big(data, begin + 2, 8), -1
    row[EPOCH] = _big(data, begin + 10, 4)
    at = _note(data, begin + (14 if version >= 3 else 10), version, row)
    rest = 16 if version == 1 else 9 if version == 4 else 8
    if at < 0 or at + rest > end or _hash(data, row[NOTE], at) == _DAMAGED:
        return False
    row[TIME] = _big(data, at, 8)
    if version == 1:
        row[MORE] = _big(data, at + 8, 8)
    if version < 4 or data[at + 8] == 0:
        return at + rest == end
    row[TOPIC_ID] = at + 11
    return at + 27 == end and data[at + 8] == 1 and data[at + 9] == 0 and data[at + 10] == 16


@compiled
def parse(
    keys: Bytes, key_starts: Ints, values: Bytes, value_starts: Ints, dead: npt.NDArray[np.bool_]
) -> tuple[Ints, Bytes]:
    """One row of `COLUMNS` numbers per record, and the JSON of nested values.

    Names, notes and ids are given by place and size; ``dead`` are tombstones.
    """
    count, live, done = len(dead), 0, 0
    rows = np.zeros((count, COLUMNS), np.int64)
    for index in range(count):
        row = rows[index]
        if _key(keys, key_starts[index], key_starts[index + 1], row):
            row[USUAL] = 1
            if row[TYPE] >= 2 and not dead[index]:
                live += HEAD + EXPANSION * (value_starts[index + 1] - value_starts[index])
    out, place = np.empty(live, np.uint8), np.zeros(4, np.int64)
    for index in range(count):
        row = rows[index]
        if row[USUAL] == 0 or dead[index]:
            continue
        begin, end = value_starts[index], value_starts[index + 1]
        if row[TYPE] < 2:
            row[USUAL] = 1 if _commit(values, begin, end, row) else 0
            continue
        place[0], place[1], place[2], place[3] = begin, end, done, 1
        write_value(values, out, place, row[TYPE])
        row[USUAL] = 1 if place[3] and place[0] == end else 0
        if row[USUAL]:
            row[VERSION] = _big(values, begin, 2)
            row[JSON], row[JSON_SIZE] = done, place[2] - done
            done = place[2]
    return rows, out


@compiled
def gather(data: Bytes, places: Ints, sizes: Ints) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Pieces of ``data`` one behind the other in Arrow's layout; a size below 0 counts as 0."""
    starts = np.zeros(len(places) + 1, np.int32)
    total = 0
    for index in range(len(places)):
        total += max(sizes[index], 0)
        starts[index + 1] = total
    out = np.empty(total, np.uint8)
    for index in range(len(places)):
        at, begin = starts[index], places[index]
        for step in range(starts[index + 1] - at):
            out[at + step] = data[begin + step]
    return starts, out


@compiled
def topic_ids(data: Bytes, places: Ints) -> Bytes:
    """Kafka's text form, 22 bytes each, of the ids at these places."""
    out = np.empty(22 * len(places), np.uint8)
    for index in range(len(places)):
        bits: Any = 0
        kept, made, at = 0, 22 * index, places[index]
        for step in range(16):
            bits, kept = (bits << 8 | np.int64(data[at + step])) & 0xFFFF, kept + 8
            while kept >= 6:
                kept -= 6
                out[made] = BASE64[(bits >> kept) & 63]
                made += 1
        out[made] = BASE64[(bits << 4) & 63]
    return out


def home_of(hashes: Any, partitions: int) -> Any:
    """The partition of each hash (§2): abs(-2^31) is 0."""
    return np.where(hashes == -(1 << 31), 0, np.abs(hashes)) % partitions
