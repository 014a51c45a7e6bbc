"""JSON written by compiled code straight from Kafka's encoding: numbers, strings, ids, lengths, bytes.

For functions that are compiled into `coordinator_records.parse`; they have no entry from Python, which
halves the time that compiling takes. A reader gives up (`USUAL` becomes 0) for whatever is not usual.
Names, arrays and tags are in the code that `groupshift.spark.batches.coordinator_values` writes around these.
Source: docs/reference/group-coordinator.md §1.2.
"""

# ruff: noqa: PLR2004 - widths and limits that the format fixes

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from groupshift.spark.batches.compiled import int8, uint8

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

EXPANSION, HEAD = 16, 512
"""A value of n bytes makes at most `EXPANSION` * n + `HEAD` bytes of JSON."""

AT, END, OUT, USUAL = 0, 1, 2, 3
"""Where a reader stands: position in the value, its end, position in the output, 1 while all is usual."""

F = TypeVar("F", bound=Callable[..., Any])


def inner(function: F) -> F:
    """``function`` compiled for others that are compiled."""
    compile_: Any = numba.njit  # its stub does not know the last two
    made: F = compile_(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return made


def name(text: str) -> Bytes:
    """A constant for the output."""
    return np.frombuffer(text.encode(), np.uint8)


NULL, CONSUMER = name("null"), name("\0\x08consumer")
HEX = name("0123456789abcdef")
BASE64 = name("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@inner
def put(out: Bytes, place: Ints, word: Bytes) -> None:
    """A constant."""
    at = place[OUT]
    for index in range(len(word)):
        out[at + index] = word[index]
    place[OUT] = at + len(word)


@inner
def base64_id(data: Bytes, at: int, out: Bytes, made: int) -> None:
    """Sixteen bytes in Kafka's text form, 22 bytes without quotes."""
    bits: Any = 0
    kept = 0
    for index in range(16):
        bits, kept = (bits << 8 | np.int64(data[at + index])) & 0xFFFF, kept + 8
        while kept >= 6:
            kept -= 6
            out[made] = BASE64[(bits >> kept) & 63]
            made += 1
    out[made] = BASE64[(bits << 4) & 63]  # two bits are left


@inner
def number(data: Bytes, place: Ints, width: int) -> int:
    """A signed big-endian number."""
    at = place[AT]
    if at + width > place[END]:
        place[USUAL] = 0
        return 0
    value = int8(data, at)
    for index in range(1, width):
        value = (value << 8) | uint8(data, at + index)
    place[AT] = at + width
    return int(value)


@inner
def varint(data: Bytes, place: Ints) -> int:
    """An unsigned number of variable length in its shortest form."""
    value: Any = np.int64(0)
    shift, at = 0, place[AT]
    while at < place[END] and shift < 35:
        byte = uint8(data, at)
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            if (byte == 0 and shift > 0) or value >= 1 << 31:
                break
            place[AT] = at
            return int(value)
        shift += 7
    place[USUAL] = 0
    return 0


@inner
def show(out: Bytes, place: Ints, value: int) -> None:
    """A number in decimal."""
    at, rest = place[OUT], np.uint64(value)
    if value < 0:
        out[at] = 45
        at += 1
        rest = np.uint64(0) - rest
    digits, left = 1, rest // np.uint64(10)
    while left > 0:
        left //= np.uint64(10)
        digits += 1
    for index in range(digits - 1, -1, -1):
        out[at + index] = np.uint8(48) + np.uint8(rest % np.uint64(10))
        rest //= np.uint64(10)
    place[OUT] = at + digits


@inner
def string(data: Bytes, out: Bytes, place: Ints, flexible: int, nullable: int) -> None:
    """A string that JSON and Unicode leave as it is, or null where that is allowed."""
    size = varint(data, place) - 1 if flexible else number(data, place, 2)
    if size == -1 and nullable:
        put(out, place, NULL)
        return
    begin, at = place[AT], place[OUT]
    if size < 0 or begin + size > place[END]:
        place[USUAL] = 0
        return
    out[at] = 34
    for index in range(size):
        byte = data[begin + index]
        if byte < 0x20 or byte > 0x7E or byte == 34 or byte == 92:  # noqa: PLR1714 - compiled
            place[USUAL] = 0
            return
        out[at + 1 + index] = byte
    out[at + 1 + size] = 34
    place[AT], place[OUT] = begin + size, at + size + 2


@inner
def hexed(data: Bytes, out: Bytes, place: Ints, size: int, nullable: int) -> None:
    """The next ``size`` bytes in hex, or null where that is allowed (-1)."""
    begin, at = place[AT], place[OUT]
    if size == -1 and nullable:
        put(out, place, NULL)
        return
    if size < 0 or begin + size > place[END]:
        place[USUAL] = 0
        return
    out[at] = 34
    for index in range(size):
        byte = data[begin + index]
        out[at + 1 + 2 * index] = HEX[byte >> 4]
        out[at + 2 + 2 * index] = HEX[byte & 15]
    out[at + 1 + 2 * size] = 34
    place[AT], place[OUT] = begin + size, at + 2 * size + 2


@inner
def uuid(data: Bytes, out: Bytes, place: Ints) -> None:
    """Sixteen bytes in Kafka's text form."""
    begin, at = place[AT], place[OUT]
    if begin + 16 > place[END]:
        place[USUAL] = 0
        return
    out[at] = 34
    base64_id(data, begin, out, at + 1)
    out[at + 23] = 34
    place[AT], place[OUT] = begin + 16, at + 24


@inner
def length(data: Bytes, place: Ints, flexible: int) -> int:
    """The length of an array that is not null and no longer than the bytes that are left; 0 if unusual."""
    count = varint(data, place) - 1 if flexible else number(data, place, 4)
    if count < 0 or count > place[END] - place[AT]:
        place[USUAL] = 0
        return 0
    return count


@inner
def of_consumers(data: Bytes, place: Ints) -> bool:
    """Whether a classic group's value, whose version comes next, has the protocol type of consumers."""
    begin = place[AT] + 2
    if begin + len(CONSUMER) > place[END]:
        return False
    for index in range(len(CONSUMER)):  # noqa: SIM110 - compiled
        if data[begin + index] != CONSUMER[index]:
            return False
    return True
