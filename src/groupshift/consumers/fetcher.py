"""`groupshift.ports.fetch.Fetch` on confluent-kafka: assign and seek only, no group membership."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.domain.partitions import TopicPartition
from groupshift.ports.fetch import Record, Reset

_LOG = logging.getLogger(__name__)
_LOOKUP_S = 2.0
_HANDOVER_S = 2.0


class KafkaFetch:
    """A consumer that is told what to fetch. `poll` may be called by one thread only.

    librdkafka discards what it had fetched for a removed partition; what `poll` returned just before
    is still in the hands of its caller, so `add` of a partition waits until the poll under way at
    its removal has come back for more.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._consumer = Consumer(dict(properties))
        self._rounds = threading.Condition()
        self._round = 0
        self._removed_in: dict[TopicPartition, int] = {}
        self._closed = False

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Takes effect without waiting for the broker."""
        if positions:
            self._await_rounds(positions)
            self._consumer.incremental_assign([KafkaPartition(*each, at) for each, at in positions.items()])

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Idempotent for partitions that were never added."""
        assigned = {(each.topic, each.partition) for each in self._consumer.assignment()}
        gone = [KafkaPartition(*each) for each in partitions if tuple(each) in assigned]
        if gone:
            self._consumer.incremental_unassign(gone)
        with self._rounds:
            self._removed_in.update(dict.fromkeys(partitions, self._round))

    def _await_rounds(self, partitions: Collection[TopicPartition]) -> None:
        deadline = time.monotonic() + _HANDOVER_S
        with self._rounds:
            last = max((self._removed_in.pop(each, -1) for each in partitions), default=-1)
            while self._round <= last and not self._closed and (left := deadline - time.monotonic()) > 0:
                self._rounds.wait(left)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """By removal and addition: a seek of a partition that is just starting is refused."""
        self.remove([partition])
        self.add({partition: offset})

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching without forgetting the position."""
        self._consumer.pause([KafkaPartition(*each) for each in partitions])

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Go on fetching."""
        self._consumer.resume([KafkaPartition(*each) for each in partitions])

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """The first record within ``timeout``, and whatever else is there already."""
        with self._rounds:
            self._round += 1
            self._rounds.notify_all()
        first = self._consumer.poll(timeout)
        if first is None:
            return ()
        return [first, *self._consumer.consume(limit - 1, timeout=0)] if limit > 1 else [first]

    def out_of_range(self, record: Record) -> TopicPartition | None:
        """The client reports it as a failed automatic reset."""
        if not isinstance(record, Message) or record.error() is None:
            return None
        code, topic, partition = record.error().code(), record.topic(), record.partition()
        if code not in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            return None
        return None if topic is None or partition is None else TopicPartition(topic, partition)

    def reset(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """ListOffsets at the leader of each partition."""
        result: dict[TopicPartition, int] = {}
        for each in partitions:
            try:
                marks = self._consumer.get_watermark_offsets(KafkaPartition(*each), timeout=_LOOKUP_S)
            except KafkaException as error:
                _LOG.warning("no log start and end of %s: %s", each, error)
                continue
            if marks is not None:
                result[each] = marks[0] if to is Reset.EARLIEST else marks[1]
        return result

    def end_of(self, partition: TopicPartition) -> int | None:
        """High watermark of the last fetch."""
        marks = self._consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)
        return None if marks is None or marks[1] < 0 else int(marks[1])

    def close(self) -> None:
        """Only after the polling thread has ended."""
        with self._rounds:
            self._closed = True
            self._rounds.notify_all()
        self._consumer.close()
