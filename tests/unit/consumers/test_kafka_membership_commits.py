"""Which answer belongs to which commit to Kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from groupshift.consumers import kafka_membership
from groupshift.consumers.kafka_membership import KafkaCommits
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, Transient

ORDERS = {TopicPartition("orders", 0): 7}


class Coordinator:
    """Takes commits as a consumer does and answers them, in order, only when it is told to."""

    def __init__(self, answering: KafkaCommits) -> None:
        self._answering = answering
        self._asked: list[list[object]] = []
        self.answers: list[KafkaError | None] = []

    def commit(self, *, offsets, asynchronous):
        """Keep it; a synchronous one would keep the thread."""
        assert asynchronous
        self._asked.append(offsets)

    def poll(self, _timeout):
        """Answer one commit if there is an answer."""
        if self.answers and self._asked:
            self._answering.on_commit(self.answers.pop(0), self._asked.pop(0))


@pytest.fixture
def answering(monkeypatch) -> KafkaCommits:
    """Commits that are given up soon."""
    monkeypatch.setattr(kafka_membership, "_ANSWER_S", 0.02)
    return KafkaCommits()


def test_a_commit_ends_with_its_answer_and_an_unknown_member_is_a_conflict(answering):
    """The answer is taken while it polls."""
    coordinator = Coordinator(answering)
    coordinator.answers = [None]
    answering.commit(coordinator, ORDERS)
    coordinator.answers = [KafkaError(KafkaError.UNKNOWN_MEMBER_ID)]
    with pytest.raises(Conflict, match="no longer knows"):
        answering.commit(coordinator, ORDERS)


def test_the_late_answer_to_a_commit_that_was_given_up_proves_nothing_for_the_next(answering):
    """Both ask for the same; the first was accepted, the member forgotten since."""
    coordinator = Coordinator(answering)
    with pytest.raises(Transient, match="no answer"):
        answering.commit(coordinator, ORDERS)
    coordinator.answers = [None]
    with pytest.raises(Transient, match="no answer"):
        answering.commit(coordinator, ORDERS)
    coordinator.answers = [KafkaError(KafkaError.ILLEGAL_GENERATION)] * 2
    with pytest.raises(Conflict):
        answering.commit(coordinator, ORDERS)


def test_an_answer_that_never_came_is_not_waited_for_for_ever(answering, monkeypatch):
    """Else every later commit of an idle partition would take the answer to the one before."""
    monkeypatch.setattr(kafka_membership, "_LATE_S", -1.0)
    coordinator = Coordinator(answering)
    with pytest.raises(Transient):
        answering.commit(coordinator, ORDERS)
    coordinator._asked.clear()
    coordinator.answers = [None]
    answering.commit(coordinator, ORDERS)
