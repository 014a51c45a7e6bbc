"""Hands records to the application: the one place where a delivery happens, and where it is cut off.

A record is delivered when `Delivery.take` or `Delivery.next` returns it. Under the same lock, and last,
the lease is checked; `cut_off` takes that lock too and throws out what was not handed over yet, so after
it has returned no record of those partitions is handed out any more (F1, F5).

What a position is, and who still works on which records, is worked out
when somebody asks: a record costs nothing on its way (benchmarks/consume.py).

One buffer serves all readers, or one each stream. Records come and go by the `Chunk`: a list of records, how
far it was handed out, and where it leads. A `Cursor` says of a partition what comes next and what to
commit.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from groupshift.consumers.callbacks import Notice
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import NEVER, Lease
from groupshift.ports.consumer import Record

WHOLE_CONSUMER = -1
"""The handle that reads from all streams; a stream's handle is its number."""
_CAPACITY = 20_000

Fetching = Callable[[Mapping[TopicPartition, int], Callable[[], None]], None]
"""`groupshift.ports.consumer.Fetch.add`; it returns at once."""


@dataclass(slots=True, eq=False)
class Cursor:
    """A partition that may be delivered: ``position`` is next to hand out, ``stored`` what to commit.

    Records before ``fetched`` are not accepted any more; None at all until ``armed``."""

    partition: TopicPartition
    stream: int
    position: int
    fetched: int
    stored: int
    armed: bool = False
    paused: bool = False
    closed: bool = False


@dataclass(slots=True, eq=False)
class Chunk:
    """Records up to ``index`` were handed out, and of these those up to ``settled`` accounted for.

    ``ends`` are the positions of its partitions after all of it, ``size`` the number of records."""

    records: list[Record]
    ends: list[tuple[Cursor, int]]
    index: int = 0
    settled: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        self.size = len(self.records)


Span = tuple[Chunk, int, int]
"""Records of a chunk, from the first index to before the second."""


def where(record: Record) -> TopicPartition:
    """The partition of a record that was fetched."""
    return TopicPartition(str(record.topic()), record.partition() or 0)


def _size(queue: Iterable[Chunk]) -> int:
    return sum(each.size - each.index for each in queue)


