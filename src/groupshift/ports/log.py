"""The log of the offsets topic and of other topics: reads, verification of snapshots, tombstones, hashes.

* `LogReader` and `OffsetsLog`: the offsets topic, at the brokers or from a copy.
* `CopiedLogs`: the copy in a folder.
* `LogVerification`: compares a snapshot of all groups with the bytes of the offsets topic.
* `LogErasing`: tombstones for records that no coordinator would ever delete.
* `CommitHashes`: keeps the hashes of live commits beside the snapshots of a run.
* `RecordLog`: asks the logs of topics whether they hold records at certain offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from groupshift.domain.log_gaps import Gap, GapRead
from groupshift.log import LogRecord
from groupshift.log.commit_hashes import LiveCommit
from groupshift.log.decode import Position
from groupshift.ports.cluster import Closing
from groupshift.ports.spark_jobs import Compared

LogProgress = Callable[[int, int], None]
"""Called with how much of the log has been read, and of how much, in offsets."""


class OffsetsLog(Protocol):
    """Reads ``__consumer_offsets`` itself, at the brokers or from a copy, and changes nothing.

    Raises `Transient` when brokers do not answer in time, `Rejected` when the topic is not there or may not
    be read, `Broken` for damage."""

    def position(self) -> Position:
        """The end of every partition (that is there) now: behind what is replicated, open transactions
        included."""

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, progress: LogProgress | None = None
    ) -> Iterator[LogRecord]:
        """The records below ``up_to`` of these partitions (None: all), each partition in log order, without
        markers and without records of transactions that were aborted or are open."""


class LogReader(OffsetsLog, Closing, Protocol):
    """The offsets topic at its brokers, past the coordinators."""

    def retention_ms(self) -> int | None:
        """``offsets.retention.minutes`` of the brokers in ms; None when they do not tell."""


class CopiedLogs(Protocol):
    """Finds copies of the offsets topic's files."""

    def __call__(self, folder: str) -> OffsetsLog:
        """Return the log in a folder or below a URL. Raises `Rejected` for a folder that is none."""


class LogVerification(Protocol):
    """Reads the log as far as it goes now, and leaves every difference in a folder of its own."""

    def __call__(self, snapshot: Path, digest: str, count: int, output: Path) -> Compared:
        """Whether each offset of ``snapshot`` (a folder, whose manifest has the SHA-256 ``digest``) lies live
        where ``count`` partitions put its group, with the same epoch and metadata, and no other does. Records
        elsewhere do not count.

        ``output`` is made, or made anew. Raises `Broken` for a snapshot that was altered, `Transient` when
        brokers do not answer or a disk is full."""


class LogErasing(Protocol):
    """Writes into the offsets topic itself; coordinators see it when they load the partition the next time.

    Raises `Transient` when brokers do not take it in time (what was written stays written), `Rejected` when
    they refuse it."""

    def erase(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Write a tombstone for each key into its partition, and wait until all replicas have it. Safe to
        repeat."""


class CommitHashes(Protocol):
    """Writes what the log held at one moment, and reads it again."""

    def write(self, path: Path, commits: Sequence[LiveCommit]) -> str:
        """Put the file there whole; the SHA-256 of its bytes, in hex.

        Raises `Rejected` when it is there already or nobody may write, `Transient` when the disk is full."""

    def read(self, path: Path, sha256: str) -> tuple[LiveCommit, ...]:
        """What `write` wrote. Raises `Broken` when the file is gone or has other bytes than these."""


class RecordLog(Protocol):
    """Reads only the ranges that are asked for, as a consumer of each range's isolation level would be given
    them, and changes nothing: no group is joined, nothing is committed."""

    def read(self, gaps: Sequence[Gap]) -> Sequence[GapRead]:
        """What the log says of each, in their order. What cannot be read is said, never raised: a gap without
        an answer is not proven."""


class NobodyAsksTheLog:
    """There is no log to ask: whatever was passed over counts as it did before."""

    def read(self, _gaps: Sequence[Gap]) -> Sequence[GapRead]:
        """Nothing is known of any."""
        return ()
