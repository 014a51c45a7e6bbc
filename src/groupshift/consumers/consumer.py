"""The consumers of this library, with confluent-kafka's signatures.

`MigratingConsumer` follows its group's mode (KIP-125); `ZookeeperConsumer` keeps to the old protocol.
`GroupConsumer` is what both share. A member subscribes to names with streams, to one topic filter, or to
nothing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final, Self

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.adapters.zookeeper.login import make_client
from groupshift.consumers.callbacks import Callbacks, GroupCallback, PartitionCallback
from groupshift.consumers.config import PREFIX, ConsumerConfig, connecting, parse, refusal
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.fetcher import Feed, KafkaFetch
from groupshift.consumers.group_state import Parts
from groupshift.consumers.kafka_membership import KafkaMembership
from groupshift.consumers.metrics import (
    ConsumerStatus,
    Counters,
    MetricsEndpoint,
    Stream,
    prometheus,
    statistics,
)
from groupshift.consumers.reconciler import Reconciler
from groupshift.consumers.zookeeper_nodes import find_brokers
from groupshift.consumers.zookeeper_session import FOR_EVER, ZookeeperCoordination
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import MOST_STREAMS, Pattern
from groupshift.domain.topic_filter import Blacklist, Whitelist, clean_filter, compile_filter
from groupshift.errors import Conflict, GroupshiftError, Rejected, Transient

Topics = Mapping[str, int] | Sequence[str] | Whitelist | Blacklist
"""The argument of ``subscribe``."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LOG = logging.getLogger(__name__)
_COMMIT_S = 10.0


_CLOSE_S = 9.0
_LEAVE_TURN_S = 0.02


def _error(code: int, reason: str) -> KafkaException:
    return KafkaException(KafkaError(code, reason))


