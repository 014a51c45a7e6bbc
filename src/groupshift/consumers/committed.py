"""What the Kafka group has committed, asked beside its membership.

A broker answers the requests of one connection in order, and a JoinGroup only when the rebalance is over:
what is asked on the member's own connection waits for it (observed: 1 to 3 s at every join).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.consumers.librdkafka import connecting
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient

_LOG = logging.getLogger(__name__)


class CommittedOffsets:
    """A client that never joins. ``properties`` are the member's; may be called from any thread."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        group = {"group.id": properties["group.id"], "enable.auto.commit": False}
        self._consumer = Consumer({**connecting(properties), **group})
        self._turn = threading.Lock()
        self._closed = False

    def warm(self, topic: str, timeout: float) -> None:
        """Find the coordinator, if it answers."""
        try:
            self.read([TopicPartition(topic, 0)], timeout)
        except Transient as error:
            _LOG.info("%s", error)

    def read(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, int | None]:
        """One OffsetFetch for all; None where there is none. Raises `Transient` after ``timeout`` seconds."""
        asked = [KafkaPartition(*each) for each in partitions]
        if not self._turn.acquire(timeout=timeout):
            raise Transient(f"committed offsets: no answer within {timeout:g} s")
        try:
            if self._closed:
                raise Transient("committed offsets: the consumer is closed")
            answer = self._consumer.committed(asked, timeout=timeout)
        except (KafkaException, RuntimeError) as error:
            raise Transient(f"the group coordinator did not give the committed offsets: {error}") from error
        finally:
            self._turn.release()
        failed = next((each.error for each in answer if each.error is not None), None)
        if failed is not None:
            raise Transient(f"the group coordinator did not give the committed offsets: {failed}")
        return {
            TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else None
            for each in answer
        }

    def close(self) -> None:
        """Idempotent."""
        with self._turn:
            if not self._closed:
                self._closed = True
                self._consumer.close()
