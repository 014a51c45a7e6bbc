"""A broker that asks for a password: the right one is served, a wrong one is refused and never shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from groupshift.adapters.kafka.cluster import observer
from groupshift.adapters.kafka.groups import KafkaGroups
from groupshift.errors import Rejected
from groupshift_sandbox.faults import start_relay
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, create_topic, start_kafka
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.zookeeper import start_zookeeper
from support.coordinators_ready import await_coordinators

PASSWORD = "wonder-land-1"
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="broker" password="{PASSWORD}" user_broker="{PASSWORD}" user_alice="{PASSWORD}";'
)


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a listener with SASL/PLAIN (through a relay, whose port the broker tells clients)."""
    home = Home(tmp_path_factory.mktemp("protected")).create()
    options = KafkaOptions(
        relayed=1,
        initial_rebalance_delay_ms=0,
        properties={
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,RELAY0:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.relay0.plain.sasl.jaas.config": LOGIN,
        },
    )
    try:
        broker = start_kafka(home, start_zookeeper(home), options)
        await_coordinators(broker.address)
        create_topic(broker.address, "orders", 2)
        (listener,) = broker.relayed
        start_relay(home, "relay", listen=listener.advertised_port, target=f"127.0.0.1:{listener.port}")
        yield f"127.0.0.1:{listener.advertised_port}"
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


def observe(address: str, password: str):
    """The Kafka half of a group, asked for by alice."""
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": password,
    }
    groups = KafkaGroups(observer(address, properties=properties, timeout_s=60.0))
    try:
        return groups.observe("g")
    finally:
        groups.close()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Everything that is logged."""
    caplog.set_level(logging.DEBUG)
    return caplog


def test_the_right_password_is_served_and_not_shown(protected: str, log: pytest.LogCaptureFixture) -> None:
    """The properties are librdkafka's; a client that logs at DEBUG does not log the login."""
    side = observe(protected, PASSWORD)
    assert side.topics["orders"] == 2
    assert side.kafka.state == "Dead"
    assert any(record.name.startswith("groupshift.adapters.kafka") for record in log.records)
    assert PASSWORD not in log.text


def test_a_wrong_password_is_rejected_and_not_shown(protected: str, log: pytest.LogCaptureFixture) -> None:
    """The sentence names address, section and remedy; neither password is in it or in a log."""
    with pytest.raises(Rejected, match=r"refuses the credentials.*\[kafka\.properties\]") as caught:
        observe(protected, "looking-glass-2")
    assert protected in str(caught.value)
    assert "looking-glass-2" not in log.text + str(caught.value)
    assert PASSWORD not in log.text + str(caught.value)
