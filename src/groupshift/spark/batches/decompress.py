"""Decompression: compressed batches become plain ones before their records are read.

Codecs: 1 gzip, 2 snappy, 3 lz4, 4 zstd (KIP-110).
"""

# ruff: noqa: PLR2004 - places and versions that the format fixes

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cramjam
import numpy as np

from groupshift.errors import Broken
from groupshift.spark.batches.headers import (
    APPEND_TIME,
    ATTRIBUTES,
    CODEC_MASK,
    COUNT,
    END,
    LAST,
    MAGIC,
    MAX_TIMESTAMP,
    OFFSET,
    POSITION,
    SHORTEST_RECORD,
    SOURCE,
    START,
    TIMESTAMP,
    read_headers,
)

_SNAPPY, _LZ4 = 2, 3
_BOUNDED = {1: cramjam.gzip, _LZ4: cramjam.lz4, 4: cramjam.zstd}
LARGEST_BATCH = 100 * 1024 * 1024
"""Bytes of the largest batch once it is inflated: by default no broker takes a larger request
(socket.request.max.bytes). 50 kB of zstd can say 1.5 GiB."""
_FIRST_GUESS = 64 * 1024
_USUAL_RATIO = 16
_GROWTH = 8
_FULL = "failed to write whole buffer"
"""How cramjam says that the output does not fit."""
_WRONG_CHECKSUM = "headerChecksum_invalid"
"""How cramjam says that the checksum of an LZ4 descriptor is wrong."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16


def inflate(codec: int, payload: Any, *, magic: int = 2) -> Any:
    """The bytes that ``payload`` (any buffer) was made of, `LARGEST_BATCH` at most (uint8 or bytes).
    ``magic`` is the batch's format.

    Raises `Broken` when it is not of that codec or becomes larger, without saying where it came from.
    """
    try:
        if codec == _SNAPPY:
            return _snappy(bytes(payload))
        if codec in _BOUNDED:
            frame = _with_right_checksum(bytes(payload)) if codec == _LZ4 and not magic else payload
            return _bounded(_BOUNDED[codec], frame)
    except (cramjam.DecompressionError, ValueError, OSError, struct.error, IndexError) as error:
        raise Broken(f"its records cannot be decompressed by codec {codec} ({error})") from error
    raise Broken(f"its codec {codec} is none of 1 gzip, 2 snappy, 3 lz4 and 4 zstd")


def _bounded(codec: Any, payload: Any) -> Any:
    """What a codec of cramjam makes of ``payload``, in a buffer that grows to `LARGEST_BATCH` at most."""
    size = min(LARGEST_BATCH, max(_FIRST_GUESS, _USUAL_RATIO * len(payload)))
    while True:
        out = np.empty(size, dtype=np.uint8)
        try:
            return out[: codec.decompress_into(payload, out)]
        except cramjam.DecompressionError as error:
            if size == LARGEST_BATCH:
                raise _too_large() if _FULL in str(error) else error from None
            size = min(LARGEST_BATCH, _GROWTH * size)


def _too_large() -> Broken:
    return Broken(f"its records are more than {LARGEST_BATCH} bytes without compression")


def _snappy(payload: bytes) -> Any:
    """Blocks behind the header of snappy-java, as Kafka's own clients write; else one plain block."""
    if not payload.startswith(_XERIAL):
        return _snappy_block(payload, LARGEST_BATCH)
    parts, at, left = [], _XERIAL_HEADER, LARGEST_BATCH
    while at < len(payload):
        (length,) = struct.unpack_from(">i", payload, at)
        at += 4
        if length < 0 or at + length > len(payload):
            raise ValueError(f"a block of {length} bytes at {at} of {len(payload)}")
        parts.append(_snappy_block(payload[at : at + length], left))
        left -= len(parts[-1])
        at += length
    return b"".join(parts)


def _snappy_block(block: bytes, left: int) -> bytes:
    """One block, which tells its size before it is inflated."""
    if cramjam.snappy.decompress_raw_len(block) > left:
        raise _too_large()
    return bytes(cramjam.snappy.decompress_raw(block))


def _with_right_checksum(frame: bytes) -> bytes:
    """An LZ4 frame whose descriptor carries the right checksum.

    Clients up to 0.9 computed it with the frame's magic number included (KAFKA-3160), and format 0 kept that
    way ever since. It is one byte: the right one is the one of which the codec, shown no block, does not
    complain."""
    at = 14 if frame[4] & 0x08 else 6
    for candidate in range(256):
        head = frame[:at] + bytes([candidate])
        try:
            cramjam.lz4.decompress_into(head, bytearray(1))
        except cramjam.DecompressionError as error:
            if _WRONG_CHECKSUM not in str(error):
                return head + frame[at + 1 :]
    return frame


