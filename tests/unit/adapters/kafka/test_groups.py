"""What observers make of the brokers' answers and errors."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster, observer
from groupshift.adapters.kafka.connection_and_login import LoginRefused
from groupshift.adapters.kafka.groups import ListedKafkaGroups
from groupshift.adapters.kafka.wire import BrokerError, UnsupportedByBroker
from groupshift.errors import Rejected, Transient

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "wonder-land-1",
}


def cluster(patch: pytest.MonkeyPatch, *topics: SimpleNamespace) -> KafkaCluster:
    """A cluster whose brokers answer with these topics."""
    made = KafkaCluster("127.0.0.1:1")
    patch.setattr(made, "_any", lambda: None)
    patch.setattr(made, "_metadata", lambda *_: SimpleNamespace(topics=topics))
    return made


def test_partitions_are_told_with_their_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that has none now."""
    parts = [
        SimpleNamespace(partition_index=number, leader_id=leader) for number, leader in ((0, 7), (1, -1))
    ]
    answered = cluster(monkeypatch, SimpleNamespace(name="orders", partitions=parts))
    assert answered.all_leaders() == {("orders", 0): 7, ("orders", 1): -1}


def test_a_broker_that_names_no_topic_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has just started: every topic would seem to be gone."""
    with pytest.raises(OSError, match="names no topic"):
        cluster(monkeypatch).all_leaders()


@pytest.mark.parametrize(
    ("versions", "release"),
    [({2: range(5)}, ""), ({0: range(9)}, "2.4"), ({0: range(3, 14), 2: range(1, 12)}, "4.2")],
)
def test_brokers_are_met_with_the_release_of_their_requests(
    monkeypatch: pytest.MonkeyPatch, versions: dict[int, range], release: str
) -> None:
    """The newest request tells; one that was not asked, and an older one, tell none."""
    from groupshift.adapters.kafka.connection_and_login import BrokerConnection
    from groupshift.domain.rows import BrokerRow

    made, connection = KafkaCluster("127.0.0.1:1"), BrokerConnection.__new__(BrokerConnection)
    connection.versions = versions
    nodes = {number: BrokerRow(node_id=number, host="b", port=9092) for number in (2, 1)}
    monkeypatch.setattr(made, "_nodes", nodes)
    monkeypatch.setattr(made, "_connections", {1: connection})
    speaks = f", speaks {release}" if release else ""
    assert made.known_brokers() == (f"broker 1 at b:9092{speaks}", "broker 2 at b:9092")


@pytest.mark.parametrize(
    ("code", "said"),
    [(30, "Describe the group"), (29, "Describe a topic"), (31, "Describe the cluster")],
)
def test_a_right_that_is_missing_is_named_at_once_with_the_user(code: int, said: str) -> None:
    """Secrets in a broker's words are struck out."""

    def work() -> None:
        raise BrokerError(code, "it", said="not for wonder-land-1")

    connection = observer("127.0.0.1:1", properties=LOGIN, timeout_s=60.0)
    with pytest.raises(Rejected, match=f"does not allow user 'alice' to {said} .*: grant it") as caught:
        connection.attempt(work)
    assert "wonder-land-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (LoginRefused("not wonder-land-1"), r"refuses the credentials \(not \*\*\*\)"),
        (UnsupportedByBroker("no version of FETCH"), "is too old for this: no version of FETCH"),
    ],
)
def test_what_asking_again_does_not_help_is_not_asked_again(failure: Exception, said: str) -> None:
    """One sentence at once."""
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        raise failure

    with pytest.raises(Rejected, match=said):
        observer("127.0.0.1:1", properties=LOGIN, timeout_s=60.0).attempt(work)
    assert len(attempts) == 1


def test_any_other_error_is_asked_again_and_its_cause_outlives_a_silence() -> None:
    """A topic that is not known yet, then nothing: the sentence tells of the topic."""
    failures: list[Exception] = [BrokerError(3, "orders-0")]

    def work() -> None:
        raise failures.pop() if failures else TimeoutError("no answer in time")

    with pytest.raises(Transient, match=r"UNKNOWN_TOPIC_OR_PARTITION \(3\)"):
        observer("127.0.0.1:1", timeout_s=0.3).attempt(work)
    assert not failures


def test_a_silent_server_is_given_up_within_the_time_of_the_call() -> None:
    """However many waits an attempt has; threads come one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = observer(f"127.0.0.1:{server.getsockname()[1]}", timeout_s=1.5)
        caught: list[Exception] = []

        def ask() -> None:
            with pytest.raises(Transient, match="no answer in time") as failed:
                ListedKafkaGroups(connection).groups()
            caught.append(failed.value)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        before = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(caught) == 2
        assert time.monotonic() - before > 2 * 1.5 - 0.5


def test_an_error_that_nobody_foresaw_closes_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call begins anew."""
    closed: list[int] = []
    monkeypatch.setattr(KafkaCluster, "close", lambda _: closed.append(1))

    def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        observer("127.0.0.1:1", timeout_s=60.0).attempt(work)
    assert closed == [1]


def test_files_are_loaded_when_an_observer_connects_and_anew_after_an_error(tmp_path: Path) -> None:
    """Pulling the brake needs no Kafka, so a missing certificate does not stop it; a new one is used."""
    ca = tmp_path / "certificates"
    properties = {"security.protocol": "SSL", "ssl.ca.location": str(ca)}
    connection = observer("127.0.0.1:1", properties=properties, timeout_s=0.3)
    for _ in range(2):
        with pytest.raises(Rejected, match="the files that the ssl keys name cannot be loaded"):
            connection.attempt(connection.brokers)
    ca.mkdir()  # a folder of certificates
    with pytest.raises(Transient):
        connection.attempt(connection.brokers)
    ca.rmdir()
    with pytest.raises(Rejected, match="the files that the ssl keys name cannot be loaded"):
        connection.attempt(connection.brokers)
