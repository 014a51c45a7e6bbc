"""Who is in the Kafka group, after a broker's restart: what librdkafka 2.16.1 did on real brokers at one
restart of six, done here by a client that always does it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from groupshift.consumers import kafka_membership
from groupshift.consumers.kafka_membership import KafkaMembership
from groupshift.consumers.metrics import Counters
from groupshift.errors import Transient

PROPERTIES = {"group.id": "orders", "client.id": "orders_m1", "session.timeout.ms": 1}


class Client:
    """Lists the group only after it was asked for topics; ``answers`` says whether brokers do."""

    def __init__(self, *, forgot: bool, answers: bool = True) -> None:
        self.forgot, self.answers = forgot, answers
        self.asked: list[str] = []
        self.waited = 0.0

    def list_groups(self, group: str, timeout: float) -> list[Any]:
        """As ``AdminClient.list_groups``."""
        self.asked.append("groups")
        self.waited += timeout
        if self.forgot:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        member = SimpleNamespace(id="1", client_id="orders_m1", client_host="/127.0.0.1", assignment=b"")
        return [SimpleNamespace(id=group, state="Stable", protocol="range", members=[member])]

    def list_topics(self, timeout: float) -> None:
        """As ``AdminClient.list_topics``."""
        self.asked.append("topics")
        self.waited += timeout
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.forgot = False


def describing(monkeypatch: pytest.MonkeyPatch, client: Client) -> KafkaMembership:
    """Reads by ``client``."""
    monkeypatch.setattr(kafka_membership, "AdminClient", lambda _properties: client)
    monkeypatch.setattr(kafka_membership, "Consumer", lambda _properties: SimpleNamespace(close=None))
    return KafkaMembership(PROPERTIES, Counters())


def test_a_client_that_forgot_all_brokers_learns_of_them_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the one call, and within its time."""
    client = Client(forgot=True)
    found = describing(monkeypatch, client).describe(1.0)
    assert [member.client_id for member in found.members] == ["orders_m1"]
    assert client.asked == ["groups", "topics", "groups"]
    assert client.waited <= 2.0  # the first, which fails at once, and the rest of its time


@pytest.mark.parametrize("timeout", [1.0, 0.0])
def test_brokers_that_do_not_answer_are_no_answer(monkeypatch: pytest.MonkeyPatch, timeout: float) -> None:
    """And nobody is asked again when the time is over."""
    client = Client(forgot=True, answers=False)
    with pytest.raises(Transient, match="the Kafka group orders could not be listed"):
        describing(monkeypatch, client).describe(timeout)
    assert client.asked == (["groups", "topics"] if timeout else ["groups"])


def test_without_trouble_topics_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing of all topics is dear on a large cluster."""
    client = Client(forgot=False)
    describing(monkeypatch, client).describe(1.0)
    assert client.asked == ["groups"]
