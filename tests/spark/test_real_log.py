"""The transaction log of a real ZooKeeper server (3.9, the jar that pyspark ships), read by our parser."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from groupshift.adapters.spark_submit.java import java_binary
from groupshift.audit.ownership import Ended, History, Interval
from groupshift.domain.modes import MemberKind
from groupshift.spark.consumption import Log, read_log
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Command, free_port, spawn, stop, wait_until
from groupshift_sandbox.zookeeper import serves

OWNERS = "/consumers/g/owners/orders"
DEADLINE_S = 90.0

OWNER_THAT_DIES = f"""
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1], timeout=15.0)
client.start()
client.create("{OWNERS}/2", b"g_m3-1-0", ephemeral=True)
print("owned", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it listens and where it logs."""

    address: str
    folder: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One ZooKeeper that lets sessions expire after 0.4 s and allocates its log ahead."""
    root = tmp_path_factory.mktemp("zookeeper")
    port = free_port()
    configuration = root / "zookeeper.cfg"
    configuration.write_text(
        f"dataDir={root}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=200\nmaxSessionTimeout=60000\n"
        "admin.enableServer=false\n4lw.commands.whitelist=*\n"
    )
    jars = Path(pyspark.__file__).parent / "jars"
    argv = [java_binary(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = Command(name="zookeeper-for-log", argv=[*argv, main, str(configuration)])
    process = spawn(command, Home(root), root / "server.log")
    try:
        wait_until(lambda: serves(f"127.0.0.1:{port}"), DEADLINE_S, "ZooKeeper answers")
        yield Server(f"127.0.0.1:{port}", root)
    finally:
        stop(process)


def _client(address: str) -> KazooClient:
    client = KazooClient(hosts=address, timeout=60.0)
    client.start(timeout=DEADLINE_S)
    return client


def _act(address: str) -> None:
    """Two members hand over a partition; one registers in a multi; one multi fails; offsets are written."""
    first, second = _client(address), _client(address)
    for path in (OWNERS, "/consumers/g/offsets/orders", "/consumers/g/ids", "/consumers/g/migration/ids"):
        first.ensure_path(path)
    first.create("/consumers/g/ids/g_m1-1", b"{}", ephemeral=True)
    both = second.transaction()
    for folder in ("ids", "migration/ids"):
        both.create(f"/consumers/g/{folder}/g_m2-1", b"{}", ephemeral=True)
    both.commit()
    first.create(f"{OWNERS}/0", b"g_m1-1-0", ephemeral=True)
    first.create(f"{OWNERS}/1", b"g_m1-1-0", ephemeral=True, include_data=True)
    failing = second.transaction()
    failing.delete(f"{OWNERS}/1")
    failing.create(f"{OWNERS}/0", b"g_m2-1-0", ephemeral=True)
    assert any(isinstance(result, NodeExistsError) for result in failing.commit())
    first.create("/consumers/g/offsets/orders/0", b"17")
    first.set("/consumers/g/offsets/orders/0", b"42")
    first.delete(f"{OWNERS}/0")
    second.create(f"{OWNERS}/0", b"g_m2-1-0", ephemeral=True)
    second.create("/consumers/g/migration/mode", b"kafka")
    for client in (first, second):
        client.stop()
        client.close()


def _expire(address: str) -> None:
    """A member is killed while it owns partition 2; its session expires some time later."""
    member = subprocess.Popen(
        [sys.executable, "-c", OWNER_THAT_DIES, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert member.stdout is not None
    assert member.stdout.readline() == "owned\n"
    member.send_signal(signal.SIGKILL)
    member.communicate()
    watcher = _client(address)
    wait_until(lambda: watcher.exists(f"{OWNERS}/2") is None, DEADLINE_S, "the session expires")
    watcher.stop()
    watcher.close()


@pytest.fixture(scope="module")
def log(server: Server) -> Log:
    """Everything the server logged; it is still running, so its file is still open and padded."""
    _act(server.address)
    _expire(server.address)
    return read_log(server.folder, "g")


def _of(history: History, partition: int) -> list[Interval]:
    return [one for one in history.intervals if one.partition.partition == partition]


def test_the_log_is_whole(log: Log) -> None:
    """From the first transaction of a fresh server on, every zxid is there and everything is understood."""
    assert log.problems == ()
    assert log.transactions > 20


def test_a_hand_over_is_two_intervals(log: Log) -> None:
    """Deleted by the first, created by the second, whose session was closed at the end."""
    first, second = _of(log.history, 0)
    assert (first.member_id, first.ended) == ("g_m1-1", Ended.RELEASED)
    assert (second.member_id, second.ended) == ("g_m2-1", Ended.SESSION)
    assert first.end_zxid is not None
    assert first.end_zxid < second.start_zxid
    assert first.session != second.session


def test_a_failed_multi_deletes_nothing(log: Log) -> None:
    """The owner of partition 1 kept it through the multi that failed, until its session was closed."""
    (only,) = _of(log.history, 1)
    assert (only.member_id, only.ended) == ("g_m1-1", Ended.SESSION)


def test_an_expired_session_ends_its_interval(log: Log) -> None:
    """A killed member owns its partition until the server expires its session, not until its death."""
    (only,) = _of(log.history, 2)
    assert (only.member_id, only.ended) == ("g_m3-1", Ended.SESSION)
    assert only.end_ms is not None
    assert only.end_ms - only.start_ms >= 400


def test_registrations_offsets_and_mode_are_read(log: Log) -> None:
    """Members of a multi, both writes of an offset, and the mode node."""
    assert log.history.kinds == {"g_m1-1": MemberKind.ZOOKEEPER, "g_m2-1": MemberKind.AWARE}
    assert [one.offset for one in log.history.offset_writes] == [17, 42]
    assert [one.text for one in log.history.mode_writes] == ["kafka"]
