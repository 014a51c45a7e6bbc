"""An ordinary Kafka consumer, of the classic or of the consumer protocol, whose membership ends with a word.

librdkafka tells a native member that it is none any more by a message whose error has code -150, while
`fatal()` is False and ``error_cb`` stays silent; the consumer is silent from then on
(docs/reference/hazards.md, H27).
Whoever only takes records never learns it. Here it is an exception.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.consumers.config import addressed
from groupshift.consumers.metrics import ConsumerStatus
from groupshift.domain.addresses import login_problem
from groupshift.domain.group_protocol import Protocol
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Rejected, Transient

_FATAL = -150
_CLOSE_S = 10.0
_CLASSIC = {"partition.assignment.strategy": "range", "session.timeout.ms": 10_000}
"""Defaults that a native member may not have: its coordinator decides both."""


class PlainConsumer:
    """A member of group ``config['group.id']`` that reads whole topics; ``config`` is librdkafka's and wins.

    Reset is earliest, so that nothing is skipped (O8). Raises `Rejected` for a configuration that librdkafka
    does not take, `Broken` once the membership has ended for good."""

    def __init__(self, config: Mapping[str, Any], topics: Collection[str], protocol: Protocol) -> None:
        defaults: dict[str, Any] = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 1000}
        defaults |= _CLASSIC if protocol is Protocol.CLASSIC else {}
        self._member = f"{config['client.id']} of group {config['group.id']}"
        self._failed = ""
        if config.get("group.protocol", protocol.value) != protocol.value:
            raise Rejected(
                f"member {self._member}: group.protocol is {config['group.protocol']}, but the member is to "
                f"speak the {protocol} protocol: leave the property out, or choose the other kind"
            )
        if without_effect := login_problem(config):
            raise Rejected(f"member {self._member}: {without_effect}")
        config = {**config, **addressed(config)}
        try:
            self._consumer = Consumer({**defaults, **config, "group.protocol": protocol.value})
            self._consumer.subscribe(list(topics))
        except KafkaException as error:
            raise Rejected(f"member {self._member}: librdkafka refuses the configuration: {error}") from error

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        """The first record within ``timeout`` seconds and what is there already, other errors included.

        Raises `Broken` after the last records that came before the end of the membership."""
        if self._failed:
            raise Broken(self._failed)
        first = self._consumer.poll(timeout)
        messages = [] if first is None else [first, *self._consumer.consume(num_messages - 1, timeout=0)]
        records = [each for each in messages if not _fatal(each)]
        if len(records) < len(messages):
            reason = next(each for each in messages if _fatal(each)).error().str()
            self._failed = (
                f"member {self._member} was put out for good: {reason}; see what the coordinator"
                " refuses with: groupshift protocol assess, then start it again"
            )
        if self._failed and not records:
            raise Broken(self._failed)
        return records

    def status(self) -> ConsumerStatus:
        """Owned partitions and the lag of those whose log end is known; a classic or native member has no
        mode."""
        held = self._consumer.position(self._consumer.assignment())
        lag = {}
        for at in held:
            marks = self._consumer.get_watermark_offsets(KafkaPartition(at.topic, at.partition), cached=True)
            if at.offset >= 0 and marks is not None and marks[1] >= 0:
                lag[TopicPartition(at.topic, at.partition)] = max(marks[1] - at.offset, 0)
        owned = frozenset(TopicPartition(at.topic, at.partition) for at in held)
        return ConsumerStatus(mode=None, owned=owned, lag=lag, alarms=())

    def close(self) -> None:
        """Commit and leave. Of a membership that has ended there is nothing to leave: then at most 10 s."""
        if self._failed:
            closing = threading.Thread(target=self._abandon, daemon=True)
            closing.start()
            closing.join(_CLOSE_S)
            return
        try:
            self._consumer.close()
        except KafkaException as error:
            raise Transient(f"leaving the group: {error}") from error

    def _abandon(self) -> None:
        with suppress(KafkaException):
            self._consumer.close()


def _fatal(message: Message) -> bool:
    error = message.error()
    return error is not None and (error.code() == _FATAL or error.fatal())
