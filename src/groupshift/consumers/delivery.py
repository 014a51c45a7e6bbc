"""Handing records to the application: the one place where a delivery happens, and where it is cut off.

A record is delivered when `Delivery.take` or `Delivery.next` returns it. Under the same lock, and last,
the lease is checked; `cut_off` takes that lock too and throws out what was not handed over yet, so after
it has returned no record of those partitions is handed out any more (F1, F5).

Records come and go by the chunk. What a position is, and who is still busy with what, is worked out when
somebody asks: a record costs nothing on its way (benchmarks/consume.py).
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from groupshift.consumers.chunks import Chunk, Open
from groupshift.domain.leases import NEVER, Lease
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.fetch import Record

_CAPACITY = 20_000
_PARENT = -1

Fetching = Callable[[Mapping[TopicPartition, int], Callable[[], None]], None]
"""`groupshift.ports.fetch.Fetch.add`; it returns at once."""


@dataclass(slots=True)
class _Queue:
    """Chunks for one reader, and what is left in them."""

    chunks: deque[Chunk] = field(default_factory=deque)

    def size(self) -> int:
        """Records not handed out yet."""
        return sum(each.size - each.index for each in self.chunks)


class Delivery:
    """Buffers between the fetcher and the readers: one for all, or one for each stream once a stream has
    a reader of its own.

    ``store_on_delivery`` makes a delivered record's successor the position to commit, as the old
    consumer does (§6.6); otherwise only `store` does.
    """

    def __init__(self, *, store_on_delivery: bool) -> None:
        self._store_on_delivery = store_on_delivery
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._lease = Lease()
        self._until = NEVER
        self._open: dict[TopicPartition, Open] = {}
        self._barred: set[TopicPartition] = set()
        self._split = False
        self._queues: dict[int, _Queue] = {_PARENT: _Queue()}
        self._front: Chunk | None = None
        self._notices: deque[Record] = deque()
        self._given: dict[int, list[tuple[Chunk, int, int]]] = {}
        self._polled: Chunk | None = None
        self._closed = False

    # -- lease -----------------------------------------------------------------------------------

    def change_lease(self, change: Callable[[Lease], Lease]) -> None:
        """Replace the lease; takes effect for the very next delivery."""
        with self._lock:
            self._lease = change(self._lease)
            self._until = self._lease.until
            self._changed.notify_all()

    @property
    def lease(self) -> Lease:
        """The lease now."""
        return self._lease

    # -- partitions ------------------------------------------------------------------------------

    def open(self, starts: Mapping[TopicPartition, tuple[int, int]]) -> Callable[[], None]:
        """Partition → (stream, first offset to deliver). What is offered for them is accepted once the
        result was called: by the fetcher, when it has left its former position."""
        entries = [Open(each, stream, start) for each, (stream, start) in starts.items()]
        with self._lock:
            return self._admit(entries)

    def _admit(self, entries: Sequence[Open]) -> Callable[[], None]:
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
        closing = {each for each in partitions if each in self._open and not self._open[each].closed}
        if closing:
            self._throw_out(closing)
        for each in closing:
            self._open[each].closed = True

    def _throw_out(self, partitions: Collection[TopicPartition]) -> None:
        """Note how far delivery came, then drop what was fetched of them beyond that."""
        self._settle()
        self._barred.update(partitions)
        for queue in self._queues.values():
            for chunk in queue.chunks:
                chunk.drop(partitions)
            queue.chunks = deque(chunk for chunk in queue.chunks if chunk.left)
        self._look_in_front()

    def busy(self, partitions: Collection[TopicPartition]) -> bool:
        """True while a reader that was given records of ``partitions`` has not come back for more, which
        says that it is done with them."""
        with self._lock:
            polled = self._polled
            if polled is not None and polled.concerns(partitions, polled.index - 1, polled.index):
                return True
            return any(
                chunk.concerns(partitions, start, end)
                for given in self._given.values()
                for chunk, start, end in given
            )

    def end(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Cut off and forget ``partitions``; the positions to commit."""
        with self._lock:
            self._cut_off(partitions)
            ended = [self._open.pop(each) for each in partitions if each in self._open]
        return {each.partition: each.stored for each in ended if each.stored is not None}

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
            return {each.partition: each.stored for each in self._open.values() if each.stored is not None}

    def next_offsets(self) -> dict[TopicPartition, int]:
        """The next offset each open partition will deliver."""
        with self._lock:
            self._settle()
            return {each.partition: each.position for each in self._open.values() if not each.closed}

    def store(self, offsets: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Set what to commit; returns partitions that are not open."""
        with self._lock:
            self._settle()
            for each, offset in offsets.items():
                if each in self._open:
                    self._open[each].stored = offset
            return [each for each in offsets if each not in self._open]

    def move(self, partition: TopicPartition, offset: int) -> Callable[[], None]:
        """Deliver an open partition from ``offset`` next: what was fetched is dropped; as `open`."""
        with self._lock:
            return self._admit([self._moved(self._open[partition], offset)])

    def _moved(self, former: Open, offset: int) -> Open:
        self._cut_off([former.partition])
        stored = offset if former.stored in (None, former.position) else former.stored
        return Open(former.partition, former.stream, offset, stored=stored, paused=former.paused)

    def pause(
        self, partitions: Iterable[TopicPartition], hold: Callable[[list[TopicPartition]], None]
    ) -> None:
        """Deliver nothing of those that are open: ``hold`` tells the fetcher, before a hand-over can."""
        with self._lock:
            changed = self._set_paused(partitions, paused=True)
            if changed:
                self._throw_out([each.partition for each in changed])
                hold([each.partition for each in changed])

    def resume(self, partitions: Iterable[TopicPartition], fetch: Fetching) -> None:
        """Go on at the position: ``fetch`` is asked to fetch anew from there, before a hand-over can come."""
        with self._lock:
            changed = self._set_paused(partitions, paused=False)
            entries = [self._moved(each, each.position) for each in changed]
            if entries:
                fetch({each.partition: each.position for each in entries}, self._admit(entries))

    def _set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> list[Open]:
        known = [self._open[each] for each in partitions if each in self._open]
        changed = [each for each in known if each.paused is not paused and not each.closed]
        for each in changed:
            each.paused = paused
        return changed

    # -- records ---------------------------------------------------------------------------------

    def _part(self) -> None:
        """From now on every stream has a buffer of its own; the parent still reads from all."""
        self._settle()
        self._split = True
        chunks, self._queues[_PARENT] = self._queues[_PARENT].chunks, _Queue()
        for chunk in chunks:
            self._route(chunk.rest())
        self._look_in_front()

    def offer(self, records: list[Record], ends: Mapping[TopicPartition, int] | None = None) -> None:
        """Buffer what was fetched, in order. ``ends`` are the positions after it, where the fetcher knows
        them; the sequence is not touched again by the caller."""
        with self._lock:
            if self._split or self._barred or ends is None or not ends.keys() <= self._open.keys():
                self._route([each for each in records if self._accepts(each)])
            elif records:
                known = [(self._open[each], at) for each, at in ends.items() if each in self._open]
                for entry, at in known:
                    entry.fetched = at
                self._queues[_PARENT].chunks.append(Chunk(records, known))
            self._look_in_front()
            self._changed.notify_all()

    def _accepts(self, record: Record) -> bool:
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        if topic is None or partition is None or offset is None:
            return False
        entry = self._open.get(TopicPartition(topic, partition))
        if entry is None or entry.closed or entry.paused or not entry.armed or offset < entry.fetched:
            return False
        entry.fetched = offset + 1
        return True

    def _route(self, records: Iterable[Record]) -> None:
        """Into the buffers of the streams, or into the one for all."""
        parts: dict[int, list[Record]] = {}
        ends: dict[int, dict[TopicPartition, int]] = {}
        for each in records:
            entry = self._open[TopicPartition(str(each.topic()), each.partition() or 0)]
            stream = entry.stream if self._split else _PARENT
            parts.setdefault(stream, []).append(each)
            ends.setdefault(stream, {})[entry.partition] = (each.offset() or 0) + 1
        for stream, taken in parts.items():
            known = [(self._open[each], at) for each, at in ends[stream].items()]
            self._queues.setdefault(stream, _Queue()).chunks.append(Chunk(taken, known))

    def _look_in_front(self) -> None:
        """The chunk from which `next` takes: only while there is one buffer for all, and
        nothing to be told before."""
        chunks = self._queues[_PARENT].chunks
        ready = chunks and not (self._split or self._notices or self._closed)
        self._front = chunks[0] if ready else None

    @property
    def full(self) -> bool:
        """True when nothing more should be fetched for now."""
        return self.buffered() >= _CAPACITY

    def buffered(self, stream: int | None = None) -> int:
        """Records that were fetched and not handed out yet: of a stream, or of all."""
        with self._lock:
            queues = self._queues.values() if stream is None else [self._queues.get(stream, _Queue())]
            return sum(each.size() for each in queues)

    def notify(self, record: Record) -> None:
        """Hand an error of the client to whoever reads next."""
        with self._lock:
            self._notices.append(record)
            self._front = None
            self._changed.notify_all()

    def next(self) -> Record | None:
        """`take` of one record for the parent, without waiting; None also when only `take` can tell."""
        with self._lock:
            chunk = self._front
            if chunk is None or monotonic() >= self._until:
                return None
            self._polled = chunk
            if self._given:
                self._given.pop(_PARENT, None)
            record = chunk.records[chunk.index]
            chunk.index += 1
            if chunk.index == chunk.size:
                self._finish(self._queues[_PARENT])
            return record

    def take(self, stream: int | None, limit: int, timeout: float) -> list[Any]:
        """Up to ``limit`` records of one stream (None: of all); waits until there is one.

        ``timeout`` in seconds, negative for ever. Raises `RuntimeError` when closed."""
        deadline = monotonic() + timeout if timeout >= 0 else math.inf
        with self._lock:
            self._done(_PARENT if stream is None else stream)
            if stream is not None and not self._split:
                self._part()
            while True:
                if self._closed:
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

    def done(self, handle: int = _PARENT) -> None:
        """The reader (a stream number; by default the parent) has dealt with all it was given."""
        with self._lock:
            self._done(handle)

    def _done(self, handle: int) -> None:
        self._given.pop(handle, None)
        if handle == _PARENT:
            self._polled = None

    def _pick(self, stream: int | None, limit: int) -> list[Any]:
        if self._notices:
            notice = self._notices.popleft()
            self._look_in_front()
            return [notice]
        if monotonic() >= self._until:
            return []
        taken: list[list[Record]] = []
        given: list[tuple[Chunk, int, int]] = []
        numbers = sorted(self._queues) if stream is None else [stream]
        for queue in sorted((self._queues.setdefault(each, _Queue()) for each in numbers), key=_least_full):
            while queue.chunks and limit > 0:
                chunk = queue.chunks[0]
                start, chunk.index = chunk.index, min(chunk.index + limit, chunk.size)
                limit -= chunk.index - start
                taken.append(chunk.records[start : chunk.index])
                given.append((chunk, start, chunk.index))
                if chunk.index == chunk.size:
                    self._finish(queue)
        if given:
            self._given[_PARENT if stream is None else stream] = given
        return taken[0] if len(taken) == 1 else [each for part in taken for each in part]

    # -- how far delivery came -------------------------------------------------------------------

    def _finish(self, queue: _Queue) -> None:
        """The first chunk has been handed out to its end."""
        for entry, at in queue.chunks.popleft().ends:
            self._advance(entry, at)
        self._look_in_front()

    def _settle(self) -> None:
        """Work out the positions within the chunks that were begun."""
        for queue in self._queues.values():
            for chunk in queue.chunks:
                for partition, at in chunk.progress().items():
                    entry = self._open.get(partition)
                    if entry is not None:
                        self._advance(entry, at)

    def _advance(self, entry: Open, at: int) -> None:
        if entry.closed or at <= entry.position:
            return
        entry.position = at
        if self._store_on_delivery:
            entry.stored = at

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    def close(self) -> None:
        """Wake every reader; each raises from now on."""
        with self._lock:
            self._closed = True
            self._front = None
            self._changed.notify_all()


def _least_full(queue: _Queue) -> int:
    return -queue.size()
