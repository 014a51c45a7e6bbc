"""Records of partitions, on either side of a link: what translation compares.

They are ports, because clients and copied logs implement them, and moves open them. A reader shows the
partition at one moment: open the target's reader first and the source's after it, so that the source holds
the original of every copy that the target shows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from groupshift.domain.commit_places import TopicNow
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.cluster import Closing


class TimestampType(StrEnum):
    """Who set the timestamp of a record (``message.timestamp.type``)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"
    NONE = "none"
    """The record is older than timestamps."""


class LogRecordView(NamedTuple):
    """One record as a consumer is given it: ``timestamp_ms`` since the epoch of Unix (-1: none), ``headers``
    in their order, with None for a null value. A tuple, because there are millions."""

    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: TimestampType = TimestampType.CREATE_TIME


class PartitionReader(Protocol):
    """Reads one partition at the isolation level of the replicator, and changes nothing.

    Markers, and aborted records where the level hides them, are not given: their offsets are holes. So is,
    with read_committed, everything from the last stable offset on, as it was when the reader was opened.
    What was deleted since is a hole, too. Raises `Transient` when brokers do not answer in time, `Rejected`
    when they refuse, `Broken` for damage."""

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


class PartitionLogs(Closing, Protocol):
    """The logs of one cluster. Changes nothing; raises as `PartitionReader`."""

    def topics(self) -> Mapping[str, TopicNow]:
        """Every topic that this user may see, internal ones included: ids, and partitions by their number."""

    def open(
        self, partitions: Collection[TopicPartition], isolation: Isolation
    ) -> Mapping[TopicPartition, PartitionReader]:
        """Readers of these partitions as they are now, all looked up at once; one that does not exist is left
        out. A reader holds some MiB of what was read: use it up before the next one."""
