"""Reads of one partition that many translations share, and what makes two records the same content.

`fingerprint` is the SHA-256 that jobs and evidence use; `content_by` gives what it is computed over. Two
records have the same fingerprint exactly if they have the same content, so comparisons in memory skip it.

Source: docs/reference/cross-cluster-offsets.md §8.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from groupshift.ports.records import LogRecordView, PartitionReader, TimestampType


@dataclass(frozen=True, slots=True, kw_only=True)
class FingerprintRule:
    """What belongs to a record's content. ``timestamps``: the timestamp does, which is right only where both
    topics use CreateTime. ``provenance_headers``: headers that the replicator adds."""

    timestamps: bool = True
    provenance_headers: frozenset[str] = frozenset()

    @classmethod
    def of_topics(
        cls, source: TimestampType, target: TimestampType, provenance_headers: frozenset[str] = frozenset()
    ) -> FingerprintRule:
        """The rule for two topics with these timestamp types."""
        both = source is TimestampType.CREATE_TIME and target is TimestampType.CREATE_TIME
        return cls(timestamps=both, provenance_headers=provenance_headers)


class Content(NamedTuple):
    """What is compared of a record; ``timestamp_ms`` is None where timestamps do not count."""

    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def content_by(rule: FingerprintRule) -> Callable[[LogRecordView], Content]:
    """Return the function that gives a record's content by ``rule``."""
    timestamps, provenance = rule.timestamps, rule.provenance_headers

    def content(record: LogRecordView) -> Content:
        headers = record.headers
        if headers and provenance:
            headers = tuple(header for header in headers if header[0] not in provenance)
        return Content(record.timestamp_ms if timestamps else None, record.key, record.value, headers)

    return content


def _prefixed(field: bytes | None) -> bytes:
    """Int32 length and bytes; length -1 for null."""
    return struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field


def fingerprint(record: LogRecordView, rule: FingerprintRule) -> bytes:
    """The SHA-256 (32 bytes) of a record's content.

    It covers: timestamp (int64, where it counts), key, value, and for each header its name in UTF-8 and its
    value. All numbers are big-endian; key, value, name and header value have an int32 length in front, which
    is -1 for null.
    """
    content = content_by(rule)(record)
    digest = hashlib.sha256()
    if content.timestamp_ms is not None:
        digest.update(struct.pack(">q", content.timestamp_ms))
    digest.update(_prefixed(content.key))
    digest.update(_prefixed(content.value))
    for name, value in content.headers:
        digest.update(_prefixed(name.encode()))
        digest.update(_prefixed(value))
    return digest.digest()


K = TypeVar("K")
CHUNK = 500
"""So many records are fetched at once at the least; a consumer's ``max.poll.records``."""


@dataclass(slots=True)
class Stretch(Generic[K]):
    """Records in order: their ``offsets``, and the ``keys`` that are kept of them."""

    offsets: list[int]
    keys: list[K]

    def __len__(self) -> int:
        return len(self.offsets)

    def __add__(self, other: Stretch[K]) -> Stretch[K]:
        return Stretch(self.offsets + other.offsets, self.keys + other.keys)


@dataclass(slots=True)
class _Piece(Generic[K]):
    """All records from offset ``low`` up to ``high`` (exclusive)."""

    low: int
    high: int
    offsets: list[int]
    keys: list[K]

    def continue_with(self, other: _Piece[K]) -> None:
        """Append what the other piece, which begins at or below ``high``, has behind it."""
        if other.high > self.high:
            at = bisect_left(other.offsets, self.high)
            self.offsets += other.offsets[at:]
            self.keys += other.keys[at:]
            self.high = other.high


class SharedReads(Generic[K]):
    """One partition, read where it is needed and never twice. Of a record only its offset and ``key_of`` it
    stay in memory: its content, or the source offset in its header."""

    def __init__(
        self, reader: PartitionReader, key_of: Callable[[LogRecordView], K], *, chunk: int = CHUNK
    ) -> None:
        self._reader = reader
        self._key_of = key_of
        self._chunk = chunk
        self._pieces: list[_Piece[K]] = []
        self.start, self.end = reader.start, reader.end

    def read(self, offset: int, limit: int) -> Stretch[K]:
        """The first ``limit`` records at or behind an offset."""
        offset = max(offset, self.start)
        if offset >= self.end or limit <= 0:
            return Stretch([], [])
        while True:
            piece = self._piece(offset)
            if piece:
                at = bisect_left(piece.offsets, offset)
                if len(piece.offsets) - at >= limit or piece.high >= self.end:
                    return Stretch(piece.offsets[at : at + limit], piece.keys[at : at + limit])
                self._fetch(piece.high, limit - (len(piece.offsets) - at))
            else:
                self._fetch(offset, limit)

    def before(self, offset: int, limit: int) -> Stretch[K]:
        """The last ``limit`` records below an offset."""
        offset = min(offset, self.end)
        if offset <= self.start or limit <= 0:
            return Stretch([], [])
        while True:
            piece = self._piece(offset - 1)
            if piece:
                at = bisect_left(piece.offsets, offset)
                if at >= limit or piece.low <= self.start:
                    return Stretch(
                        piece.offsets[max(0, at - limit) : at], piece.keys[max(0, at - limit) : at]
                    )
                self._fetch_before(piece.low, limit - at)
            else:
                self._fetch_before(offset, limit)

    def span(self, low: int, high: int, limit: int) -> Stretch[K] | None:
        """All records from ``low`` up to ``high`` (exclusive); None if there are more than ``limit``."""
        low, high = max(low, self.start), min(high, self.end)
        if low >= high:
            return Stretch([], [])
        piece = self._piece(low)
        while piece is None or piece.high < high:
            if piece and bisect_left(piece.offsets, high) - bisect_left(piece.offsets, low) > limit:
                return None
            self._fetch(piece.high if piece else low, min(high - low, limit + 1))
            piece = self._piece(low)
        first, last = bisect_left(piece.offsets, low), bisect_left(piece.offsets, high)
        if last - first > limit:
            return None
        return Stretch(piece.offsets[first:last], piece.keys[first:last])

    def _piece(self, offset: int) -> _Piece[K] | None:
        at = bisect_right(self._pieces, offset, key=lambda piece: piece.low) - 1
        return self._pieces[at] if at >= 0 and offset < self._pieces[at].high else None

    def _fetch(self, offset: int, records: int) -> None:
        limit = max(records, self._chunk)
        read = self._reader.read(offset, limit)
        high = read[-1].offset + 1 if len(read) >= limit else self.end
        self._add(offset, max(high, offset + 1), read)

    def _fetch_before(self, offset: int, records: int) -> None:
        limit = max(records, self._chunk)
        read = self._reader.before(offset, limit)
        low = read[0].offset if len(read) >= limit else self.start
        self._add(min(low, offset - 1), offset, read)

    def _add(self, low: int, high: int, read: Sequence[LogRecordView]) -> None:
        """Join new records with the pieces that they touch."""
        key_of = self._key_of
        new = _Piece(low, high, [record.offset for record in read], [key_of(record) for record in read])
        first = bisect_left(self._pieces, low, key=lambda piece: piece.high)
        last = bisect_right(self._pieces, high, key=lambda piece: piece.low)
        touched = sorted((*self._pieces[first:last], new), key=lambda piece: piece.low)
        joined = touched[0]
        for piece in touched[1:]:
            joined.continue_with(piece)
        self._pieces[first:last] = [joined]
