"""The partitions that may be delivered: how far each was fetched and handed out, and what to commit of it.

Guarded by the lock of `groupshift.consumers.delivery.Delivery`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from groupshift.consumers.chunks import Open, where
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import Record


class OpenPartitions:
    """Entries by partition. While one is *barred*, each record that is offered is looked at: its fetcher may
    still offer what belongs to an earlier position."""

    def __init__(self, *, store_on_delivery: bool) -> None:
        self._store_on_delivery = store_on_delivery
        self._at: dict[TopicPartition, Open] = {}
        self._barred: set[TopicPartition] = set()

    def __getitem__(self, partition: TopicPartition) -> Open:
        return self._at[partition]

    # -- coming and going ------------------------------------------------------------------------

    def admit(self, entries: Sequence[Open]) -> None:
        """Known from now on, and barred until armed."""
        self._at.update({each.partition: each for each in entries})
        self._barred.update(each.partition for each in entries)

    def arm(self, entries: Sequence[Open]) -> None:
        """What is offered for these entries from now on is theirs."""
        for each in entries:
            each.armed = True
            if self._at.get(each.partition) is each and not each.closed and not each.paused:
                self._barred.discard(each.partition)

    def delivering(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those whose delivery has not ended."""
        return {each for each in partitions if each in self._at and not self._at[each].closed}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing of them is accepted any more."""
        for each in partitions:
            self._at[each].closed = True

    def forget(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Take them out; what to commit of them."""
        ended = [self._at.pop(each) for each in partitions if each in self._at]
        return {each.partition: each.stored for each in ended if each.stored is not None}

    def bar(self, partitions: Iterable[TopicPartition]) -> None:
        """Look at each record that is offered, for these."""
        self._barred.update(partitions)

    def unbar(self, partitions: Iterable[TopicPartition]) -> None:
        """The fetcher has left those that were forgotten."""
        self._barred.difference_update(each for each in partitions if each not in self._at)

    def set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> list[Open]:
        """Those for which that is a change."""
        known = [self._at[each] for each in partitions if each in self._at]
        changed = [each for each in known if each.paused is not paused and not each.closed]
        for each in changed:
            each.paused = paused
        return changed

    # -- what is offered -------------------------------------------------------------------------

    def take_whole(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """The same positions when records that end there can be taken as they are; None to look at each."""
        return None if self._barred or not ends.keys() <= self._at.keys() else ends

    def fetched(self, ends: Mapping[TopicPartition, int]) -> list[tuple[Open, int]]:
        """Note up to where was fetched; entry and position."""
        known = [(self._at[each], at) for each, at in ends.items()]
        for entry, at in known:
            entry.fetched = at
        return known

    def accept(self, record: Record) -> bool:
        """Whether this record is the next one to be taken of its partition; if so it is noted as fetched."""
        offset = record.offset()
        if record.topic() is None or record.partition() is None or offset is None:
            return False
        entry = self._at.get(where(record))
        if entry is None or entry.closed or entry.paused or not entry.armed or offset < entry.fetched:
            return False
        entry.fetched = offset + 1
        return True

    # -- positions -------------------------------------------------------------------------------

    def advance(self, entry: Open, at: int) -> None:
        """Records before ``at`` were handed out."""
        if entry.closed or at <= entry.position:
            return
        entry.position = at
        if self._store_on_delivery:
            entry.stored = at

    def advance_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """`advance` of those that are known."""
        for partition, at in positions.items():
            entry = self._at.get(partition)
            if entry is not None:
                self.advance(entry, at)

    def stored(self) -> dict[TopicPartition, int]:
        """What to commit of each."""
        return {each.partition: each.stored for each in self._at.values() if each.stored is not None}

    def store(self, offsets: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Set what to commit; those that are not known."""
        for each, offset in offsets.items():
            if each in self._at:
                self._at[each].stored = offset
        return [each for each in offsets if each not in self._at]

    def next_offsets(self) -> dict[TopicPartition, int]:
        """What each delivers next."""
        return {each.partition: each.position for each in self._at.values() if not each.closed}
