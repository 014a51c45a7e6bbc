"""Hands records to the application: the one place where a delivery happens, and where it is cut off.

A record is delivered when `Delivery.take` or `Delivery.next` returns it. Under the same lock, and last,
the lease is checked; `cut_off` takes that lock too and throws out what was not handed over yet, so after
it has returned no record of those partitions is handed out any more (F1, F5).

What a position is, and who still works on which records, is worked out
when somebody asks: a record costs nothing on its way (benchmarks/consume.py).

One buffer serves all readers, or one each stream. Records come and go by the `Chunk`: a list of records, how
far it was handed out, and where it leads. `Given` holds the records that readers may still work on, until
they come back. `OpenPartitions` says what to commit of a partition. The lock of `Delivery` guards everything.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from groupshift.consumers.callbacks import Notice
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import NEVER, Lease
from groupshift.ports.consumer import Record

PARENT = -1
"""The handle that reads from all streams; a stream's handle is its number."""
_CAPACITY = 20_000

Fetching = Callable[[Mapping[TopicPartition, int], Callable[[], None]], None]
"""`groupshift.ports.consumer.Fetch.add`; it returns at once."""


class Delivery:
    """Buffers between the fetcher and the readers: one for all, or one for each stream once a stream has
    a reader of its own.

    ``store_on_delivery`` makes a delivered record's successor the position to commit, as the old
    consumer does (zookeeper-coordination.md §6.6); otherwise only `store` does. ``lease`` is the one
    now, ``closed`` True once `close` was called.
    """

    def __init__(self, *, store_on_delivery: bool) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.lease = Lease()
        self._until = NEVER
        self._partitions = OpenPartitions(store_on_delivery=store_on_delivery)
        self._buffers = Buffers(self._partitions)
        self._front: Chunk | None = None
        self._notices: deque[Record | Notice] = deque()
        self._given = Given()
        self.closed = False

    # -- lease -----------------------------------------------------------------------------------

    def change_lease(self, change: Callable[[Lease], Lease]) -> None:
        """Replace the lease; takes effect for the very next delivery."""
        with self._lock:
            self.lease = change(self.lease)
            self._until = self.lease.until
            self._changed.notify_all()

    # -- partitions ------------------------------------------------------------------------------

    def open(self, starts: Mapping[TopicPartition, tuple[int, int]]) -> Callable[[], None]:
        """Partition → (stream, first offset to deliver). What is offered for them is accepted once the
        result was called: by the fetcher, when it has left its former position."""
        entries = [Open(each, stream, start) for each, (stream, start) in starts.items()]
        with self._lock:
            return self._admit(entries)

    def _admit(self, entries: Sequence[Open]) -> Callable[[], None]:
        self._partitions.admit(entries)

        def arm() -> None:
            with self._lock:
                self._partitions.arm(entries)

        return arm

    def cut_off(self, partitions: Collection[TopicPartition]) -> None:
        """End the delivery of ``partitions``: no record of them is handed out after this."""
        with self._lock:
            self._cut_off(partitions)

    def _cut_off(self, partitions: Collection[TopicPartition]) -> None:
        delivering = self._partitions.delivering(partitions)
        if delivering:
            self._throw_out(delivering)
            self._partitions.close(delivering)

    def _throw_out(self, partitions: Collection[TopicPartition]) -> None:
        """Note how far delivery came, then drop what was fetched of them beyond that."""
        self._buffers.settle()
        self._partitions.bar(partitions)
        self._buffers.drop(partitions)
        self._look_in_front()

    def busy(self, partitions: Collection[TopicPartition]) -> bool:
        """True while a reader that was given records of ``partitions`` has not come back for more, which
        says that it is done with them."""
        with self._lock:
            return self._given.concerns(partitions)

    def end(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Cut off and forget ``partitions``; the positions to commit."""
        with self._lock:
            self._cut_off(partitions)
            return self._partitions.forget(partitions)

    def parted(self, partitions: Collection[TopicPartition]) -> Callable[[], None]:
        """To be called by the fetcher when it has left ``partitions``, which were ended: what it offers from
        then on needs no second look."""

        def clear() -> None:
            with self._lock:
                self._partitions.unbar(partitions)

        return clear

    def positions(self) -> dict[TopicPartition, int]:
        """What to commit for every open partition."""
        with self._lock:
            self._buffers.settle()
            return self._partitions.stored()

    def next_offsets(self) -> dict[TopicPartition, int]:
        """The next offset each open partition will deliver."""
        with self._lock:
            self._buffers.settle()
            return self._partitions.next_offsets()

    def store(self, offsets: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Set what to commit; returns partitions that are not open."""
        with self._lock:
            self._buffers.settle()
            return self._partitions.store(offsets)

    def move(self, partition: TopicPartition, offset: int) -> Callable[[], None]:
        """Deliver an open partition from ``offset`` next: what was fetched is dropped; as `open`."""
        with self._lock:
            return self._admit([self._moved(self._partitions[partition], offset)])

    def _moved(self, former: Open, offset: int) -> Open:
        self._cut_off([former.partition])
        return former.moved(offset)

    def pause(
        self, partitions: Iterable[TopicPartition], hold: Callable[[list[TopicPartition]], None]
    ) -> None:
        """Deliver nothing of those that are open: ``hold`` tells the fetcher, before a hand-over can."""
        with self._lock:
            changed = self._partitions.set_paused(partitions, paused=True)
            if changed:
                self._throw_out([each.partition for each in changed])
                hold([each.partition for each in changed])

    def resume(self, partitions: Iterable[TopicPartition], fetch: Fetching) -> None:
        """Go on at the position: ``fetch`` is asked to fetch anew from there, before a hand-over can come."""
        with self._lock:
            changed = self._partitions.set_paused(partitions, paused=False)
            entries = [self._moved(each, each.position) for each in changed]
            if entries:
                fetch({each.partition: each.position for each in entries}, self._admit(entries))

    # -- records ---------------------------------------------------------------------------------

    def offer(self, records: list[Record], ends: Mapping[TopicPartition, int] | None = None) -> None:
        """Buffer what was fetched, in order. ``ends`` are the positions after it, where the fetcher knows
        them; the sequence is not touched again by the caller."""
        with self._lock:
            self._buffers.put(records, ends)
            self._look_in_front()
            self._changed.notify_all()

    def _look_in_front(self) -> None:
        """The chunk from which `next` takes: only while nothing is to be told before."""
        self._front = None if self._notices or self.closed else self._buffers.front()

    @property
    def full(self) -> bool:
        """True when nothing more should be fetched for now."""
        return self.buffered() >= _CAPACITY

    def buffered(self, stream: int | None = None) -> int:
        """Records that were fetched and not handed out yet: of a stream, or of all."""
        with self._lock:
            return self._buffers.size(stream)

    def notify(self, notice: Record | Notice) -> None:
        """Hand an error of the client, or a call to make, to whoever reads next."""
        with self._lock:
            self._notices.append(notice)
            self._front = None
            self._changed.notify_all()

    def next(self) -> Record | None:
        """`take` of one record for the parent, without waiting; None also when only `take` can tell."""
        with self._lock:
            chunk = self._front
            if chunk is None or monotonic() >= self._until:
                return None
            self._given.polled = chunk
            if self._given.spans:
                self._given.spans.pop(PARENT, None)
            record = chunk.records[chunk.index]
            chunk.index += 1
            if chunk.index == chunk.size:
                self._buffers.finish_front()
                self._look_in_front()
            return record

    def take(self, stream: int | None, limit: int, timeout: float) -> list[Any]:
        """Up to ``limit`` records of one stream (None: of all); waits until there is one.

        ``timeout`` in seconds, negative for ever. Raises `RuntimeError` when closed."""
        deadline = monotonic() + timeout if timeout >= 0 else math.inf
        with self._lock:
            self._given.back(PARENT if stream is None else stream)
            if stream is not None and not self._buffers.parted:
                self._buffers.part()
                self._look_in_front()
            while True:
                if self.closed:
                    raise RuntimeError("Consumer closed")
                taken = self._pick(stream, limit)
                left = deadline - monotonic()
                if taken or left <= 0:
                    return taken
                self._changed.wait(left if left < math.inf else None)

    def wait(self, timeout: float) -> None:
        """Until something has changed for readers, at the longest ``timeout`` seconds."""
        with self._lock:
            self._changed.wait(timeout)

    def done(self, handle: int = PARENT) -> None:
        """The reader (a stream number; by default the parent) has dealt with all it was given."""
        with self._lock:
            self._given.back(handle)

    def _pick(self, stream: int | None, limit: int) -> list[Any]:
        if self._notices:
            notice = self._notices.popleft()
            self._look_in_front()
            return [notice]
        if monotonic() >= self._until:
            return []
        taken, given = self._buffers.take(stream, limit)
        if given:
            self._look_in_front()
            self._given.spans[PARENT if stream is None else stream] = given
        return taken

    def close(self) -> None:
        """Wake every reader; each raises from now on."""
        with self._lock:
            self.closed = True
            self._front = None
            self._changed.notify_all()


class Buffers:
    """Chunks by reader: all in the parent's queue until `part` gives every stream its own."""

    def __init__(self, partitions: OpenPartitions) -> None:
        self._partitions = partitions
        self._queues: dict[int, deque[Chunk]] = {PARENT: deque()}
        self.parted = False

    def part(self) -> None:
        """From now on every stream has a buffer of its own; the parent still reads from all."""
        self.settle()
        self.parted = True
        chunks, self._queues[PARENT] = self._queues[PARENT], deque()
        for chunk in chunks:
            self._route(chunk.rest())

    def put(self, records: list[Record], ends: Mapping[TopicPartition, int] | None) -> None:
        """Keep what was fetched, in order: whole where ``ends`` tell that it is in sequence, otherwise record
        by record what its partition accepts."""
        whole = None if self.parted or ends is None or not records else self._partitions.fetched(ends)
        if whole is None:
            self._route([each for each in records if self._partitions.accept(each)])
        else:
            self._queues[PARENT].append(Chunk(records, whole))

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
            self._queues.setdefault(stream, deque()).append(Chunk(taken, known))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Throw out what was not handed out of these partitions."""
        for stream, chunks in self._queues.items():
            for chunk in chunks:
                chunk.drop(partitions)
            self._queues[stream] = deque(chunk for chunk in chunks if chunk.index < chunk.size)

    def settle(self) -> None:
        """Work out the positions within the chunks that were begun."""
        for queue in self._queues.values():
            for chunk in queue:
                self._partitions.advance_to(chunk.progress())

    def front(self) -> Chunk | None:
        """The chunk from which a record alone may be taken: only while there is one buffer for all."""
        chunks = self._queues[PARENT]
        return chunks[0] if chunks and not self.parted else None

    def size(self, stream: int | None = None) -> int:
        """Records that were not handed out yet: of a stream, or of all."""
        queues = self._queues.values() if stream is None else [self._queues.get(stream, ())]
        return sum(map(_size, queues))

    def take(self, stream: int | None, limit: int) -> tuple[list[Record], list[Span]]:
        """Up to ``limit`` records of a stream (None: of all, the fullest first), and where they were."""
        taken: list[list[Record]] = []
        given: list[Span] = []
        numbers = sorted(self._queues) if stream is None else [stream]
        queues = [self._queues.setdefault(each, deque()) for each in numbers]
        for queue in sorted(queues, key=_size, reverse=True):
            while queue and limit > 0:
                chunk = queue[0]
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

    def _finish(self, queue: deque[Chunk]) -> None:
        for entry, at in queue.popleft().ends:
            self._partitions.advance(entry, at)


def _size(queue: Iterable[Chunk]) -> int:
    return sum(each.size - each.index for each in queue)


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

    def fetched(self, ends: Mapping[TopicPartition, int]) -> list[tuple[Open, int]] | None:
        """Note up to where was fetched, when records that end there can be taken as they are: entry and
        position. None to look at each."""
        if self._barred or not ends.keys() <= self._at.keys():
            return None
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
