"""A cluster that is not there, silent, or not named properly: bounded waits, one sentence, no secret."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import Access
from groupshift.adapters.kafka.wire import BrokerError, UnsupportedByBroker
from groupshift.errors import Rejected, Transient

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "wonder-land-1",
}


@pytest.fixture
def silent() -> Iterator[str]:
    """An address at which somebody accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("address", ["", "broker", "broker:", ":9092", "a:1,b", "a:one"])
def test_addresses_that_are_none_are_refused(address: str) -> None:
    """Before anything is opened, with what is expected."""
    with pytest.raises(Rejected, match=r"kafka\.bootstrap_servers .*: write host:port"):
        KafkaCluster(address)


def test_a_broker_that_says_nothing_is_given_up(silent: str) -> None:
    """Within the time, in words; the next attempt begins anew."""
    cluster = KafkaCluster(silent, properties=LOGIN, timeout_s=0.2)
    for _ in range(2):
        with pytest.raises(Transient, match="no answer in time") as caught:
            cluster.attempt(cluster.brokers)
        assert silent in str(caught.value)
        assert "wonder-land-1" not in str(caught.value)


def test_an_error_that_may_pass_is_asked_again_and_another_one_is_said(silent: str) -> None:
    """14 is repeated until it is gone; 29 is refused at once; a secret in a broker's words is struck out."""
    cluster = KafkaCluster(silent, properties=LOGIN, timeout_s=5.0)
    codes = [14, 14]

    def loading() -> str:
        if codes:
            raise BrokerError(codes.pop(), "groups")
        return "loaded"

    def forbidden() -> None:
        raise BrokerError(29, "topic 't'", said="not for wonder-land-1")

    def ancient() -> None:
        raise UnsupportedByBroker("the broker offers no version of FETCH")

    assert cluster.attempt(loading) == "loaded"
    with pytest.raises(Rejected, match=r"TOPIC_AUTHORIZATION_FAILED \(29\), not for \*\*\*"):
        cluster.attempt(forbidden)
    with pytest.raises(Rejected, match="is too old for this: the broker offers no version of FETCH"):
        cluster.attempt(ancient)


def test_credentials_are_not_printed_with_the_way_to_connect() -> None:
    """Whoever prints it for debugging shows no password."""
    assert "wonder-land-1" not in repr(Access(password="wonder-land-1"))