class Delivery:
    """Buffers between the fetcher and the readers: one for all, or one for each stream once a stream has
    a reader of its own.

    ``store_on_delivery`` makes a delivered record's successor the position to commit, as the old
    consumer does (zookeeper-coordination.md §6.6); otherwise only `store` does. ``lease`` is the one
    now, ``closed`` True once `close` was called. Every method may be called from any thread.
    """

    def __init__(self, *, store_on_delivery: bool) -> None:
        self._store_on_delivery = store_on_delivery
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.lease = Lease()
        self._until = NEVER
        self._open: dict[TopicPartition, Cursor] = {}
        # Of these each record that is offered is looked at: it may belong to an earlier position.
        self._barred: set[TopicPartition] = set()
        # All chunks are in the parent's queue, until a stream has a reader of its own.
        self._queues: dict[int, deque[Chunk]] = {WHOLE_CONSUMER: deque()}
        self._by_stream = False
        self._front: Chunk | None = None
        self._notices: deque[Record | Notice] = deque()
        # What readers may still work on, by handle; the parent may have been given one record alone.
        self._delivered: dict[int, list[Span]] = {}
        self._polled: Chunk | None = None
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
        with self._lock:
            return self._admit([Cursor(each, stream, at, at, at) for each, (stream, at) in starts.items()])

    def _admit(self, entries: Sequence[Cursor]) -> Callable[[], None]:
        self._open.update({each.partition: each for each in entries})
        self._barred.update(each.partition for each in entries)

        def arm() -> None:
            with self._lock:
                for each in entries:
                    each.armed = True
                    if self._open.get(each.partition) is each and not each.closed and not each.paused:
                        self._barred.discard(each.partition)

        return arm

    def cut_off(self, partitions: Collection[TopicPartition]) -> None:
        """End the delivery of ``partitions``: no record of them is handed out after this."""
        with self._lock:
            self._cut_off(partitions)

    def _cut_off(self, partitions: Collection[TopicPartition]) -> None:
        ending = {each for each in partitions if each in self._open and not self._open[each].closed}
        if ending:
            self._throw_out(ending)
            for each in ending:
                self._open[each].closed = True

    def _throw_out(self, partitions: Collection[TopicPartition]) -> None:
        """Note how far delivery came, then drop what was fetched of them beyond that."""
        self._settle()
        self._barred.update(partitions)
        for stream, chunks in self._queues.items():
            for chunk in chunks:
                kept = [each for each in chunk.records[chunk.index :] if where(each) not in partitions]
                chunk.records = [*chunk.records[: chunk.index], *kept]
                chunk.size = len(chunk.records)
                chunk.ends = [end for end in chunk.ends if end[0].partition not in partitions]
            self._queues[stream] = deque(chunk for chunk in chunks if chunk.index < chunk.size)
        self._look_in_front()

    def busy(self, partitions: Collection[TopicPartition]) -> bool:
        """True while a reader that was given records of ``partitions`` has not come back for more, which
        says that it is done with them."""
        with self._lock:
            spans = [span for chunks in self._delivered.values() for span in chunks]
            if self._polled is not None:
                spans.append((self._polled, self._polled.index - 1, self._polled.index))
            return any(
                where(each) in partitions for chunk, start, end in spans for each in chunk.records[start:end]
            )

    def end(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Cut off and forget ``partitions``; the positions to commit."""
        with self._lock:
            self._cut_off(partitions)
            return {each: self._open.pop(each).stored for each in partitions if each in self._open}

    def parted(self, partitions: Collection[TopicPartition]) -> Callable[[], None]:
        """To be called by the fetcher when it has left ``partitions``, which were ended: what it offers from
        then on needs no second look."""

        def clear() -> None:
            with self._lock:
                self._barred.difference_update(each for each in partitions if each not in self._open)

        return clear

    def positions(self) -> dict[TopicPartition, int]:
        """What to commit for every open partition."""
        with self._lock:
            self._settle()
            return {each.partition: each.stored for each in self._open.values()}

    def next_offsets(self) -> dict[TopicPartition, int]:
        """The next offset each open partition will deliver."""
        with self._lock:
            self._settle()
            return {each.partition: each.position for each in self._open.values() if not each.closed}

    def store(self, offsets: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Set what to commit; returns partitions that are not open."""
        with self._lock:
            self._settle()
            for each in offsets.keys() & self._open.keys():
                self._open[each].stored = offsets[each]
            return [each for each in offsets if each not in self._open]

    def move(self, partition: TopicPartition, offset: int) -> Callable[[], None]:
        """Deliver an open partition from ``offset`` next: what was fetched is dropped; as `open`."""
        with self._lock:
            return self._admit([self._moved(self._open[partition], offset)])

    def _moved(self, former: Cursor, offset: int) -> Cursor:
        """The same partition, delivered from ``offset`` next: an entry of its own, which is not armed yet."""
        self._cut_off([former.partition])
        stored = offset if former.stored == former.position else former.stored
        return replace(former, position=offset, fetched=offset, stored=stored, armed=False, closed=False)

    def pause(
        self, partitions: Iterable[TopicPartition], hold: Callable[[list[TopicPartition]], None]
    ) -> None:
        """Deliver nothing of those that are open: ``hold`` tells the fetcher, before a hand-over can."""
        with self._lock:
            changed = [each.partition for each in self._set_paused(partitions, paused=True)]
            if changed:
                self._throw_out(changed)
                hold(changed)

    def resume(self, partitions: Iterable[TopicPartition], fetch: Fetching) -> None:
        """Go on at the position: ``fetch`` is asked to fetch anew from there, before a hand-over can come."""
        with self._lock:
            changed = self._set_paused(partitions, paused=False)
            entries = [self._moved(each, each.position) for each in changed]
            if entries:
                fetch({each.partition: each.position for each in entries}, self._admit(entries))

    def _set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> list[Cursor]:
        """Those for which that is a change."""
        known = [self._open[each] for each in partitions if each in self._open]
        changed = [each for each in known if each.paused is not paused and not each.closed]
        for each in changed:
            each.paused = paused
        return changed

    def _settle(self) -> None:
        """Work out the positions within the chunks that were begun."""
        for queue in self._queues.values():
            for chunk in queue:
                begun = chunk.records[chunk.settled : chunk.index]
                chunk.settled = chunk.index
                for partition, at in {where(each): (each.offset() or 0) + 1 for each in begun}.items():
                    if partition in self._open:
                        self._advance(self._open[partition], at)

    def _advance(self, entry: Cursor, at: int) -> None:
        """Records before ``at`` were handed out."""
        if not entry.closed and at > entry.position:
            entry.position = at
            if self._store_on_delivery:
                entry.stored = at

    # -- records ---------------------------------------------------------------------------------

    def offer(self, records: list[Record], ends: Mapping[TopicPartition, int] | None = None) -> None:
        """Buffer what was fetched, in order. ``ends`` are the positions after it, where the fetcher knows
        them; the sequence is not touched again by the caller.

        It is kept whole where ``ends`` tell that it is in sequence, otherwise record by record what its
        partition accepts."""
        with self._lock:
            looked_at = bool(self._by_stream or self._barred)
            if ends is None or looked_at or not records or not ends.keys() <= self._open.keys():
                self._route([each for each in records if self._accept(each)])
            else:
                known = [(self._open[each], at) for each, at in ends.items()]
                for entry, at in known:
                    entry.fetched = at
                self._queues[WHOLE_CONSUMER].append(Chunk(records, known))
            self._look_in_front()
            self._changed.notify_all()

    def _accept(self, record: Record) -> bool:
        """Whether this record is the next one to be taken of its partition; if so it is noted as fetched."""
        offset = record.offset()
        if record.topic() is None or record.partition() is None or offset is None:
            return False
        entry = self._open.get(where(record))
        if entry is None or entry.closed or entry.paused or not entry.armed or offset < entry.fetched:
            return False
        entry.fetched = offset + 1
        return True

    def _route(self, records: Iterable[Record]) -> None:
        """Into the buffers of the streams, or into the one for all."""
        parts: dict[int, list[Record]] = {}
        ends: dict[int, dict[TopicPartition, int]] = {}
        for each in records:
            entry = self._open[where(each)]
            stream = entry.stream if self._by_stream else WHOLE_CONSUMER
            parts.setdefault(stream, []).append(each)
            ends.setdefault(stream, {})[entry.partition] = (each.offset() or 0) + 1
        for stream, taken in parts.items():
            known = [(self._open[each], at) for each, at in ends[stream].items()]
            self._queues.setdefault(stream, deque()).append(Chunk(taken, known))

    def _look_in_front(self) -> None:
        """Find the chunk from which `next` takes: only while there is one buffer for all, and nothing to be
        told before."""
        chunks = self._queues[WHOLE_CONSUMER]
        ready = chunks and not (self._by_stream or self._notices or self.closed)
        self._front = chunks[0] if ready else None

    @property
    def full(self) -> bool:
        """True when nothing more should be fetched for now."""
        return self.buffered() >= _CAPACITY

    def buffered(self, stream: int | None = None) -> int:
        """Records that were fetched and not handed out yet: of a stream, or of all."""
        with self._lock:
            queues = self._queues.values() if stream is None else [self._queues.get(stream, ())]
            return sum(map(_size, queues))

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
            self._polled = chunk
            if self._delivered:
                self._delivered.pop(WHOLE_CONSUMER, None)
            record = chunk.records[chunk.index]
            chunk.index += 1
            if chunk.index == chunk.size:
                self._finish(self._queues[WHOLE_CONSUMER])
                self._look_in_front()
            return record

    def take(self, stream: int | None, limit: int, timeout: float) -> list[Any]:
        """Up to ``limit`` records of one stream (None: of all); waits until there is one.

        ``timeout`` in seconds, negative for ever. A notice is run here, before any record, and the wait goes
        on; with a ``limit`` of 0 it ends there. Raises `RuntimeError` when closed, and what a notice
        raises."""
        deadline = monotonic() + timeout if timeout >= 0 else math.inf
        while True:
            with self._lock:
                taken = self._await(stream, limit, deadline)
            if not taken or type(taken[0]) is not Notice:
                return taken
            taken[0].run()
            if limit == 0:
                return []

    def _await(self, stream: int | None, limit: int, deadline: float) -> list[Any]:
        self._come_back(WHOLE_CONSUMER if stream is None else stream)
        if stream is not None and not self._by_stream:
            self._settle()
            self._by_stream = True
            chunks, self._queues[WHOLE_CONSUMER] = self._queues[WHOLE_CONSUMER], deque()
            for chunk in chunks:
                self._route(chunk.records[chunk.index :])
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

    def done(self, handle: int = WHOLE_CONSUMER) -> None:
        """The reader (a stream number; by default the parent) has dealt with all it was given."""
        with self._lock:
            self._come_back(handle)

    def _come_back(self, handle: int) -> None:
        self._delivered.pop(handle, None)
        if handle == WHOLE_CONSUMER:
            self._polled = None

    def _pick(self, stream: int | None, limit: int) -> list[Any]:
        """A notice alone, else up to ``limit`` records while the lease holds; of all, the fullest first."""
        if self._notices:
            notice = self._notices.popleft()
            self._look_in_front()
            return [notice]
        if monotonic() >= self._until:
            return []
        taken: list[list[Record]] = []
        picked: list[Span] = []
        numbers = sorted(self._queues) if stream is None else [stream]
        queues = [self._queues.setdefault(each, deque()) for each in numbers]
        for queue in sorted(queues, key=_size, reverse=True):
            while queue and limit > 0:
                chunk = queue[0]
                start, chunk.index = chunk.index, min(chunk.index + limit, chunk.size)
                limit -= chunk.index - start
                taken.append(chunk.records[start : chunk.index])
                picked.append((chunk, start, chunk.index))
                if chunk.index == chunk.size:
                    self._finish(queue)
        if picked:
            self._look_in_front()
            self._delivered[WHOLE_CONSUMER if stream is None else stream] = picked
        return taken[0] if len(taken) == 1 else [each for part in taken for each in part]

    def _finish(self, queue: deque[Chunk]) -> None:
        """The first chunk of a queue has been handed out to its end."""
        for entry, at in queue.popleft().ends:
            self._advance(entry, at)

    def close(self) -> None:
        """Wake every reader; each raises from now on."""
        with self._lock:
            self.closed = True
            self._front = None
            self._changed.notify_all()
