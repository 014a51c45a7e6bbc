"""The batches in a piece of a log: where each one lies, what its header says, and its checksum.

Formats: Kafka's message format documentation. A format 2 batch is 61 bytes of header and its records; in
formats 0 and 1 every message stands for itself, or wraps a compressed set of messages; it comes out as a
batch of one. Checksums: CRC-32 (formats 0 and 1) and CRC-32C (format 2), eight bytes a step.
"""

# ruff: noqa: PLR2004 - places and versions that the format fixes

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from groupshift.spark.batches.compiled import (
    HARDWARE_CRC32C,
    compiled,
    crc32c_step,
    int8,
    int16,
    int32,
    int64,
    little64,
    uint8,
)

_IEEE, _CASTAGNOLI = 0xEDB88320, 0x82F63B78
_STEP = 8


def _table(polynomial: int) -> Any:
    """Shape (8, 256): row n is the remainder of a byte followed by n zero bytes."""
    rows = np.zeros((_STEP, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        rows[0, byte] = value
    for step in range(1, _STEP):
        previous = rows[step - 1]
        rows[step] = (previous >> np.uint32(8)) ^ rows[0, previous & np.uint32(0xFF)]
    return rows


CRC32 = _table(_IEEE)
CRC32C = _table(_CASTAGNOLI)


@compiled
def crc32(data: Any, start: int, end: int, table: Any) -> Any:
    """The checksum of ``data[start:end]`` (uint8) by the table `CRC32` or `CRC32C`, from 0 to 2**32 - 1."""
    value, at, low = np.uint64(0xFFFFFFFF), start, np.uint64(0xFF)
    while end - at >= _STEP:
        word = little64(data, at) ^ value
        value = np.uint64(
            table[7, word & low]
            ^ table[6, (word >> np.uint64(8)) & low]
            ^ table[5, (word >> np.uint64(16)) & low]
            ^ table[4, (word >> np.uint64(24)) & low]
            ^ table[3, (word >> np.uint64(32)) & low]
            ^ table[2, (word >> np.uint64(40)) & low]
            ^ table[1, (word >> np.uint64(48)) & low]
            ^ table[0, word >> np.uint64(56)]
        )
        at += _STEP
    return _rest(data, at, end, value, table)


@compiled
def _rest(data: Any, start: int, end: int, value: Any, table: Any) -> Any:
    """The checksum after the last bytes, one at a time."""
    for at in range(start, end):
        value = np.uint64(table[0, (value ^ np.uint64(uint8(data, at))) & np.uint64(0xFF)]) ^ (
            value >> np.uint64(8)
        )
    return np.int64(value ^ np.uint64(0xFFFFFFFF))


@compiled
def _crc32c_by_instruction(data: Any, start: int, end: int) -> Any:
    value, at = np.uint64(0xFFFFFFFF), start
    while end - at >= _STEP:
        value = crc32c_step(value, little64(data, at))
        at += _STEP
    return _rest(data, at, end, value, CRC32C)


@compiled
def _crc32c_by_table(data: Any, start: int, end: int) -> Any:
    return crc32(data, start, end, CRC32C)


crc32c = _crc32c_by_instruction if HARDWARE_CRC32C else _crc32c_by_table
"""The checksum of ``data[start:end]`` that format 2 carries."""

OFFSET, LAST, MAGIC, ATTRIBUTES = 0, 1, 2, 3
TIMESTAMP, MAX_TIMESTAMP, PRODUCER, COUNT = 4, 5, 6, 7
POSITION, START, END, SOURCE, CONTROL = 8, 9, 10, 11, 12
COLUMNS = 13
"""Columns of a table of batches (int64). ``OFFSET`` is the base offset, ``LAST`` the last one; ``TIMESTAMP``
is what records count from, in ms; ``START:END`` are the bytes of the records, in the log's bytes (``SOURCE``
0) or in the inflated ones (1); ``CONTROL`` is the type of a control batch's marker, -1 for other batches."""

CODEC_MASK, APPEND_TIME, TRANSACTIONAL, IS_CONTROL = 0x07, 0x08, 0x10, 0x20
ABORT, COMMIT = 0, 1
PREFIX = 12
"""Bytes before those that the length counts: offset and length."""

_ENOUGH = 17  # up to the format's byte, which is at one place in all formats
_SHORTEST_V0, _SHORTEST_V1, _HEADER_V2 = 26, 34, 61
SHORTEST_RECORD = 7
_CAPACITY = 65_536
_FAR = 2**32


class Ending(StrEnum):
    """Why no further batch was read, in the order of the numbers that `_walk` gives."""

    TORN = "torn"
    """The bytes end within a batch, or with one."""
    TABLE_FULL = "table_full"
    BLANK = "blank"
    """What follows was never written: an offset and a length of zero."""
    FORMAT = "format"
    LENGTH = "length"
    CHECKSUM = "checksum"


_DAMAGE = {
    Ending.FORMAT: "its format is none of 0, 1 and 2",
    Ending.LENGTH: "its length cannot be right",
    Ending.CHECKSUM: "its checksum does not match its bytes",
}


_TORN, _FULL, _BLANK, _FORMAT, _LENGTH, _CHECKSUM = range(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """``table`` of shape (batches, `COLUMNS`); ``end`` is the position after the last of them."""

    table: Any
    end: int
    ending: Ending

    @property
    def damage(self) -> str | None:
        """What is wrong with the batch at ``end``; None when nothing is."""
        return _DAMAGE.get(self.ending)


def read_headers(data: Any, *, check: bool = True, capacity: int = _CAPACITY) -> Headers:
    """The headers of the batches from the first byte of ``data`` (uint8) on, at most ``capacity``.

    ``check`` compares checksums. Positions are those in ``data``.
    """
    table = np.empty((capacity, COLUMNS), dtype=np.int64)
    rows, end, code = _walk(data, table, int(check))
    return Headers(table=table[:rows], end=int(end), ending=tuple(Ending)[code])


@compiled
def find_batch(data: Any, start: int, following: int) -> Any:
    """Where the next whole batch with a right checksum begins, at or after ``start``; -1 if nowhere.

    Its offset is sought at or not far above ``following``.
    """
    size = len(data)
    for at in range(start, size - _ENOUGH):
        length, magic, offset = int32(data, at + 8), int8(data, at + 16), int64(data, at)
        likely = _SHORTEST_V0 - PREFIX <= length <= size - at - PREFIX and 0 <= magic <= 2
        if (
            likely
            and following <= offset < following + _FAR
            and _intact(data, at, at + PREFIX + length, magic)
        ):
            return at
    return -1


@compiled
def varint(data: Any, at: int, end: int) -> Any:
    """A zigzag number of up to ten bytes, and where it ends; -1 where that is not before ``end``."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = np.uint64(uint8(data, at))
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@compiled
def record(data: Any, at: int, end: int) -> Any:
    """One record of format 2: time and offset deltas, key and value (place, length), where the next begins
    (-1: it cannot be read)."""
    bad = (0, 0, 0, 0, 0, 0, -1)
    size, at = varint(data, at, end)
    if at < 0 or size < 0 or size > end - at:
        return bad
    after = at + size
    time, at = varint(data, at + 1, after)
    if at < 0:
        return bad
    delta, at = varint(data, at, after)
    if at < 0:
        return bad
    key_length, key = varint(data, at, after)
    if key < 0 or key_length > after - key:
        return bad
    value_length, value = varint(data, key + max(key_length, 0), after)
    if value < 0 or value_length > after - value:
        return bad
    return time, delta, key, key_length, value, value_length, after


@compiled
def _marker(data: Any, start: int, end: int) -> Any:
    """The type in a control batch's record: the second int16 of its key; -1 without one."""
    _, _, key, length, _, _, after = record(data, start, end)
    return int16(data, key + 2) if after >= 0 and length >= 4 else np.int64(-1)


@compiled
def _walk(data: Any, table: Any, check: int) -> Any:  # noqa: PLR0911 - numba
    at, size, row = 0, len(data), 0
    while size - at >= _ENOUGH:
        if row == len(table):
            return row, at, _FULL
        length, magic = int32(data, at + 8), int8(data, at + 16)
        if length == 0 and int64(data, at) == 0:
            return row, at, _BLANK
        if length < _SHORTEST_V0 - PREFIX or int64(data, at) < 0:
            return row, at, _LENGTH
        end = at + PREFIX + length
        if magic < 0 or magic > 2:
            return row, at, _FORMAT
        if end > size:
            break
        head = table[row]
        head[OFFSET] = head[LAST] = int64(data, at)
        head[MAGIC], head[POSITION], head[END] = magic, at, end
        head[SOURCE], head[CONTROL] = 0, -1
        code = _batch(data, at, end, head) if magic == 2 else _message(data, at, end, head)
        if code:
            return row, at, code
        if check and not _intact(data, at, end, magic):
            return row, at, _CHECKSUM
        at = end
        row += 1
    return row, at, _TORN


@compiled
def _intact(data: Any, at: int, end: int, magic: int) -> Any:
    if magic == 2:
        return int32(data, at + 17) & 0xFFFFFFFF == crc32c(data, at + 21, end)
    return int32(data, at + 12) & 0xFFFFFFFF == crc32(data, at + 16, end, CRC32)


@compiled
def _batch(data: Any, at: int, end: int, row: Any) -> Any:
    if end - at < _HEADER_V2:
        return _LENGTH
    attributes, count = int16(data, at + 21), int32(data, at + 57)
    start = at + _HEADER_V2
    if count < 0 or (not attributes & CODEC_MASK and count > (end - start) // SHORTEST_RECORD):
        return _LENGTH
    row[LAST] += int32(data, at + 23)
    row[ATTRIBUTES] = attributes
    row[TIMESTAMP] = int64(data, at + 27)
    row[MAX_TIMESTAMP] = int64(data, at + 35)
    row[PRODUCER] = int64(data, at + 43)
    row[COUNT] = count
    row[START] = start
    if attributes & IS_CONTROL and count:
        row[CONTROL] = _marker(data, start, end)
    return 0


@compiled
def _message(data: Any, at: int, end: int, row: Any) -> Any:
    magic, attributes = int8(data, at + 16), uint8(data, at + 17)
    if magic == 1 and end - at < _SHORTEST_V1:
        return _LENGTH
    timestamp = int64(data, at + 18) if magic == 1 else np.int64(-1)
    row[ATTRIBUTES] = attributes & (CODEC_MASK | APPEND_TIME)
    row[TIMESTAMP] = timestamp
    row[MAX_TIMESTAMP] = timestamp
    row[PRODUCER] = -1
    row[COUNT] = 1
    row[START] = at + (26 if magic == 1 else 18)
    return 0
