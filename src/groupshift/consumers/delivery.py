"""Handing records to the application: the one place where a delivery happens, and where it is cut off.

A record is delivered when `Delivery.take` returns it. Under the same lock, and last, the lease and
the ownership of its partition are checked; `cut_off` takes that lock too, so after it has returned
no record of those partitions is handed out any more (F1, F5).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from groupshift.domain.leases import Lease
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.fetch import Record

_CAPACITY = 20_000
_PARENT = -1


@dataclass(slots=True, eq=False)
class _Open:
    """A partition that may be delivered: ``position`` is next to hand out, ``fetched`` next to accept."""

    partition: TopicPartition
    stream: int
    position: int
    fetched: int
    stored: int | None = None
    armed: bool = False
    paused: bool = False
    closed: bool = False
    skipped: bool = False


class Delivery:
    """Buffers between the fetcher and the readers, one for each stream.

    ``store_on_delivery`` makes a delivered record's successor the position to commit, as the old
    consumer does (§6.6); otherwise only `store` does.
    """

    def __init__(self, *, store_on_delivery: bool) -> None:
        self._store_on_delivery = store_on_delivery
        self._changed = threading.Condition()
        self._lease = Lease()
        self._open: dict[TopicPartition, _Open] = {}
        self._queues: dict[int, deque[tuple[_Open, Record]]] = {}
        self._notices: deque[Record] = deque()
        self._given: dict[int, frozenset[TopicPartition]] = {}
        self._buffered = 0
        self._closed = False

    # -- lease -----------------------------------------------------------------------------------

    def change_lease(self, change: Callable[[Lease], Lease]) -> None:
        """Replace the lease; takes effect for the very next delivery."""
        with self._changed:
            self._lease = change(self._lease)
            self._changed.notify_all()

    @property
    def lease(self) -> Lease:
        """The lease now."""
        return self._lease

    # -- partitions ------------------------------------------------------------------------------

    def open(self, starts: Mapping[TopicPartition, tuple[int, int]]) -> Callable[[], None]:
        """Partition → (stream, first offset to deliver). What is offered for them is accepted once the
        result was called: by the fetcher, when it has left its former position."""
        entries = [_Open(each, stream, start, start, start) for each, (stream, start) in starts.items()]
        return self._admit(entries)

    def _admit(self, entries: Sequence[_Open]) -> Callable[[], None]:
        with self._changed:
            self._open.update({each.partition: each for each in entries})

        def arm() -> None:
            with self._changed:
                for each in entries:
                    each.armed = True

        return arm

    def cut_off(self, partitions: Collection[TopicPartition]) -> None:
        """End the delivery of ``partitions``: no record of them is handed out after this."""
        with self._changed:
            for each in partitions:
                if each in self._open:
                    self._open[each].closed = True

    def busy(self, partitions: Collection[TopicPartition]) -> bool:
        """True while a reader that was given records of ``partitions`` has not come back for more, which
        says that it is done with them."""
        with self._changed:
            return any(not given.isdisjoint(partitions) for given in self._given.values())

    def end(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Cut off and forget ``partitions``; the positions to commit."""
        with self._changed:
            self.cut_off(partitions)
            ended = [self._open.pop(each) for each in partitions if each in self._open]
        return {each.partition: each.stored for each in ended if each.stored is not None}

    def positions(self) -> dict[TopicPartition, int]:
        """What to commit for every open partition."""
        with self._changed:
            return {each.partition: each.stored for each in self._open.values() if each.stored is not None}

    def next_offsets(self) -> dict[TopicPartition, int]:
        """The next offset each open partition will deliver."""
        with self._changed:
            return {each.partition: each.position for each in self._open.values() if not each.closed}

    def store(self, offsets: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Set what to commit; returns partitions that are not open."""
        with self._changed:
            for each, offset in offsets.items():
                if each in self._open:
                    self._open[each].stored = offset
            return [each for each in offsets if each not in self._open]

    def move(self, partition: TopicPartition, offset: int) -> Callable[[], None]:
        """Deliver an open partition from ``offset`` next: what was fetched is dropped; as `open`."""
        with self._changed:
            former = self._open[partition]
            former.closed = True
            stored = offset if former.stored in (None, former.position) else former.stored
            entry = _Open(partition, former.stream, offset, offset, stored, paused=former.paused)
            return self._admit([entry])

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> list[TopicPartition]:
        """Stop or go on delivering; on resume, those whose fetched records were skipped meanwhile."""
        with self._changed:
            rewind = []
            for each in partitions:
                entry = self._open[each]
                entry.paused = paused
                if not paused and entry.skipped:
                    rewind.append(each)
            return rewind

    # -- records ---------------------------------------------------------------------------------

    def offer(self, records: Sequence[Record]) -> None:
        """Buffer what was fetched, in order."""
        with self._changed:
            for record in records:
                topic, partition, offset = record.topic(), record.partition(), record.offset()
                if topic is None or partition is None or offset is None:
                    continue
                entry = self._open.get(TopicPartition(topic, partition))
                if entry is None or entry.closed or not entry.armed or offset < entry.fetched:
                    continue
                entry.fetched = offset + 1
                self._queues.setdefault(entry.stream, deque()).append((entry, record))
                self._buffered += 1
            self._changed.notify_all()

    @property
    def full(self) -> bool:
        """True when nothing more should be fetched for now."""
        return self._buffered >= _CAPACITY

    def notify(self, record: Record) -> None:
        """Hand an error of the client to whoever reads next."""
        with self._changed:
            self._notices.append(record)
            self._changed.notify_all()

    def take(self, stream: int | None, limit: int, timeout: float) -> list[Record]:
        """Up to ``limit`` records of one stream (None: of all); waits until there is one.

        ``timeout`` in seconds, negative for ever. Raises `RuntimeError` when closed."""
        deadline = time.monotonic() + timeout if timeout >= 0 else math.inf
        with self._changed:
            self.done(_PARENT if stream is None else stream)
            while True:
                if self._closed:
                    raise RuntimeError("Consumer closed")
                taken = self._pick(stream, limit)
                left = deadline - time.monotonic()
                if taken or left <= 0:
                    return taken
                self._changed.wait(left if left < math.inf else None)

    def done(self, handle: int = _PARENT) -> None:
        """The reader (a stream number; by default the parent) has dealt with all it was given."""
        with self._changed:
            self._given.pop(handle, None)

    def _pick(self, stream: int | None, limit: int) -> list[Record]:
        if self._notices:
            return [self._notices.popleft()]
        taken: list[Record] = []
        given: set[TopicPartition] = set()
        queues = list(self._queues) if stream is None else [stream]
        for number in sorted(queues, key=lambda each: -len(self._queues.get(each, ()))):
            queue = self._queues.get(number)
            while queue and len(taken) < limit and self._lease.holds(time.monotonic()):
                entry, record = queue.popleft()
                self._buffered -= 1
                if self._admits(entry):
                    self._advance(entry, record)
                    taken.append(record)
                    given.add(entry.partition)
        if given:
            self._given[_PARENT if stream is None else stream] = frozenset(given)
        return taken

    def _admits(self, entry: _Open) -> bool:
        if entry.paused:
            entry.skipped = True
        return not entry.closed and not entry.skipped

    def _advance(self, entry: _Open, record: Record) -> None:
        entry.position = (record.offset() or 0) + 1
        if self._store_on_delivery:
            entry.stored = entry.position

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    def close(self) -> None:
        """Wake every reader; each raises from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
