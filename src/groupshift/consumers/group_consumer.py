"""What both consumers of this library have in common: the public face, with confluent-kafka's signatures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.consumers.assembly import make_identity, make_parts, make_policy
from groupshift.consumers.configuration import parse
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.feed import Feed
from groupshift.consumers.positions import Positions
from groupshift.consumers.reconciler import Reconciler
from groupshift.consumers.streams import ConsumerStatus, Stream
from groupshift.consumers.subscription import Topics, read_subscription
from groupshift.errors import Rejected, Transient

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
        self._feed: Feed | None = None
        self._streams = 0

    # -- joining ---------------------------------------------------------------------------------

    @property
    def consumer_id(self) -> str:
        """``<group>_<consumer.id>``: the name under which this member is registered."""
        return self._config.consumer_id

    def subscribe(self, topics: Topics) -> None:
        """Join the group. ``topics``: topic → number of streams, names with one stream each, a
        `Whitelist` or a `Blacklist`; an empty one joins and owns nothing.

        Once per consumer. Raises `Rejected` for a bad subscription, `Transient` without ZooKeeper."""
        self._check_open()
        if self._reconciler is not None:
            raise Rejected("subscribe: streams can be created once per consumer; make another consumer")
        subscription = read_subscription(topics)
        self._streams = subscription.streams
        self._parts = make_parts(self._config, self._delivery)
        self._reconciler = Reconciler(
            make_identity(self._config, subscription),
            self._parts,
            make_policy(self._config),
            self._config.commit_every_s,
        )
        feed = Feed(self.consumer_id, self._parts.fetch, self._delivery, self._reconciler.out_of_range)
        self._parts.coordination.start(self._reconciler, self._config.connect_s)
        self._feed = feed
        feed.start()
        self._reconciler.start()

    def stream(self, number: int) -> Stream:
        """The handle of one stream. Raises `Rejected` when the subscription has no such stream."""
        if not 0 <= number < self._streams:
            raise Rejected(
                f"stream {number} does not exist: the subscription has {self._streams}, counted from 0"
            )
        return Stream(self._take, number)

    # -- records ---------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Message | None:
        """The next record of any stream, or None after ``timeout`` seconds (negative: wait for ever)."""
        record: Any = self._delivery.next()
        if record is None:
            records = self._take(None, 1, timeout)
            record = records[0] if records else None
        return record

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to ``num_messages`` records of all streams; returns as soon as there is at least one."""
        return self._take(None, num_messages, timeout)

    def _take(self, stream: int | None, limit: int, timeout: float) -> list[Any]:
        reader = self._delivery if self._feed is None else self._feed
        return reader.take(stream, limit, timeout)

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
        if self._feed is not None:
            self._feed.join(max(deadline - time.monotonic(), 1.0))
        if not ended:
            raise Transient(f"close: {self.consumer_id} could not leave the group in {_CLOSE_S:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