def _places(partitions: Sequence[KafkaPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


def _wanted(
    message: Message | None, offsets: Sequence[KafkaPartition] | None
) -> dict[TopicPartition, int] | None:
    """The offsets that a call names: a message's successor, or the given ones; None: it names none."""
    if message is not None:
        return {TopicPartition(message.topic(), message.partition()): message.offset() + 1}
    if offsets is None:
        return None
    return {TopicPartition(each.topic, each.partition): each.offset for each in offsets}


def _refuse_missing(missing: Sequence[TopicPartition]) -> None:
    if missing:
        raise _error(KafkaError._STATE, f"not assigned: {', '.join(map(str, missing))}")  # noqa: SLF001


class GroupConsumer:
    """A member of a ZooKeeper-coordinated group. Use `ZookeeperConsumer` or `MigratingConsumer`.

    ``config`` takes the old consumer's keys (``group.id``, ``zookeeper.connect``, …), ``consumer.id``,
    and librdkafka's; see `groupshift.consumers.config`. Raises `Rejected` for a bad one.
    Methods raise `confluent_kafka.KafkaException` where `confluent_kafka.Consumer` does, and
    `RuntimeError` once closed.
    """

    _migrating = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = parse(config, migrating=self._migrating)
        self._delivery = Delivery(store_on_delivery=self._config.store_on_delivery)
        self._parts: Parts | None = None
        self._reconciler: Reconciler | None = None
        self._feed: Feed | None = None
        self._endpoint: MetricsEndpoint | None = None
        self._streams = 0
        self._closing = self._closed = False

    # -- joining ---------------------------------------------------------------------------------

    @property
    def consumer_id(self) -> str:
        """``<group>_<consumer.id>``: the name under which this member is registered."""
        return self._config.member.consumer_id

    def subscribe(
        self,
        topics: Topics,
        on_assign: PartitionCallback | None = None,
        on_revoke: PartitionCallback | None = None,
        on_lost: PartitionCallback | None = None,
        *,
        on_group_assigned: GroupCallback | None = None,
    ) -> None:
        """Join the group. ``topics``: topic → number of streams, names with one stream each, a
        `Whitelist` or a `Blacklist`; an empty one joins and owns nothing.

        The callbacks are called by threads that poll, consume or close, with this consumer and partitions;
        ``on_group_assigned`` gets the `GroupAssignment` of the whole group (docs/service-teams/consumers.md).

        Once per consumer, unless it failed. Raises `Rejected` for a bad subscription, `Transient` without
        ZooKeeper."""
        self._check_open()
        if self._reconciler is not None:
            raise Rejected("subscribe: streams can be created once per consumer; make another consumer")
        subscription, pattern = read_subscription(topics)
        application = Callbacks(self, self._delivery.notify, on_assign, on_revoke, on_lost, on_group_assigned)
        member = replace(self._config.member, subscription=subscription, pattern=pattern)
        names = tuple(sorted(subscription)) if pattern is Pattern.STATIC else ()
        with ExitStack() as undo:  # nothing was registered yet: it may be tried again
            parts = make_parts(self._config, self._delivery, application, names)
            undo.callback(parts.fetch.close)
            if parts.membership is not None:
                undo.callback(parts.membership.close, 0)
            undo.callback(parts.coordination.close)
            reconciler = Reconciler(member, parts, self._config.policy)
            feed = Feed(self.consumer_id, parts.fetch, self._delivery, reconciler.out_of_range)
            port, text = self._config.metrics_port, lambda: prometheus(self.statistics())
            endpoint = None if port is None else MetricsEndpoint(port, text)
            if endpoint is not None:
                undo.callback(endpoint.close)
            parts.coordination.start(reconciler, self._config.connect_s)
            self._parts, self._reconciler, self._feed, self._endpoint = parts, reconciler, feed, endpoint
            self._streams = max(subscription.values(), default=0)
            feed.start()
            reconciler.start()
            undo.pop_all()

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
        parts, wanted = self._running(), self._assigned(partitions)
        self._delivery.pause(wanted, parts.fetch.pause)

    def resume(self, partitions: Sequence[KafkaPartition]) -> None:
        """Go on delivering, at the same position."""
        parts, wanted = self._running(), self._assigned(partitions)
        self._delivery.resume(wanted, parts.fetch.add)

    # -- offsets ---------------------------------------------------------------------------------

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[KafkaPartition] | None = None,
        *,
        asynchronous: bool = True,
    ) -> list[KafkaPartition] | None:
        """Commit to both stores in the order of the mode: a message's successor, ``offsets``, or all stored.

        Synchronous: returns what was committed; raises `KafkaException` when it could not be."""
        self._running()
        wanted = _wanted(message, offsets)
        if wanted is None:
            wanted = self._delivery.positions()
        if self._reconciler is None:
            raise RuntimeError("not subscribed")
        done = self._reconciler.commit(wanted)
        if asynchronous:
            return None
        try:
            done.result(_COMMIT_S)
        except Conflict as error:
            raise _error(KafkaError._ASSIGNMENT_LOST, f"commit: {error}") from error  # noqa: SLF001
        except (GroupshiftError, TimeoutError) as error:
            raise _error(KafkaError.REQUEST_TIMED_OUT, f"commit: {error}") from error
        return [KafkaPartition(*each, at) for each, at in wanted.items()]

    def store_offsets(
        self, message: Message | None = None, offsets: Sequence[KafkaPartition] | None = None
    ) -> None:
        """Set what the next commit writes; for ``enable.auto.offset.store=false``."""
        wanted = _wanted(message, offsets)
        if wanted is None:
            raise TypeError("store_offsets needs a message or offsets")
        _refuse_missing(self._delivery.store(wanted))

    def committed(self, partitions: Sequence[KafkaPartition], timeout: float = 10.0) -> list[KafkaPartition]:
        """What a new owner would start from: the higher of both stores, -1001 where there is none."""
        parts, places = self._running(), _places(partitions)
        try:
            nodes = parts.coordination.offsets(places)
            stored = parts.membership.committed(places, timeout) if parts.membership is not None else {}
        except Transient as error:
            raise _error(KafkaError.REQUEST_TIMED_OUT, f"committed: {error}") from error
        both = {each: (nodes[each].value, stored.get(each)) for each in places}
        known = {each: [at for at in offsets if at is not None] for each, offsets in both.items()}
        return [KafkaPartition(*each, max(known[each], default=OFFSET_INVALID)) for each in places]

    def position(self, partitions: Sequence[KafkaPartition]) -> list[KafkaPartition]:
        """The next offset to be delivered, -1001 for partitions not assigned here."""
        known = self._delivery.next_offsets()
        return [KafkaPartition(*each, known.get(each, OFFSET_INVALID)) for each in _places(partitions)]

    def assignment(self) -> list[KafkaPartition]:
        """The partitions delivered here now."""
        return [KafkaPartition(*each) for each in sorted(self._delivery.next_offsets())]

    # -- state -----------------------------------------------------------------------------------

    def status(self) -> ConsumerStatus:
        """Mode, owned partitions, lag and alarms, without asking anyone."""
        if self._parts is None or self._reconciler is None:
            return ConsumerStatus(mode=None, owned=frozenset(), lag={}, alarms=())
        positions = {} if self._closed else self._delivery.next_offsets()
        ends = {each: self._parts.fetch.end_of(each) for each in positions}
        return ConsumerStatus(
            mode=self._reconciler.mode,
            owned=self._reconciler.held(),
            lag={each: max(end - positions[each], 0) for each, end in ends.items() if end is not None},
            alarms=self._reconciler.alarms,
        )

    def statistics(self) -> dict[str, Any]:
        """The metrics as plain values, without asking anyone; docs/service-teams/consumers.md lists them."""
        config = self._config
        return statistics(
            {"client_id": config.client_id, "group_id": config.group, "consumer_id": self.consumer_id},
            self.status(),
            Counters() if self._parts is None else self._parts.counters,
            assigned=0 if self._reconciler is None else self._reconciler.assigned_count,
            queued=self._delivery.buffered(),
        )

    @property
    def metrics_port(self) -> int | None:
        """Where ``/metrics`` is served on 127.0.0.1; None without ``metrics.port`` or not subscribed."""
        return None if self._endpoint is None else self._endpoint.port

    # -- leaving ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit (with auto commit), give everything up and leave; at most 10 s. Idempotent.

        Raises `Transient` when ZooKeeper or Kafka kept it from ending in time."""
        if self._closing:
            return
        self._closing = True
        self._delivery.done()
        deadline = time.monotonic() + _CLOSE_S
        ended = self._reconciler is None or self._leave(self._reconciler, deadline)
        self._closed = True
        self._delivery.close()
        if self._feed is not None:
            self._feed.join(max(deadline - time.monotonic(), 1.0))
        if self._endpoint is not None:
            self._endpoint.close()
        if not ended:
            raise Transient(f"close: {self.consumer_id} could not leave the group in {_CLOSE_S:g} s")

    def _leave(self, reconciler: Reconciler, deadline: float) -> bool:
        """Run callbacks while the member leaves: this thread is the application's."""
        ended = reconciler.close(0)
        while not ended and time.monotonic() < deadline:
            try:
                self._delivery.take(None, 0, _LEAVE_TURN_S)
            except Exception:  # noqa: BLE001 (the application's, whatever it is: leaving goes on)
                if self._delivery.closed:  # the last step of leaving does that
                    return reconciler.close(max(deadline - time.monotonic(), 0))
                _LOG.exception("%s: a callback failed while leaving", self.consumer_id)
            ended = reconciler.close(0)
        return ended

    # -- inside ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")

    def _running(self) -> Parts:
        self._check_open()
        if self._parts is None:
            raise RuntimeError("not subscribed")
        return self._parts

    def _assigned(self, partitions: Sequence[KafkaPartition]) -> list[TopicPartition]:
        wanted, known = _places(partitions), self._delivery.next_offsets()
        _refuse_missing([each for each in wanted if each not in known])
        return wanted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def make_parts(
    config: ConsumerConfig, delivery: Delivery, application: Callbacks, topics: Collection[str]
) -> Parts:
    """The clients of a member; none of them has joined anything yet. Raises `Rejected` for properties that
    librdkafka does not take together.

    Those of Kafka are connected and know where ``topics`` and the coordinator are, if the brokers answer:
    from the moment the member is registered, others wait for it."""
    counters = Counters()
    try:
        fetching, embedded = config.fetcher(), config.embedded() if config.member.aware else None
        if "bootstrap.servers" not in fetching:
            protocol = str(fetching.get("security.protocol", "PLAINTEXT")).upper()
            fetching["bootstrap.servers"] = find_brokers(
                config.zookeeper, config.connect_s, protocol, config.login
            )
        _check_login(fetching, embedded, topics)
        membership = None if embedded is None else KafkaMembership(embedded, counters)
        fetch = KafkaFetch(fetching)
        fetch.warm(topics)
        if membership is not None:
            membership.warm(topics)
    except KafkaException as error:
        raise Rejected(f"consumer configuration: {error.args[0].str()}: correct it") from error
    client = make_client(config.zookeeper, config.session_s, config.login, connection_retry=dict(FOR_EVER))
    return Parts(
        coordination=ZookeeperCoordination(
            client, config.group, config.member.consumer_id, login=config.login, hidden=config.member.hidden
        ),
        membership=membership,
        fetch=fetch,
        delivery=delivery,
        application=application,
        counters=counters,
    )


def _check_login(fetching: dict[str, Any], embedded: dict[str, Any] | None, topics: Collection[str]) -> None:
    """Raises `Rejected` when the brokers refuse this member: registered, it would keep a share that nobody
    reads. The membership is asked for where it logs in otherwise than the fetcher."""
    tried = []
    for prefix, properties in (("", fetching), (PREFIX, embedded or fetching)):
        login = {**connecting(properties), "client.id": ""}
        if login not in tried and (problem := refusal(properties, topics, prefix)):
            raise Rejected(f"consumer configuration: {problem}")
        tried.append(login)


def read_subscription(topics: Topics) -> tuple[Mapping[str, int], Pattern]:
    """Check the argument of ``subscribe``: topic → streams, or with a wildcard one cleaned expression →
    streams. Raises `Rejected` with what is wrong and what to write."""
    pattern = Pattern.STATIC
    if isinstance(topics, Whitelist | Blacklist):
        pattern = Pattern.WHITE_LIST if isinstance(topics, Whitelist) else Pattern.BLACK_LIST
        compile_filter(topics.regex)
        streams_of = {clean_filter(topics.regex): topics.streams}
        if "" in streams_of:
            raise Rejected("subscribe: an empty topic filter matches nothing; write an expression")
    elif isinstance(topics, str):
        raise Rejected(f"subscribe: {topics!r} is one name; pass a list of names, or topic → streams")
    else:
        streams_of = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        if bad := [each for each in streams_of if not isinstance(each, str) or not _NAME.fullmatch(each)]:
            raise Rejected(f"subscribe: {bad[0]!r} is no topic name; for an expression pass Whitelist(…)")
    for topic, streams in streams_of.items():
        if isinstance(streams, bool) or not isinstance(streams, int) or not 1 <= streams <= MOST_STREAMS:
            raise Rejected(
                f"subscribe: {streams!r} streams of {topic!r}; a stream count is 1 or more, "
                f"and at most {MOST_STREAMS}"
            )
    return streams_of, pattern


class MigratingConsumer(GroupConsumer):
    """Takes part in ZooKeeper and Kafka coordination at once and obeys the one the mode node names.

    Commits to both stores. ``coordination.migration.<key>`` sets a key of the embedded Kafka consumer;
    ``bootstrap.servers`` alone suffices. With ``coordination.migration.enabled=false`` it is a
    `ZookeeperConsumer`: no migration id, no Kafka membership.
    Source: KIP-125; docs/reference/zookeeper-coordination.md §8.10.
    """

    _migrating = True


class ZookeeperConsumer(GroupConsumer):
    """Coordinates and commits through ZooKeeper only, side by side with the Scala high-level consumer.

    It is not migration-aware: a group with one of these stays in ZooKeeper mode.
    Source: docs/reference/zookeeper-coordination.md §§1-7.
    """

    _migrating = False
