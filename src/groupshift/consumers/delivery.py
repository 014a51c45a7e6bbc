"""Hands records to the application: the one place where a delivery happens, and where it is cut off.

A record is delivered when `Delivery.take` or `Delivery.next` returns it. Under the same lock, and last,
the lease is checked; `cut_off` takes that lock too and throws out what was not handed over yet, so after
it has returned no record of those partitions is handed out any more (F1, F5).

Records come and go by the chunk. What a position is, and who still works on which records, is worked out
when somebody asks: a record costs nothing on its way (benchmarks/consume.py).

`Feed` fills the buffers: the reader that has nothing left fetches for all. So a record passes from the client
to the application on one thread; a thread of its own only serves the fetcher while nobody reads, for example
at a hand-over.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from groupshift.consumers.buffers import PARENT, Buffers, Chunk, Given, Open, OpenPartitions
from groupshift.consumers.callbacks import Notice
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import NEVER, Lease
from groupshift.ports.consumer import Fetch, Record

_CAPACITY = 20_000

Fetching = Callable[[Mapping[TopicPartition, int], Callable[[], None]], None]
"""`groupshift.ports.consumer.Fetch.add`; it returns at once."""


class Delivery:
    """Buffers between the fetcher and the readers: one for all, or one for each stream once a stream has
    a reader of its own.

    ``store_on_delivery`` makes a delivered record's successor the position to commit, as the old
    consumer does (zookeeper-coordination.md §6.6); otherwise only `store` does.
    """

    def __init__(self, *, store_on_delivery: bool) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._lease = Lease()
        self._until = NEVER
        self._partitions = OpenPartitions(store_on_delivery=store_on_delivery)
        self._buffers = Buffers(self._partitions)
        self._front: Chunk | None = None
        self._notices: deque[Record | Notice] = deque()
        self._given = Given()
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
        self._front = None if self._notices or self._closed else self._buffers.front()

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


_LOG = logging.getLogger(__name__)
_BATCH = 500
_TURN_S = 0.01
_IDLE_S = 0.25


class Feed:
    """``lost`` is called with a partition whose position the broker does not have."""

    def __init__(
        self, name: str, fetch: Fetch, delivery: Delivery, lost: Callable[[TopicPartition], None]
    ) -> None:
        self._fetch, self._delivery, self._lost = fetch, delivery, lost
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name=f"groupshift-fetch-{name}", daemon=True)

    def start(self) -> None:
        """Serve the fetcher from now on."""
        self._thread.start()

    def take(self, stream: int | None, limit: int, timeout: float) -> list[Any]:
        """`Delivery.take`, fetching when nothing is buffered. Raises `RuntimeError` when closed."""
        taken = self._delivery.take(stream, limit, 0)
        deadline = time.monotonic() + timeout
        while not taken:
            left = deadline - time.monotonic() if timeout >= 0 else _TURN_S
            if left <= 0:
                break
            self._fill(stream, limit, min(left, _TURN_S))
            taken = self._delivery.take(stream, limit, 0)
        return taken

    def _fill(self, stream: int | None, limit: int, wait: float) -> None:
        """One turn at the fetcher; when it is another reader's, or records wait for the lease, just wait."""
        if self._delivery.full or self._delivery.buffered(stream):
            self._delivery.wait(wait)
        elif self._turn.acquire(timeout=wait):
            try:
                if not self._delivery.closed:
                    self._poll(max(limit, _BATCH), wait)
            finally:
                self._turn.release()

    def _poll(self, limit: int, wait: float) -> None:
        records = self._fetch.poll(limit, wait)
        if not records:
            return
        if self._fetch.flawed(records):
            records = [each for each in records if not self._complains(each)]
        self._delivery.offer(records, self._fetch.ends())

    def _complains(self, record: Record) -> bool:
        if not self._fetch.flawed([record]):
            return False
        partition = self._fetch.out_of_range(record)
        if partition is not None:
            self._lost(partition)
        else:
            self._delivery.notify(record)
        return True

    def _serve(self) -> None:
        while not self._delivery.closed:
            try:
                self._fetch.poll(0, _IDLE_S)
                with self._turn:
                    self._fetch.poll(0, 0)
            except Exception:  # noqa: BLE001 (a hand-over needs this thread, whatever the client says)
                _LOG.exception("the fetcher failed, and is asked again")
                self._delivery.wait(_IDLE_S)
        with self._turn:
            self._fetch.close()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, after `Delivery.close`."""
        if self._thread.is_alive():
            self._thread.join(timeout)
