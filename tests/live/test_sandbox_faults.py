"""Relays and other faults, on plain sockets and on the real servers."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient, KazooState

from groupshift.errors import Rejected
from groupshift_sandbox import faults
from groupshift_sandbox.processes import free_port, is_running, stop, wait_until


class Echo(threading.Thread):
    """A server that sends back what it gets."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self) -> None:
        """Serve until the listener is closed."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65_536):
                connection.sendall(data)


@pytest.fixture
def link(cluster):
    """A relay before an echo server."""
    echo = Echo()
    echo.start()
    made = faults.start_relay(
        cluster.home, f"relay-{echo.port}", listen=free_port(), target=f"127.0.0.1:{echo.port}"
    )
    yield made
    stop(made.process)
    echo.listener.close()


def _connect(link: faults.Link) -> socket.socket:
    host, _, port = link.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.settimeout(10)
    return connection


def _is_closed(connection: socket.socket) -> bool:
    """True when the other side ended the connection, with or without a reset."""
    try:
        connection.sendall(b"x")
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_relay_passes_bytes_and_a_cut_closes_and_refuses(link):
    """After the restore new connections pass again."""
    with _connect(link) as connection:
        connection.sendall(b"hello")
        assert connection.recv(5) == b"hello"
        link.cut()
        assert _is_closed(connection)
    with _connect(link) as connection:
        assert _is_closed(connection)
    link.restore()
    with _connect(link) as connection:
        connection.sendall(b"again")
        assert connection.recv(5) == b"again"


def test_a_stalled_relay_holds_bytes_and_delivers_them_after_the_restore(link):
    """The connection stays open meanwhile."""
    with _connect(link) as connection:
        connection.sendall(b"a")
        assert connection.recv(1) == b"a"
        link.stall()
        connection.sendall(b"held")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(4)
        connection.settimeout(10)
        link.restore()
        assert connection.recv(4) == b"held"


def test_a_delay_is_added_in_both_directions(link):
    """Nothing comes back before twice the delay."""
    link.delay(150)
    with _connect(link) as connection:
        begun = time.monotonic()
        connection.sendall(b"x")
        assert connection.recv(1) == b"x"
        assert time.monotonic() - begun >= 0.3


def test_a_throttled_relay_takes_its_time(link):
    """Bytes come no faster than allowed."""
    link.throttle(100_000)
    with _connect(link) as connection:
        begun = time.monotonic()
        threading.Thread(target=connection.sendall, args=(b"x" * 100_000,), daemon=True).start()
        got = 0
        while got < 100_000:
            got += len(connection.recv(65_536))
        assert time.monotonic() - begun >= 0.3


def test_an_unknown_verb_is_refused_and_the_state_is_told(link):
    """The sentence names the verbs there are."""
    with pytest.raises(Rejected, match="verb 'explode' is unknown"):
        link._ask(verb="explode")
    link.delay(5)
    assert link.state()["delay_ms"] == 5


def test_a_zookeeper_client_behind_a_cut_relay_keeps_its_session(relay):
    """Suspended while cut, the same session after the restore."""
    link = relay("zookeeper")
    client = KazooClient(hosts=link.address, timeout=10)
    client.start(timeout=60)
    try:
        session = client.client_id
        link.cut()
        wait_until(lambda: client.state == KazooState.SUSPENDED, 90, "suspended")
        link.restore()
        wait_until(lambda: client.state == KazooState.CONNECTED, 90, "connected")
        assert client.client_id == session
    finally:
        client.stop()
        client.close()


def test_a_kafka_client_behind_a_relay_stays_behind_it(relay):
    """The broker's listener for this relay advertises the relay: a cut leaves no way around."""
    link = relay("kafka")
    admin = AdminClient({"bootstrap.servers": link.address, "log_level": 0})
    broker = admin.list_topics(timeout=60).brokers[0]
    assert f"{broker.host}:{broker.port}" == link.address
    link.cut()
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    link.restore()
    assert admin.list_topics(timeout=60).brokers


def test_any_session_can_be_expired_on_the_server(cluster, kazoo):
    """The password is computed; the client learns that its session is lost."""
    victim = KazooClient(hosts=cluster.zookeeper, timeout=10)
    lost = threading.Event()
    victim.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    victim.start(timeout=60)
    try:
        victim.create("/expired-with-its-session", ephemeral=True)
        session, password = victim.client_id
        assert faults.session_password(session) == password
        faults.expire_session(cluster.zookeeper, session)
        assert kazoo.exists("/expired-with-its-session") is None
        assert lost.wait(60)
    finally:
        victim.stop()
        victim.close()


@pytest.mark.parametrize("name", ["zookeeper", "kafka"])
def test_a_server_is_restarted_on_its_port_with_its_data(cluster, topic, name):
    """The topic is still there, at the same addresses."""
    created = topic(2)
    process = faults.restart_server(cluster.home, name)
    assert is_running(process)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    wait_until(lambda: created in admin.list_topics(timeout=60).topics, 90, "topic known again")


def test_an_unknown_server_cannot_be_restarted(cluster):
    """The sentence names those there are."""
    with pytest.raises(Rejected, match="'airflow' was not started here"):
        faults.restart_server(cluster.home, "airflow")
