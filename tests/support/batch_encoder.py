"""Kafka's record batches written by hand, from the format's documentation: the peer of our reader."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import cramjam
from crc32c import crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; ``headers`` exist in format 2 only."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def compressed(codec: str, data: bytes) -> bytes:
    """``data`` as Kafka's clients compress it."""
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        for at in range(0, len(data), 1000):
            block = bytes(cramjam.snappy.compress_raw(data[at : at + 1000]))
            framed += struct.pack(">i", len(block)) + block
        return framed
    if codec == "lz4":
        return bytes(cramjam.lz4.compress(data))
    return bytes(cramjam.zstd.compress(data)) if codec == "zstd" else data


def varint(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    rest, out = (value << 1) ^ (value >> 63) & (2**64 - 1), bytearray()
    rest &= 2**64 - 1
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def _field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _record(record: Record, base: int, time: int) -> bytes:
    headers = b"".join(_field(name) + _field(value) for name, value in record.headers)
    body = b"\x00" + varint(record.timestamp_ms - time) + varint(record.offset - base)
    body += _field(record.key) + _field(record.value) + varint(len(record.headers)) + headers
    return varint(len(body)) + body


def batch(
    records: Sequence[Record],
    codec: str = "none",
    *,
    base: int | None = None,
    last: int | None = None,
    attributes: int = 0,
    producer: int = -1,
    max_timestamp: int | None = None,
) -> bytes:
    """A batch of format 2. ``base`` and ``last`` offset may lie outside the records', as after compaction."""
    first = records[0].offset if base is None else base
    ending = records[-1].offset if last is None else last
    time = records[0].timestamp_ms if records else 0
    latest = max((record.timestamp_ms for record in records), default=-1)
    body = compressed(codec, b"".join(_record(record, first, time) for record in records))
    fields = struct.pack(
        ">hiqqqhii",
        attributes | CODECS[codec],
        ending - first,
        time,
        latest if max_timestamp is None else max_timestamp,
        producer,
        0,
        0,
        len(records),
    )
    sealed = struct.pack(">ibI", 0, 2, crc32c(fields + body)) + fields + body
    return struct.pack(">qi", first, len(sealed)) + sealed


def marker(offset: int, producer: int, *, commit: bool, timestamp_ms: int = 0) -> bytes:
    """The control batch that ends a transaction."""
    record = Record(
        offset=offset, timestamp_ms=timestamp_ms, key=struct.pack(">hh", 0, int(commit)), value=b"\x00" * 6
    )
    return batch([record], attributes=TRANSACTIONAL | CONTROL, producer=producer)


def message(record: Record, magic: int, attributes: int = 0) -> bytes:
    """A message of format 0 or 1."""

    def nullable(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", record.timestamp_ms) if magic else b""
    body += nullable(record.key) + nullable(record.value)
    sealed = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", record.offset, len(sealed)) + sealed


def message_set(records: Sequence[Record], magic: int, codec: str = "none", attributes: int = 0) -> bytes:
    """Messages of format 0 or 1, in a wrapper where there is a codec (relative offsets in format 1)."""
    if codec == "none":
        return b"".join(message(record, magic, attributes) for record in records)
    first = records[0].offset if magic else 0
    inner = b"".join(
        message(
            Record(
                offset=record.offset - first,
                timestamp_ms=record.timestamp_ms,
                key=record.key,
                value=record.value,
            ),
            magic,
        )
        for record in records
    )
    content = compressed(codec, inner)
    if codec == "lz4" and magic == 0:
        content = (
            content[:6] + bytes([content[6] ^ 0x5A]) + content[7:]
        )  # the checksum that old clients got wrong
    wrapper = Record(
        offset=records[-1].offset,
        timestamp_ms=max(record.timestamp_ms for record in records),
        key=None,
        value=content,
    )
    return message(wrapper, magic, attributes | CODECS[codec])
