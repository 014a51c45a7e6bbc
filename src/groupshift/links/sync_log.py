"""What is read from a link's offset-syncs topic, and how the histories of all partitions grow by it.

The topic may be compacted, or made anew: what was read once is kept (`SyncArchive`), and its log offsets go
on rising. They are those of the topic and a ``shift``, which is 0 until the topic is made anew.

Source: docs/reference/cross-cluster-offsets.md §§3, 8.1; KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from groupshift.domain.partitions import TopicPartition
from groupshift.links.mirrormaker import Tombstone, decode_sync
from groupshift.links.sync_history import Epoch, EpochEnd, Sync, SyncHistory
from groupshift.log.codec import Unreadable

Histories = dict[TopicPartition, SyncHistory]
"""By the source's partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncLogPosition:
    """How far the offset-syncs topic was read: the topic's id (empty: not known), the offset in it to go on
    at, and what is added to its offsets."""

    topic_id: str = ""
    next_offset: int = 0
    shift: int = 0

    @property
    def log_end(self) -> int:
        """The first log offset that was not read, counted as histories count."""
        return self.shift + self.next_offset

    def within(self, topic_id: str, start: int, end: int) -> SyncLogPosition:
        """Return where to go on in the topic as it is now: from its ``start``, if it was made anew. Where
        ids do not tell, a topic that ends before this position was."""
        is_known = bool(self.topic_id and topic_id)
        if self.topic_id != topic_id if is_known else self.next_offset > end:
            return SyncLogPosition(topic_id=topic_id, next_offset=start, shift=self.log_end)
        return replace(self, topic_id=topic_id or self.topic_id, next_offset=max(self.next_offset, start))


class SyncRecord(NamedTuple):
    """A record of the offset-syncs topic: its offset there, its time (epoch ms), key and value."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncsRead:
    """Part of the offset-syncs topic: ``syncs`` of source partitions in the order of the log, None for a
    tombstone with its log offset; where to go on (``position``), and whether more is there (``has_more``).
    ``unreadable`` counts records that are no syncs, ``problem`` says what is wrong with the first of them."""

    syncs: tuple[tuple[TopicPartition, Sync | int], ...]
    position: SyncLogPosition
    has_more: bool = False
    unreadable: int = 0
    problem: str = ""


def decode_syncs(
    records: Iterable[SyncRecord], position: SyncLogPosition, *, end: int, limit: int
) -> SyncsRead:
    """Return what the first ``limit`` records say that are read from ``position`` up to the offset ``end``.

    A record that is no sync is counted and passed over."""
    syncs: list[tuple[TopicPartition, Sync | int]] = []
    count, unreadable, problem, behind = 0, 0, "", max(end, position.next_offset)
    for count, record in enumerate(records, 1):
        at = position.shift + record.offset
        try:
            decoded = decode_sync(record.key, record.value)
        except Unreadable as wrong:
            unreadable += 1
            problem = problem or f"offset {record.offset}: {wrong}"
        else:
            if isinstance(decoded, Tombstone):
                syncs.append((decoded.key, at))
            else:
                upstream, downstream = decoded.upstream, decoded.downstream
                sync = Sync(
                    upstream=upstream, downstream=downstream, log_offset=at, log_time_ms=record.time_ms
                )
                syncs.append((decoded.key, sync))
        if count == limit:
            behind = min(record.offset + 1, end)
            break
    return SyncsRead(
        syncs=tuple(syncs),
        position=replace(position, next_offset=behind),
        has_more=count == limit and behind < end,
        unreadable=unreadable,
        problem=problem,
    )


def extend(histories: Histories, read: SyncsRead) -> None:
    """Append what was read to the histories of its partitions. A tombstone ends an epoch: what was said of
    the partition before counts no more."""
    for at, sync in read.syncs:
        history = histories.get(at)
        if history is None:
            history = histories[at] = SyncHistory()
        if isinstance(sync, Sync):
            history.append(sync)
            continue
        epoch = history.epoch
        histories[at] = SyncHistory(
            replace(
                epoch,
                number=epoch.number + 1,
                cause=EpochEnd.FORGOTTEN,
                first_log_offset=sync + 1,
                source_start=None,
            )
        )


class SyncLog(Protocol):
    """Reads a link's offset-syncs topic, and changes nothing.

    Raises `Rejected` where it does not exist or may not be read, `Transient` when brokers do not answer in
    time, `Broken` for damaged batches."""

    def read(self, position: SyncLogPosition) -> SyncsRead:
        """What follows ``position``, as read_committed shows it: a part of it, or all."""

    def log_end(self, position: SyncLogPosition) -> int:
        """The log end now, counted as histories count: ``sync_log_end`` of `PartitionPair`."""


class SyncArchive(Protocol):
    """Keeps every sync that was ever read.

    Raises `Broken` where what is kept was altered, `Transient` when a disk is full, `Rejected` when nobody
    may write."""

    def position(self) -> SyncLogPosition:
        """Where reading goes on: behind what is kept."""

    def append(self, read: SyncsRead, epochs: Mapping[TopicPartition, Epoch]) -> None:
        """Keep what was read from `position` on, and the current epochs of these partitions; all or nothing.

        Raises `Conflict` when somebody else wrote since this one read."""

    def load(self, partitions: Collection[TopicPartition] | None = None) -> Histories:
        """The histories of these source partitions (None: all), of their current epochs."""
