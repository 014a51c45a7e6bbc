"""Commits of the embedded Kafka consumer, made on the thread that owns it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, Transient

_ANSWER_S = 1.0
_TURN_S = 0.005
_FORGOTTEN = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
    }
)

Asked = frozenset[tuple[str, int, int]]


class KafkaCommits:
    """``on_commit`` has to be the consumer's callback of that name.

    With a cooperative assignor a rebalance begins unnoticed: a synchronous commit would then keep back the
    thread on which the join's callbacks run. There a commit polls while it waits, except inside a
    revocation (`blocking`), where the generation is known to be valid and nothing may be polled."""

    def __init__(self, *, incremental: bool) -> None:
        self._incremental = incremental
        self.blocking = False
        self._awaited: tuple[Asked, Future[None]] = (frozenset(), Future())

    def commit(self, consumer: Consumer, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit and wait. Raises `Conflict` when the group no longer knows the member, else `Transient`."""
        wanted = [KafkaPartition(*each, offset) for each, offset in offsets.items()]
        try:
            if self._incremental and not self.blocking:
                self._poll_until_done(consumer, wanted)
            else:
                for each in consumer.commit(offsets=wanted, asynchronous=False) or ():
                    if each.error is not None:
                        raise _family(each.error)
        except KafkaException as error:
            raise _family(error.args[0]) from error
        except RuntimeError as error:
            raise Transient(f"the Kafka membership is closed: {error}") from error

    def _poll_until_done(self, consumer: Consumer, wanted: list[KafkaPartition]) -> None:
        answered: Future[None] = Future()
        self._awaited = (_asked(wanted), answered)
        consumer.commit(offsets=wanted, asynchronous=True)
        deadline = time.monotonic() + _ANSWER_S
        while not answered.done() and time.monotonic() < deadline:
            consumer.poll(_TURN_S)
        if not answered.done():
            raise Transient("commit to Kafka: no answer from the coordinator")
        answered.result()

    def on_commit(self, error: KafkaError | None, partitions: list[KafkaPartition]) -> None:
        """The answer to the commit that is waited for, or to one that was given up."""
        asked, answered = self._awaited
        if answered.done() or _asked(partitions) != asked:
            return
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        if failed is None:
            answered.set_result(None)
        else:
            answered.set_exception(_family(failed))


def _asked(partitions: list[KafkaPartition]) -> Asked:
    return frozenset((each.topic, each.partition, each.offset) for each in partitions)


def _family(error: KafkaError) -> Conflict | Transient:
    if error.code() in _FORGOTTEN:
        return Conflict(f"the Kafka group no longer knows this member: {error}")
    return Transient(f"commit to Kafka failed: {error}")