PIECE = 32 * 1024 * 1024
"""Bytes of inflated batches that are held at a time, where not one batch alone is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where bytes were taken from: a file or an answer, the byte they begin at, and the partition."""

    name: str
    position: int = 0
    partition: int = 0

    def broken(self, row: Any, why: str) -> Broken:
        """The error for one batch of a table."""
        return Broken(
            f"{self.name}: byte {self.position + int(row[POSITION])}, the batch at offset "
            f"{int(row[OFFSET])}: {why}; take it again from a replica"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Batches without compression: their bytes are in ``log`` or ``inflated`` (uint8), as ``table`` says."""

    log: Any
    inflated: Any
    table: Any


def expand(log: Any, table: Any, origin: Origin) -> Iterator[Plain]:
    """Inflate the compressed batches of ``table`` (see `headers`), each wrapper into its messages.

    Pieces of the table in order: one ends where its batches would together be more than `PIECE` bytes.
    Raises `Broken` naming the batch that cannot be inflated or is larger than a batch may be.
    """
    parts: list[Any] = []
    tables: list[Any] = []
    done, size = 0, 0
    for number in np.flatnonzero(table[:, ATTRIBUTES] & CODEC_MASK):
        content, rows = _inflated(log, table[number], origin)
        if parts and size + len(content) > PIECE:
            yield _plain(log, parts, [*tables, table[done:number]])
            parts, tables, done, size = [], [], int(number), 0
        rows[:, START] += size
        rows[:, END] += size
        tables += [table[done:number], rows]
        parts.append(content)
        done, size = int(number) + 1, size + len(content)
    yield _plain(log, parts, [*tables, table[done:]])


def _plain(log: Any, parts: list[Any], tables: list[Any]) -> Plain:
    inflated = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, dtype=np.uint8)])
    return Plain(log=_frozen(log), inflated=_frozen(inflated), table=np.concatenate(tables))


def _frozen(data: Any) -> Any:
    """A read-only view: compiled functions see one type of array, whatever the caller's is."""
    view = data.view()
    view.flags.writeable = False
    return view


def _inflated(log: Any, row: Any, origin: Origin) -> tuple[Any, Any]:
    """The content of one compressed batch, and the batches in it."""
    codec, magic = int(row[ATTRIBUTES]) & CODEC_MASK, int(row[MAGIC])
    try:
        payload = _nullable(log[row[START] : row[END]]) if magic < 2 else log[row[START] : row[END]].tobytes()
        content = np.frombuffer(inflate(codec, payload, magic=magic), dtype=np.uint8)
    except Broken as error:
        raise origin.broken(row, str(error)) from error
    if magic < 2:
        return content, _messages(content, row, origin)
    if row[COUNT] > len(content) // SHORTEST_RECORD:
        raise origin.broken(row, f"its {row[COUNT]} records do not fit in {len(content)} bytes")
    single = row[None].copy()
    single[0, [START, END, SOURCE]] = 0, len(content), 1
    return content, single


def _nullable(body: Any) -> bytes:
    """The value of a wrapping message: an int32 length after its key, which is null."""
    raw: bytes = body.tobytes()
    key = int.from_bytes(raw[:4], "big", signed=True)
    at = 8 + max(key, 0)
    length = int.from_bytes(raw[at - 4 : at], "big", signed=True)
    if length < 0 or at + length != len(raw):
        raise Broken("its length cannot be right")
    return raw[at:]


def _messages(content: Any, wrapper: Any, origin: Origin) -> Any:
    """The messages in a wrapper, with their own offsets and times.

    In format 1 they count from 0 and the wrapper has the last one's offset (KIP-31); a wrapper whose time
    the broker set gives it to all of them (KIP-32).
    """
    tables, at = [], 0
    while at < len(content):
        inner = read_headers(_frozen(content[at:]))
        if inner.damage or not len(inner.table) or (inner.table[:, ATTRIBUTES] & CODEC_MASK).any():
            raise origin.broken(wrapper, "the messages in it are damaged")
        inner.table[:, [START, END]] += at
        tables.append(inner.table)
        at += inner.end
    if not tables:
        return np.empty((0, len(wrapper)), dtype=np.int64)
    rows = np.concatenate(tables)
    if wrapper[MAGIC] == 1:
        rows[:, OFFSET] += wrapper[OFFSET] - rows[-1, OFFSET]
    if wrapper[MAGIC] == 1 and wrapper[ATTRIBUTES] & APPEND_TIME:
        rows[:, [TIMESTAMP, MAX_TIMESTAMP]] = wrapper[TIMESTAMP]
    rows[:, LAST] = rows[:, OFFSET]
    rows[:, POSITION] = wrapper[POSITION]
    rows[:, SOURCE] = 1
    return rows
