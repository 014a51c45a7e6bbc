"""`groupshift.ports.consumer.Fetch` on confluent-kafka: assign and seek only, no group membership.

`Feed` fills the buffers of the delivery: the reader that has nothing left fetches for all. So a record passes
from the client to the application on one thread; a thread of its own only serves the fetcher while nobody
reads, for example at a hand-over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from groupshift.consumers.config import connecting
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.threads import Calls, daemon
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import Fetch, Record, Reset

_LOG = logging.getLogger(__name__)
_ENDS_EVERY_S = 0.5
_WARM_S = 1.0
_LOOK_EVERY_S = 5.0
_LOOK_S = 0.5
_ANSWER_S = 0.5
_QUICK_S = 0.2
_AGAIN_S = 0.3
_SLACK_S = 0.1


def look_at_topics(client: Consumer | AdminClient, timeout: float, topic: str | None = None) -> bool:
    """Have a client learn where one topic, or every one, is; False when the brokers do not answer."""
    try:
        client.list_topics(topic, timeout=timeout)
    except KafkaException as error:
        _LOG.info("topics could not be listed: %s", error)
        return False
    return True


class KafkaFetch:
    """A consumer that is told what to fetch; it belongs to the thread that calls `poll`."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._consumer = Consumer(dict(properties))
        self._calls = Calls()
        self._added: set[TopicPartition] = set()
        self._properties = connecting(properties)
        self._admin: AdminClient | None = None
        self._ends: Mapping[TopicPartition, int] = {}
        self._ends_due, self._look_due, self._looks = 0.0, 0.0, 0

    def warm(self, topics: Collection[str]) -> None:
        """Connect and learn where ``topics`` are, as far as the brokers answer; before the first poll."""
        for topic in topics:
            if not look_at_topics(self._consumer, _WARM_S, topic):
                return

    # -- from any thread -------------------------------------------------------------------------

    def add(self, positions: Mapping[TopicPartition, int], added: Callable[[], None]) -> None:
        """Takes effect at the next poll, without waiting for the broker."""

        def call() -> None:
            self._leave(positions)
            self._consumer.incremental_assign([KafkaPartition(*each, at) for each, at in positions.items()])
            # the client keeps a pause beyond an assignment (observed with librdkafka 2.16.0)
            self._consumer.resume([KafkaPartition(*each) for each in positions])
            self._added.update(positions)
            added()

        if positions:
            self._calls.hand(call)

    def remove(self, partitions: Collection[TopicPartition], removed: Callable[[], None]) -> None:
        """Idempotent for partitions that were never added."""

        def call() -> None:
            self._leave(partitions)
            removed()

        if partitions:
            self._calls.hand(call)

    def _leave(self, partitions: Collection[TopicPartition]) -> None:
        gone = [each for each in partitions if each in self._added]
        if gone:
            self._consumer.incremental_unassign([KafkaPartition(*each) for each in gone])
            self._added.difference_update(gone)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching without forgetting the position."""
        self._calls.hand(lambda: self._consumer.pause([KafkaPartition(*each) for each in partitions]))

    def offsets_at(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """ListOffsets, one request a leader, within about a second; without those that did not answer.

        By a client of its own, which is connected at the first question: fetching goes on meanwhile. That
        client believes the topics that it listed once (observed: partitions added later were unknown to it
        for ever), so it lists them again when it knows at once that one is missing."""
        if self._admin is None:
            self._admin = AdminClient(self._properties)
        admin, began = self._admin, time.monotonic()
        offsets = self._ask(admin, partitions, to, _ANSWER_S)
        missing = [each for each in partitions if each not in offsets]
        quick = time.monotonic() - began < _QUICK_S
        if missing and quick and look_at_topics(admin, _AGAIN_S):
            offsets |= self._ask(admin, missing, to, _AGAIN_S)
        return offsets

    @staticmethod
    def _ask(
        admin: AdminClient, partitions: Collection[TopicPartition], to: Reset, timeout: float
    ) -> dict[TopicPartition, int]:
        spec = OffsetSpec.earliest() if to is Reset.EARLIEST else OffsetSpec.latest()
        wanted = {KafkaPartition(*each): spec for each in partitions}
        offsets: dict[TopicPartition, int] = {}
        for where, answer in admin.list_offsets(wanted, request_timeout=timeout).items():
            try:
                offset = answer.result(timeout=timeout + _SLACK_S).offset
            except (KafkaException, TimeoutError) as error:
                _LOG.info("no %s offset of %s-%d: %s", to.value, where.topic, where.partition, error)
            else:
                offsets[TopicPartition(where.topic, where.partition)] = offset
        return offsets

    def end_of(self, partition: TopicPartition) -> int | None:
        """High watermark of a recent fetch."""
        return self._ends.get(partition)

    # -- on the owning thread --------------------------------------------------------------------

    def poll(self, limit: int, timeout: float) -> list[Record]:
        """What is there already; else the first record within ``timeout``, and what came with it.

        Where nothing comes for 5 s it asks the brokers for a topic, each in its turn. The topic may be idle,
        but a client that was told of no partitions in the moment of a broker's restart was seen to stay
        without a connection (librdkafka 2.16.0, brokers 3.9.2: silent for minutes)."""
        if limit == 0 and timeout > 0:
            self._calls.wait(timeout)
            return []
        self._calls.serve()
        now = time.monotonic()
        if now >= self._ends_due:
            self._ends_due = now + _ENDS_EVERY_S
            marks = {
                each: self._consumer.get_watermark_offsets(KafkaPartition(*each), cached=True)
                for each in self._added
            }
            self._ends = {each: mark[1] for each, mark in marks.items() if mark is not None and mark[1] >= 0}
        if limit == 0:
            return []
        ready: list[Record] = self._consumer.consume(limit, timeout=0)
        if ready or not self._added or not self._look_due:
            self._look_due = now + _LOOK_EVERY_S
        elif now >= self._look_due:
            self._look_due = now + _LOOK_EVERY_S
            topics = sorted({each.topic for each in self._added})
            self._looks += 1
            look_at_topics(self._consumer, _LOOK_S, topics[self._looks % len(topics)])
        first = None if ready else self._consumer.poll(timeout)
        return ready if first is None else [first, *self._consumer.consume(limit - 1, timeout=0)]

    def ends(self) -> Mapping[TopicPartition, int]:
        """What librdkafka counts when it hands records out; -1001 before the first one."""
        known = self._consumer.position([KafkaPartition(*each) for each in self._added])
        return {TopicPartition(at.topic, at.partition): at.offset for at in known if at.offset >= 0}

    def flawed(self, records: Sequence[Record]) -> bool:
        """Asked of every batch: hence without a loop in Python."""
        return any(map(Message.error, records))

    def out_of_range(self, record: Record) -> TopicPartition | None:
        """The client reports it as a failed automatic reset."""
        if not isinstance(record, Message) or record.error() is None:
            return None
        code, topic, partition = record.error().code(), record.topic(), record.partition()
        if code not in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            return None
        return None if topic is None or partition is None else TopicPartition(topic, partition)

    def close(self) -> None:
        """Release the clients."""
        self._admin = None
        self._consumer.close()


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
        self._thread = daemon(f"fetch-{name}", self._serve)

    def start(self) -> None:
        """Serve the fetcher from now on."""
        self._thread.start()

    def take(self, stream: int | None, limit: int, timeout: float) -> list[Any]:
        """`Delivery.take`, fetching when nothing is buffered. Raises `RuntimeError` when closed."""
        deadline = time.monotonic() + timeout
        taken = self._delivery.take(stream, limit, 0)
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
                records = [] if self._delivery.closed else self._fetch.poll(max(limit, _BATCH), wait)
                if records:
                    if self._fetch.flawed(records):
                        records = [each for each in records if not self._complains(each)]
                    self._delivery.offer(records, self._fetch.ends())
            finally:
                self._turn.release()

    def _complains(self, record: Record) -> bool:
        """Whether this is an error and no record. Then it is dealt with: it is told to whoever asks for the
        position anew, or to the application."""
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
