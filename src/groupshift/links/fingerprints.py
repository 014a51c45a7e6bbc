"""What makes two records the same content on both sides of a link.

`fingerprint` is the SHA-256 that jobs and evidence use; `content` is what it is computed over. Two records
have the same fingerprint exactly if they have the same content, so comparisons in memory skip the hash.

Source: docs/reference/cross-cluster-offsets.md §8.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from groupshift.ports.records import LogRecordView, TimestampType


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
