"""What both consumers of this library have in common: the public face, with confluent-kafka's signatures."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.consumers.assembly import make_identity, make_parts, make_policy
from groupshift.consumers.configuration import parse
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.positions import Positions
from groupshift.consumers.reconciler import Reconciler
from groupshift.consumers.streams import ConsumerStatus, Stream
from groupshift.errors import Rejected, Transient

_PUMP_S = 0.01
_BATCH = 500
_CLOSE_S = 9.0


class GroupConsumer(Positions):
    """A member of a ZooKeeper-coordinated group. Use `ZookeeperConsumer` or `MigratingConsumer`.

    ``config`` takes the old consumer's keys (``group.id``, ``zookeeper.connect``, …), ``consumer.id``,
    and librdkafka's; see `groupshift.consumers.configuration`. Raises `Rejected` for a bad one.
    Methods raise `confluent_kafka.KafkaException` where `confluent_kafka.Consumer` does, and
    `RuntimeError` once closed.
    """

    _migrating = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = parse(config, migrating=self._migrating)
        super().__init__(Delivery(store_on_delivery=self._config.store_on_delivery))
        self._pump = threading.Thread(
            target=self._run_pump, name=f"groupshift-fetch-{self._config.consumer_id}", daemon=True
        )
        self._streams = 0

    # -- joining ---------------------------------------------------------------------------------

    @property
    def consumer_id(self) -> str:
        """``<group>_<consumer.id>``: the name under which this member is registered."""
        return self._config.consumer_id

    def subscribe(self, topics: Mapping[str, int] | Sequence[str]) -> None:
        """Join the group. ``topics``: topic → number of streams, or names with one stream each.

        Once per consumer. Raises `Rejected` for a bad subscription, `Transient` without ZooKeeper."""
        self._check_open()
        subscription = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        if self._reconciler is not None:
            raise Rejected("subscribe: streams can be created once per consumer; make another consumer")
        if not subscription or any(streams < 1 for streams in subscription.values()):
            raise Rejected(
                f"subscribe: {subscription!r} needs at least one topic, each with 1 or more streams"
            )
        self._streams = max(subscription.values())
        self._parts = make_parts(self._config, subscription, self._delivery, aware=self._migrating)
        self._reconciler = Reconciler(
            make_identity(self._config, subscription, aware=self._migrating),
            self._parts,
            make_policy(self._config),
            self._config.commit_every_s,
        )
        self._parts.coordination.start(self._reconciler, self._config.connect_s)
        self._pump.start()
        self._reconciler.start()

    def stream(self, number: int) -> Stream:
        """The handle of one stream. Raises `Rejected` when the subscription has no such stream."""
        if not 0 <= number < self._streams:
            raise Rejected(
                f"stream {number} does not exist: the subscription has {self._streams}, counted from 0"
            )
        return Stream(self._delivery, number)

    # -- records ---------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Message | None:
        """The next record of any stream, or None after ``timeout`` seconds (negative: wait for ever)."""
        records: Sequence[Any] = self._delivery.take(None, 1, timeout)
        return records[0] if records else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to ``num_messages`` records of all streams; returns as soon as there is at least one."""
        records: list[Any] = self._delivery.take(None, num_messages, timeout)
        return records

    def pause(self, partitions: Sequence[KafkaPartition]) -> None:
        """Deliver nothing of these assigned partitions until `resume`."""
        parts, wanted = self._running(), self._mine(partitions)
        self._delivery.pause(wanted, paused=True)
        parts.fetch.pause(wanted)

    def resume(self, partitions: Sequence[KafkaPartition]) -> None:
        """Go on delivering, at the same position."""
        parts, wanted = self._running(), self._mine(partitions)
        parts.fetch.resume(wanted)
        for each in self._delivery.pause(wanted, paused=False):
            at = self._delivery.next_offsets()[each]
            parts.fetch.add({each: at}, self._delivery.move(each, at))

    # -- state -----------------------------------------------------------------------------------

    def status(self) -> ConsumerStatus:
        """Mode, owned partitions, lag and alarms, without asking anyone."""
        if self._parts is None or self._reconciler is None:
            return ConsumerStatus(mode=None, owned=frozenset(), lag={}, alarms=())
        lag = {}
        for each, at in ({} if self._closed else self._delivery.next_offsets()).items():
            end = self._parts.fetch.end_of(each)
            if end is not None:
                lag[each] = max(end - at, 0)
        return ConsumerStatus(
            mode=self._reconciler.mode,
            owned=self._reconciler.held(),
            lag=lag,
            alarms=self._reconciler.alarms,
        )

    # -- leaving ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit (with auto commit), give everything up and leave; at most 10 s. Idempotent.

        Raises `Transient` when ZooKeeper or Kafka kept it from ending in time."""
        if self._closed:
            return
        self._closed = True
        self._delivery.done()
        deadline = time.monotonic() + _CLOSE_S
        ended = self._reconciler is None or self._reconciler.close(_CLOSE_S)
        self._delivery.close()
        if self._pump.is_alive():
            self._pump.join(max(deadline - time.monotonic(), 1.0))
        if not ended:
            raise Transient(f"close: {self.consumer_id} could not leave the group in {_CLOSE_S:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside ----------------------------------------------------------------------------------

    def _run_pump(self) -> None:
        """Move what was fetched into the buffers; nothing else is done here."""
        while not self._delivery.closed and self._parts is not None and self._reconciler is not None:
            records = []
            for record in self._parts.fetch.poll(0 if self._delivery.full else _BATCH, _PUMP_S):
                error = record.error() if isinstance(record, Message) else None
                if error is None:
                    records.append(record)
                elif (partition := self._parts.fetch.out_of_range(record)) is not None:
                    self._reconciler.out_of_range(partition)
                else:
                    self._delivery.notify(record)
            if records:
                self._delivery.offer(records)
        if self._parts is not None:
            self._parts.fetch.close()
