"""Raw connections to listeners with PLAIN, SCRAM and TLS: the right credentials are served, wrong ones are
refused in one sentence, and no password is ever shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.domain.rows import ClusterState
from groupshift.errors import Rejected, Transient
from groupshift_sandbox.certificates import Certificates, make_certificates
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Node
from groupshift_sandbox.processes import marked, stop

PASSWORD = "wonder-land-1"
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="broker" password="{PASSWORD}" user_alice="{PASSWORD}";'
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
LISTENERS = {"WORDS": "SASL_PLAINTEXT", "SALTED": "SASL_SSL", "SEALED": "SSL"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, a server's and a client's certificate."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Node]:
    """A 4.3.1 broker with three more listeners: PLAIN, SCRAM over TLS, and client certificates."""
    home = Home(tmp_path_factory.mktemp("guarded")).create()
    scram = [f"SCRAM-SHA-{bits}=[name=alice,password={PASSWORD}]" for bits in (256, 512)]
    options = KraftOptions(
        listeners=LISTENERS,
        format_arguments=[part for one in scram for part in ("--add-scram", one)],
        properties={
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.words.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.words.plain.sasl.jaas.config": PLAIN,
            "listener.name.salted.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.salted.scram-sha-256.sasl.jaas.config": SCRAM,
            "listener.name.salted.scram-sha-512.sasl.jaas.config": SCRAM,
            "listener.name.sealed.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
        },
    )
    try:
        yield start_kraft(home, options).nodes[0]
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


def snapshot(address: str, properties: Mapping[str, str], *, timeout_s: float = 60.0) -> ClusterState:
    """A snapshot with these properties; a silent broker is asked again until the time is over."""
    cluster = KafkaCluster(address, properties=properties, timeout_s=timeout_s)
    snapshots = LiveGroupSnapshots(cluster, SystemClock())
    try:
        return snapshots.take()
    finally:
        snapshots.close()


def words(password: str, user: str = "alice", mechanism: str = "PLAIN") -> dict[str, str]:
    """Properties of the listener with user and password."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def salted(authority: Path, password: str, mechanism: str) -> dict[str, str]:
    """Properties of the listener with SCRAM over TLS."""
    return {
        **words(password, "alice", mechanism),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority),
    }


def test_plain_is_served(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """The broker answers at the listener that was asked, and the password is in no log."""
    caplog.set_level(logging.DEBUG)
    state = snapshot(node.at("WORDS"), words(PASSWORD))
    (broker,) = state.brokers
    assert f"{broker.host}:{broker.port}" == node.at("WORDS")
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_over_tls_is_served(node: Node, certificates: Certificates, mechanism: str) -> None:
    """Salted and encrypted, with the same properties that librdkafka takes."""
    properties = salted(certificates.authority, PASSWORD, mechanism)
    assert [each.node_id for each in snapshot(node.at("SALTED"), properties).brokers] == [1]


def test_a_client_certificate_is_served(node: Node, certificates: Certificates) -> None:
    """TLS on both sides, without a user."""
    properties = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_key),
    }
    assert [each.node_id for each in snapshot(node.at("SEALED"), properties).brokers] == [1]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused_at_once_and_not_shown(
    node: Node, certificates: Certificates, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One sentence with address and remedy; asking again would not help, so it is not done."""
    caplog.set_level(logging.DEBUG)
    if mechanism == "PLAIN":
        address, properties = node.at("WORDS"), words("looking-glass-2")
    else:
        address, properties = node.at("SALTED"), salted(certificates.authority, "looking-glass-2", mechanism)
    with pytest.raises(Rejected, match=r"refuses the credentials.*\[kafka\.properties\]") as caught:
        snapshot(address, properties)
    assert address in str(caught.value)
    assert "looking-glass-2" not in caplog.text + str(caught.value)


def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are(node: Node) -> None:
    """SCRAM at a listener that knows PLAIN only."""
    with pytest.raises(Rejected, match=r"SCRAM-SHA-256 is not enabled there; enabled are: PLAIN"):
        snapshot(node.at("WORDS"), words(PASSWORD, mechanism="SCRAM-SHA-256"))


def test_an_authority_that_is_not_trusted_is_said(node: Node, tmp_path: Path) -> None:
    """Another authority's certificate: no connection, and the sentence says why."""
    other = make_certificates(tmp_path)
    with pytest.raises(Transient, match="certificate"):
        snapshot(node.at("SALTED"), salted(other.authority, PASSWORD, "SCRAM-SHA-256"), timeout_s=8.0)


def test_a_plain_connection_to_a_tls_listener_says_what_may_be_wrong(node: Node) -> None:
    """The broker's TLS alert is no answer of Kafka's, or it closes the connection: never a hang."""
    with pytest.raises(Transient, match=r"security\.protocol|closed the connection"):
        snapshot(node.at("SEALED"), {}, timeout_s=8.0)
