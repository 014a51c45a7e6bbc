"""Records of one partition of one topic, on either side of a link: what translation compares.

It is a port, because clients and copied logs implement it, and moves open it. A reader shows the partition at
one moment: open the target's reader first and the source's after it, so that the source holds the original of
every copy that the target shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class TimestampType(StrEnum):
    """Who set the timestamp of a record (``message.timestamp.type``)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"
    NONE = "none"
    """The record is older than timestamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecordView:
    """One record as a consumer is given it: ``timestamp_ms`` since the epoch of Unix (-1: none), ``headers``
    in their order, with None for a null value."""

    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: TimestampType = TimestampType.CREATE_TIME


class PartitionReader(Protocol):
    """Reads one partition at the isolation level of the replicator, and changes nothing.

    Markers, and aborted records where the level hides them, are not given: their offsets are holes.
    Raises `Transient` when brokers do not answer in time."""

    @property
    def start(self) -> int:
        """The log start offset when the reader was opened."""

    @property
    def end(self) -> int:
        """The log end offset (high watermark) when the reader was opened; nothing from there on is given."""

    @property
    def records_read(self) -> int:
        """How many records were fetched so far."""

    def read(self, from_offset: int, limit: int) -> Sequence[LogRecordView]:
        """The first ``limit`` records at or behind an offset, in order; fewer only where the log ends."""

    def before(self, offset: int, limit: int) -> Sequence[LogRecordView]:
        """The last ``limit`` records below an offset, in order; fewer only where the log begins."""
