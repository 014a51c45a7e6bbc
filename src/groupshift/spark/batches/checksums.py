"""CRC-32 (formats 0 and 1) and CRC-32C (format 2), eight bytes a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupshift.spark.batches.compiled import compiled
from groupshift.spark.batches.words import HARDWARE_CRC32C, crc32c_step, little64, uint8

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
