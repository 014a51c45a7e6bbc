"""Records between fetch and application: chunks, the buffers, and how far each partition is delivered.

One buffer serves all readers, or one each stream. Records come and go by the `Chunk`: a list of records, how
far it was handed out, and where it leads. How far is worked out when somebody asks. `Given` holds the records
that readers may still work on, until they come back. `OpenPartitions` says what to commit of a partition.

The lock of `groupshift.consumers.delivery.Delivery` guards everything here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import Record

PARENT = -1
"""The handle that reads from all streams; a stream's handle is its number."""


@dataclass(slots=True)
class _Queue:
    """Chunks for one reader, and what is left in them."""

    chunks: deque[Chunk] = field(default_factory=deque)

    def size(self) -> int:
        """Records not handed out yet."""
        return sum(each.size - each.index for each in self.chunks)


class Buffers:
    """Chunks by reader: all in the parent's queue until `part` gives every stream its own."""

    def __init__(self, partitions: OpenPartitions) -> None:
        self._partitions = partitions
        self._queues: dict[int, _Queue] = {PARENT: _Queue()}
        self.parted = False

    def part(self) -> None:
        """From now on every stream has a buffer of its own; the parent still reads from all."""
        self.settle()
        self.parted = True
        chunks, self._queues[PARENT] = self._queues[PARENT].chunks, _Queue()
        for chunk in chunks:
            self._route(chunk.rest())

    def put(self, records: list[Record], ends: Mapping[TopicPartition, int] | None) -> None:
        """Keep what was fetched, in order: whole where ``ends`` tell that it is in sequence, otherwise record
        by record what its partition accepts."""
        whole = None if self.parted or ends is None else self._partitions.take_whole(ends)
        if whole is None:
            self._route([each for each in records if self._partitions.accept(each)])
        elif records:
            self._queues[PARENT].chunks.append(Chunk(records, self._partitions.fetched(whole)))

    def _route(self, records: Iterable[Record]) -> None:
        """Into the buffers of the streams, or into the one for all."""
        parts: dict[int, list[Record]] = {}
        ends: dict[int, dict[TopicPartition, int]] = {}
        for each in records:
            entry = self._partitions[where(each)]
            stream = entry.stream if self.parted else PARENT
            parts.setdefault(stream, []).append(each)
            ends.setdefault(stream, {})[entry.partition] = (each.offset() or 0) + 1
        for stream, taken in parts.items():
            known = [(self._partitions[each], at) for each, at in ends[stream].items()]
            self._queues.setdefault(stream, _Queue()).chunks.append(Chunk(taken, known))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Throw out what was not handed out of these partitions."""
        for queue in self._queues.values():
            for chunk in queue.chunks:
                chunk.drop(partitions)
            queue.chunks = deque(chunk for chunk in queue.chunks if chunk.left)

    def settle(self) -> None:
        """Work out the positions within the chunks that were begun."""
        for queue in self._queues.values():
            for chunk in queue.chunks:
                self._partitions.advance_to(chunk.progress())

    def front(self) -> Chunk | None:
        """The chunk from which a record alone may be taken: only while there is one buffer for all."""
        chunks = self._queues[PARENT].chunks
        return chunks[0] if chunks and not self.parted else None

    def size(self, stream: int | None = None) -> int:
        """Records that were not handed out yet: of a stream, or of all."""
        queues = self._queues.values() if stream is None else [self._queues.get(stream, _Queue())]
        return sum(each.size() for each in queues)

    def take(self, stream: int | None, limit: int) -> tuple[list[Record], list[Span]]:
        """Up to ``limit`` records of a stream (None: of all, the fullest first), and where they were."""
        taken: list[list[Record]] = []
        given: list[Span] = []
        numbers = sorted(self._queues) if stream is None else [stream]
        for queue in sorted((self._queues.setdefault(each, _Queue()) for each in numbers), key=_fullest):
            while queue.chunks and limit > 0:
                chunk = queue.chunks[0]
                start, chunk.index = chunk.index, min(chunk.index + limit, chunk.size)
                limit -= chunk.index - start
                taken.append(chunk.records[start : chunk.index])
                given.append((chunk, start, chunk.index))
                if chunk.index == chunk.size:
                    self._finish(queue)
        return (taken[0] if len(taken) == 1 else [each for part in taken for each in part]), given

    def finish_front(self) -> None:
        """The chunk of `front` has been handed out to its end."""
        self._finish(self._queues[PARENT])

    def _finish(self, queue: _Queue) -> None:
        for entry, at in queue.chunks.popleft().ends:
            self._partitions.advance(entry, at)


def _fullest(queue: _Queue) -> int:
    return -queue.size()


@dataclass(slots=True, eq=False)
class Open:
    """A partition that may be delivered: ``position`` is next to hand out, ``stored`` what to commit.

    Records before ``fetched`` are not accepted any more; None at all until ``armed``."""

    partition: TopicPartition
    stream: int
    position: int
    fetched: int = -1
    stored: int | None = None
    armed: bool = False
    paused: bool = False
    closed: bool = False

    def __post_init__(self) -> None:
        self.fetched = max(self.fetched, self.position)
        self.stored = self.position if self.stored is None else self.stored

    def moved(self, offset: int) -> Open:
        """The same partition, delivered from ``offset`` next: an entry of its own, which is not armed yet."""
        stored = offset if self.stored in (None, self.position) else self.stored
        return Open(self.partition, self.stream, offset, stored=stored, paused=self.paused)


@dataclass(slots=True, eq=False)
class Chunk:
    """Records up to ``index`` were handed out, and of these those up to ``settled`` accounted for.

    ``ends`` are the positions of its partitions after all of it, ``size`` the number of records."""

    records: list[Record]
    ends: list[tuple[Open, int]]
    index: int = 0
    settled: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        self.size = len(self.records)

    @property
    def left(self) -> bool:
        """Whether there is something to hand out."""
        return self.index < self.size

    def rest(self) -> list[Record]:
        """What was not handed out."""
        return self.records[self.index :]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what was not handed out of these partitions."""
        kept = [each for each in self.rest() if where(each) not in partitions]
        self.records = [*self.records[: self.index], *kept]
        self.size = len(self.records)
        self.ends = [(entry, at) for entry, at in self.ends if entry.partition not in partitions]

    def progress(self) -> dict[TopicPartition, int]:
        """Partition → next offset, of what was handed out since this was last asked."""
        found = {where(each): (each.offset() or 0) + 1 for each in self.records[self.settled : self.index]}
        self.settled = self.index
        return found

    def concerns(self, partitions: Collection[TopicPartition], start: int, end: int) -> bool:
        """Whether one of the records from ``start`` to before ``end`` is of these partitions."""
        return any(where(each) in partitions for each in self.records[start:end])


def where(record: Record) -> TopicPartition:
    """The partition of a record that was fetched."""
    return TopicPartition(str(record.topic()), record.partition() or 0)


Span = tuple[Chunk, int, int]
"""Records of a chunk, from the first index to before the second."""


class Given:
    """``spans`` by handle; ``polled`` is the chunk from which the parent was given one record alone."""

    def __init__(self) -> None:
        self.spans: dict[int, list[Span]] = {}
        self.polled: Chunk | None = None

    def back(self, handle: int) -> None:
        """The reader has come back: it has dealt with all it was given."""
        self.spans.pop(handle, None)
        if handle == PARENT:
            self.polled = None

    def concerns(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether a reader may be working on a record of these partitions."""
        polled = self.polled
        if polled is not None and polled.concerns(partitions, polled.index - 1, polled.index):
            return True
        return any(
            chunk.concerns(partitions, start, end)
            for spans in self.spans.values()
            for chunk, start, end in spans
        )


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
