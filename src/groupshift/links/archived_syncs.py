"""The offset syncs of a link with a memory: the topic is read on from where the archive ends.

Any number of processes may read: one that finds the archive written by another takes its state over.

Decided here:

* An epoch that ends is kept at once. The topic ids of an epoch that goes on are kept with the next syncs, or
  at the end: a process that is killed before that sees them again.
* What MirrorMaker would write is modelled on the current epoch as the archive has it, and on what is read
  since: an older epoch is nothing that it could still have in its store after a restart.

Source: docs/reference/cross-cluster-offsets.md §8.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, GroupshiftError
from groupshift.links.sync_history import Epoch, EpochEnd, PartitionPair, Sync, SyncHistory
from groupshift.links.sync_log import SyncArchive, SyncLog, SyncsRead, extend

_READERS = 5
"""So often another process may have written the archive meanwhile."""


class ArchivedSyncs:
    """`groupshift.links.ports.LinkSyncs` over a topic and an archive; for one thread.

    Raises as `SyncLog` and `SyncArchive`."""

    def __init__(self, log: SyncLog, archive: SyncArchive) -> None:
        self._log, self._archive = log, archive
        self._changed: dict[TopicPartition, Epoch] = {}
        """Epochs that are not kept yet."""
        self._load()

    def _load(self) -> None:
        self._changed.clear()
        self._histories = self._archive.load()
        self._position = self._archive.position()
        self._all = {at: list(history) for at, history in self._histories.items()}

    def read(self) -> None:
        """See the port."""
        conflicts = 0
        while True:
            read = self._log.read(self._position)
            try:
                if read.syncs or read.position != self._position:
                    self._take(read)
            except Conflict:
                conflicts += 1
                if conflicts == _READERS:
                    raise
            else:
                if not read.has_more:
                    return

    def _take(self, read: SyncsRead) -> None:
        extend(self._histories, read)
        epochs = {at: self._histories[at].epoch for at, _ in read.syncs}
        try:
            self._archive.append(read, {**self._changed, **epochs})
        except GroupshiftError:
            self._load()  # what is not kept does not count
            raise
        self._changed.clear()
        self._position = read.position
        for at, sync in read.syncs:
            if isinstance(sync, Sync):
                self._all.setdefault(at, []).append(sync)

    def log_end(self) -> int:
        """See the port."""
        return self._log.log_end(self._position)

    def history(self, partition: TopicPartition) -> SyncHistory | None:
        """See the port."""
        return self._histories.get(partition)

    def observe(self, partition: TopicPartition, pair: PartitionPair) -> EpochEnd | None:
        """See the port. A partition without a sync has an epoch, too: the log start before its first sync."""
        history = self._histories.setdefault(partition, SyncHistory())
        before = history.epoch
        end = history.observe(pair)
        if history.epoch != before:
            self._changed[partition] = history.epoch
        if end:
            self._keep_epochs()
        return end

    def _keep_epochs(self) -> None:
        if self._changed:
            self._archive.append(SyncsRead(syncs=(), position=self._position), self._changed)
            self._changed.clear()

    def all_of(self, partition: TopicPartition) -> Sequence[Sync]:
        """See the port."""
        return self._all.get(partition, ())

    def close(self) -> None:
        """Keep the epochs that changed, unless another process wrote the archive since: it knows them."""
        try:
            self._keep_epochs()
        except Conflict:
            self._changed.clear()
