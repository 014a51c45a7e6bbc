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
_LATE_S = 60.0
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

    A synchronous commit without an answer keeps the thread for a session timeout, and with it the word that
    the membership is lost, or (with a cooperative assignor) the callbacks of a join. So a commit polls while
    it waits, except inside a revocation (`blocking`), where the generation is known to be valid and nothing
    may be polled."""

    def __init__(self) -> None:
        self.blocking = False
        self._awaited: tuple[Asked, Future[None]] = (frozenset(), Future())
        self._given_up: list[tuple[Asked, float]] = []

    def commit(self, consumer: Consumer, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit and wait. Raises `Conflict` when the group no longer knows the member, else `Transient`."""
        wanted = [KafkaPartition(*each, offset) for each, offset in offsets.items()]
        try:
            if not self.blocking:
                self._poll_until_done(consumer, wanted)
                return
            for each in consumer.commit(offsets=wanted, asynchronous=False) or ():
                if each.error is not None:
                    raise _family(each.error)
        except KafkaException as error:
            raise _family(error.args[0]) from error
        except RuntimeError as error:
            raise Transient(f"the Kafka membership is closed: {error}") from error

    def _poll_until_done(self, consumer: Consumer, wanted: list[KafkaPartition]) -> None:
        asked, answered = _asked(wanted), Future[None]()
        self._awaited = (asked, answered)
        consumer.commit(offsets=wanted, asynchronous=True)
        deadline = time.monotonic() + _ANSWER_S
        while not answered.done() and time.monotonic() < deadline:
            consumer.poll(_TURN_S)
        if not answered.done():
            self._given_up.append((asked, deadline + _LATE_S))
            raise Transient("commit to Kafka: no answer from the coordinator")
        answered.result()

    def on_commit(self, error: KafkaError | None, partitions: list[KafkaPartition]) -> None:
        """The answer to the commit that is waited for, or to one that was given up: that one came first if
        both ask for the same, and it proves the membership of an earlier moment only."""
        asked, answered = self._awaited
        found, now = _asked(partitions), time.monotonic()
        self._given_up = [each for each in self._given_up if each[1] > now]
        late = next((each for each in self._given_up if each[0] == found), None)
        if late is not None:
            self._given_up.remove(late)
        elif not answered.done() and found == asked:
            self._answer(answered, error, partitions)

    @staticmethod
    def _answer(answered: Future[None], error: KafkaError | None, partitions: list[KafkaPartition]) -> None:
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
