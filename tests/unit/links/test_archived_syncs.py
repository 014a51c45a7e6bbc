"""The offset syncs of a link with a memory: read on, restarted, and read by two processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, Transient
from groupshift.links.archived_syncs import ArchivedSyncs
from groupshift.links.sync_history import Epoch, EpochEnd, PartitionPair, Sync
from groupshift.links.sync_log import Histories, SyncLogPosition, SyncsRead, extend

ORDERS = TopicPartition("orders", 0)


class MemoryLog:
    """An offset-syncs topic; each call gives ``at_once`` syncs."""

    def __init__(self, at_once: int = 3) -> None:
        self.syncs: list[tuple[int, int]] = []
        self._at_once = at_once

    def read(self, position: SyncLogPosition) -> SyncsRead:
        """See the port."""
        first = position.next_offset
        some = self.syncs[first : first + self._at_once]
        syncs = tuple(
            (ORDERS, Sync(upstream=up, downstream=down, log_offset=first + at, log_time_ms=0))
            for at, (up, down) in enumerate(some)
        )
        behind = replace(position, next_offset=first + len(some))
        return SyncsRead(syncs=syncs, position=behind, has_more=behind.next_offset < len(self.syncs))

    def log_end(self, _position: SyncLogPosition) -> int:
        """See the port."""
        return len(self.syncs)


class MemoryFolder:
    """What archives of one folder share."""

    def __init__(self) -> None:
        self.reads: list[SyncsRead] = []
        self.epochs: dict[TopicPartition, Epoch] = {}
        self.version = 0
        self.full = False


class MemoryArchive:
    """`groupshift.links.sync_log.SyncArchive` of one process."""

    def __init__(self, folder: MemoryFolder) -> None:
        self._folder, self._version = folder, folder.version

    def position(self) -> SyncLogPosition:
        """See the port."""
        self._version = self._folder.version
        return self._folder.reads[-1].position if self._folder.reads else SyncLogPosition()

    def append(self, read: SyncsRead, epochs: Mapping[TopicPartition, Epoch]) -> None:
        """See the port."""
        if self._folder.full:
            raise Transient("the disk is full")
        if self._folder.version != self._version:
            raise Conflict("another process wrote the archive")
        self._folder.reads.append(read)
        self._folder.epochs |= epochs
        self._folder.version += 1
        self._version = self._folder.version

    def load(self, _partitions: Collection[TopicPartition] | None = None) -> Histories:
        """See the port."""
        from groupshift.links.sync_history import SyncHistory

        histories = {at: SyncHistory(epoch) for at, epoch in self._folder.epochs.items()}
        for read in self._folder.reads:
            extend(histories, read)
        return histories


def pair(**changes: object) -> PartitionPair:
    """Both sides, long enough for each sync."""
    usual = {"source_id": "s", "target_id": "t", "source_start": 0, "target_end": 1_000, "sync_log_end": 0}
    return PartitionPair(**{**usual, **changes})  # type: ignore[arg-type]


def conservative(syncs: ArchivedSyncs, committed: int) -> int | None:
    """The offset by the history of the one partition."""
    history = syncs.history(ORDERS)
    offset = history.conservative(committed) if history else None
    return offset.offset if offset else None


def test_a_restarted_process_goes_on_where_the_archive_ends() -> None:
    """Also when the topic has lost what was read."""
    log, folder = MemoryLog(), MemoryFolder()
    log.syncs = [(10 * at, 10 * at) for at in range(8)]
    first = ArchivedSyncs(log, MemoryArchive(folder))
    first.read()
    assert len(folder.reads) == 3
    log.syncs[:7] = [(0, 900)] * 7  # compacted: whoever read it again would get other offsets
    log.syncs.append((80, 80))
    second = ArchivedSyncs(log, MemoryArchive(folder))
    second.read()
    assert [conservative(second, c) for c in (15, 79, 80)] == [11, 71, 80]
    assert [(sync.upstream, sync.downstream) for sync in second.all_of(ORDERS)][-2:] == [(70, 70), (80, 80)]
    assert [sync.upstream for sync in first.all_of(ORDERS)] == [10 * at for at in range(8)]


def test_a_process_that_finds_the_archive_written_by_another_takes_it_over() -> None:
    """And both know all syncs."""
    log, folder = MemoryLog(), MemoryFolder()
    one, other = (ArchivedSyncs(log, MemoryArchive(folder)) for _ in range(2))
    log.syncs = [(0, 0), (10, 10)]
    one.read()
    other.read()
    log.syncs.append((20, 20))
    other.read()
    one.read()
    for each in (one, other):
        assert conservative(each, 20) == 20
        assert len(each.all_of(ORDERS)) == 3
    assert sum(len(read.syncs) for read in folder.reads) == 3


def test_syncs_that_could_not_be_kept_are_read_again() -> None:
    """They do not count before they are kept."""
    log, folder = MemoryLog(), MemoryFolder()
    log.syncs, folder.full = [(0, 0), (10, 10)], True
    syncs = ArchivedSyncs(log, MemoryArchive(folder))
    with pytest.raises(Transient, match="full"):
        syncs.read()
    assert conservative(syncs, 10) is None
    folder.full = False
    syncs.read()
    assert conservative(syncs, 10) == 10


def test_an_epoch_that_ended_is_over_after_a_restart_too() -> None:
    """The topic ids that were met are remembered, and the end is kept at once."""
    log, folder = MemoryLog(), MemoryFolder()
    log.syncs = [(0, 0), (10, 10)]
    first = ArchivedSyncs(log, MemoryArchive(folder))
    first.read()
    assert first.observe(ORDERS, pair()) is None
    first.close()
    second = ArchivedSyncs(log, MemoryArchive(folder))
    assert second.observe(ORDERS, pair(target_id="t2", sync_log_end=2)) is EpochEnd.TARGET_TOPIC_ID
    third = ArchivedSyncs(log, MemoryArchive(folder))
    assert conservative(third, 10) is None
    log.syncs.append((20, 5))
    third.read()
    assert conservative(third, 25) == 6


def test_the_log_start_before_the_first_sync_is_remembered() -> None:
    """By it, a commit below the first sync has nothing that was replicated before."""
    log, folder = MemoryLog(), MemoryFolder()
    first = ArchivedSyncs(log, MemoryArchive(folder))
    first.observe(ORDERS, pair(source_start=40))
    first.close()
    log.syncs = [(40, 0)]
    second = ArchivedSyncs(log, MemoryArchive(folder))
    second.read()
    history = second.history(ORDERS)
    assert history is not None
    assert history.before_first_sync(7, target_start=3) == 3
