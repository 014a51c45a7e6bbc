"""The positions of a consumer: what it commits, stores, and has been delivered."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.consumers.delivery import Delivery
from groupshift.consumers.parts import Parts
from groupshift.consumers.reconciler import Reconciler
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, GroupshiftError, Transient

_COMMIT_S = 10.0
_OFFSET_INVALID = -1001


class Positions:
    """The part of a consumer's public face that concerns offsets; see `GroupConsumer`."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._parts: Parts | None = None
        self._reconciler: Reconciler | None = None
        self._closed = False

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
        wanted = self._offsets(message, offsets)
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
        except (GroupshiftError, FutureTimeoutError) as error:
            raise _error(KafkaError.REQUEST_TIMED_OUT, f"commit: {error}") from error
        return [KafkaPartition(*each, at) for each, at in wanted.items()]

    def store_offsets(
        self, message: Message | None = None, offsets: Sequence[KafkaPartition] | None = None
    ) -> None:
        """Set what the next commit writes; for ``enable.auto.offset.store=false``."""
        wanted = self._offsets(message, offsets)
        if wanted is None:
            raise TypeError("store_offsets needs a message or offsets")
        if missing := self._delivery.store(wanted):
            raise _error(KafkaError._STATE, f"not assigned: {', '.join(map(str, missing))}")  # noqa: SLF001

    def committed(self, partitions: Sequence[KafkaPartition], timeout: float = 10.0) -> list[KafkaPartition]:
        """What a new owner would start from: the higher of both stores, -1001 where there is none."""
        parts, asked = self._running(), [TopicPartition(each.topic, each.partition) for each in partitions]
        try:
            nodes = parts.coordination.offsets(asked)
            stored = parts.membership.committed(asked, timeout) if parts.membership is not None else {}
        except Transient as error:
            raise _error(KafkaError.REQUEST_TIMED_OUT, f"committed: {error}") from error
        found = {
            each: [at for at in (nodes[each].value, stored.get(each)) if at is not None] for each in asked
        }
        return [KafkaPartition(*each, max(known, default=_OFFSET_INVALID)) for each, known in found.items()]

    def position(self, partitions: Sequence[KafkaPartition]) -> list[KafkaPartition]:
        """The next offset to be delivered, -1001 for partitions not assigned here."""
        known = self._delivery.next_offsets()
        wanted = [TopicPartition(each.topic, each.partition) for each in partitions]
        return [KafkaPartition(*each, known.get(each, _OFFSET_INVALID)) for each in wanted]

    def assignment(self) -> list[KafkaPartition]:
        """The partitions delivered here now."""
        return [KafkaPartition(*each) for each in sorted(self._delivery.next_offsets())]

    # -- inside ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")

    def _running(self) -> Parts:
        self._check_open()
        if self._parts is None:
            raise RuntimeError("not subscribed")
        return self._parts

    def _mine(self, partitions: Sequence[KafkaPartition]) -> list[TopicPartition]:
        wanted = [TopicPartition(each.topic, each.partition) for each in partitions]
        known = self._delivery.next_offsets()
        if missing := [each for each in wanted if each not in known]:
            raise _error(KafkaError._STATE, f"not assigned: {', '.join(map(str, missing))}")  # noqa: SLF001
        return wanted

    def _offsets(
        self, message: Message | None, offsets: Sequence[KafkaPartition] | None
    ) -> dict[TopicPartition, int] | None:
        if message is not None:
            return {TopicPartition(message.topic(), message.partition()): message.offset() + 1}
        if offsets is not None:
            return {TopicPartition(each.topic, each.partition): each.offset for each in offsets}
        return None


def _error(code: int, reason: str) -> KafkaException:
    return KafkaException(KafkaError(code, reason))
