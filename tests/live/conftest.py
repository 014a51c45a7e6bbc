"""Real servers for the tests of this folder: ZooKeeper and Kafka once a session, members a test.

Whatever a fixture starts it also ends, by process id, when its test (or the session) is over.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox import kafka, legacy
from groupshift_sandbox import ledger as ledgers
from groupshift_sandbox.faults import Link, start_relay
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, RelayedListener, create_topic, start_kafka
from groupshift_sandbox.kraft import start_kraft
from groupshift_sandbox.layout import Cluster as KraftCluster
from groupshift_sandbox.processes import (
    Running,
    free_port,
    is_running,
    marked,
    stop,
    wait_until,
)
from groupshift_sandbox.zookeeper import start_zookeeper
from support.coordinators_ready import await_coordinators
from support.started import started

RELAYED_LISTENERS = 6
LOG_TAIL_LINES = 30
UNTOUCHED = {"offsets.retention.check.interval.ms": "86400000"}
"""The coordinator writes no tombstone of its own while a test compares its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The session's servers; ``relayed`` are the broker's listeners for members behind a relay."""

    home: Home
    zookeeper: str
    bootstrap: str
    relayed: tuple[RelayedListener, ...]
    free_relayed: list[RelayedListener] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMember:
    """A member process of a test: ``member_id`` is ``<group>_<consumer id>``."""

    process: Running
    member_id: str
    ledger_file: Path
    state_file: Path
    log_file: Path

    @property
    def running(self) -> bool:
        """True while its process lives."""
        return is_running(self.process)

    def deliveries(self) -> list[ledgers.Delivery]:
        """What it was delivered so far."""
        return ledgers.read_ledger(self.ledger_file)

    def stop(self, deadline_s: float = 20.0) -> None:
        """SIGTERM and wait; SIGKILL at the deadline."""
        stop(self.process, deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLedger:
    """All deliveries of one group in this session's folder."""

    folder: Path
    group: str

    def deliveries(self) -> list[ledgers.Delivery]:
        """Everything delivered so far, by time."""
        return ledgers.read_ledgers(self.folder, self.group)

    def delivered(self, topic: str, partition: int) -> set[int]:
        """The offsets of one partition that somebody was delivered."""
        return set(ledgers.delivered(self.deliveries()).get(TopicPartition(topic, partition), ()))

    def overlaps(self) -> list[ledgers.Overlap]:
        """Where two members were delivered one partition at one time."""
        return ledgers.overlaps(self.deliveries())

    def assert_no_overlap(self) -> None:
        """Fail with the first overlaps."""
        found = self.overlaps()
        assert not found, f"{len(found)} overlaps, first: {found[:3]}"

    def assert_none_lost(self, ends: dict[TopicPartition, int]) -> None:
        """Fail when an offset below the given log ends was delivered to nobody."""
        missing = ledgers.lost(self.deliveries(), ends)
        assert not missing, f"{len(missing)} records lost, first: {missing[:5]}"

    def await_all(self, ends: dict[TopicPartition, int], deadline_s: float = 60.0) -> None:
        """Wait until every offset below the given log ends was delivered to somebody."""
        wait_until(
            lambda: not ledgers.lost(self.deliveries(), ends),
            deadline_s,
            f"{sum(ends.values())} records delivered to {self.group}",
            every_s=0.2,
        )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """ZooKeeper and one broker with stock group behaviour except the first join's 3 s delay (N4)."""
    home = Home(tmp_path_factory.mktemp("sandbox")).create()
    before = os.environ.get("GROUPSHIFT_HOME")
    os.environ["GROUPSHIFT_HOME"] = str(home.root)
    try:
        zookeeper = start_zookeeper(home)
        options = KafkaOptions(relayed=RELAYED_LISTENERS, initial_rebalance_delay_ms=0, properties=UNTOUCHED)
        broker = start_kafka(home, zookeeper, options)
        await_coordinators(broker.address)
        yield Cluster(
            home=home,
            zookeeper=zookeeper,
            bootstrap=broker.address,
            relayed=broker.relayed,
            free_relayed=list(broker.relayed),
        )
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)
        if before is None:
            del os.environ["GROUPSHIFT_HOME"]
        else:
            os.environ["GROUPSHIFT_HOME"] = before


@pytest.fixture(scope="session")
def kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    """One KRaft broker 4.3.1: groups of type classic and consumer."""
    home = Home(tmp_path_factory.mktemp("kraft")).create()
    try:
        yield start_kraft(home)
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


@pytest.fixture(autouse=True)
def _log_tails(request: pytest.FixtureRequest) -> Iterator[None]:
    """Attach the end of every log written during a failing test to its report."""
    begun = time.time()
    yield
    report = getattr(request.node, "call_report", None)
    if report is None or not report.failed or "cluster" not in request.fixturenames:
        return
    home = request.getfixturevalue("cluster").home
    for log in sorted(path for path in home.logs.glob("*.log") if path.stat().st_mtime >= begun):
        tail = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        sys.stdout.write(f"--- {log.name}\n" + "\n".join(tail) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keep the call's report where `_log_tails` finds it."""
    report = yield
    if report.when == "call":
        item.call_report = report  # type: ignore[attr-defined]
    return report


@pytest.fixture
def group() -> str:
    """A group name of this test's own."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster: Cluster) -> Callable[[int], str]:
    """Factory: a fresh topic with this many partitions; returns its name."""

    def create(partitions: int) -> str:
        name = f"topic-{uuid.uuid4().hex[:8]}"
        create_topic(cluster.bootstrap, name, partitions)
        return name

    return create


@pytest.fixture
def process(cluster: Cluster) -> Iterator[Callable[[str, Sequence[str]], Running]]:
    """Factory: start ``argv`` under a name; ended after the test, last started first."""
    with started(cluster.home) as run:
        yield run


@pytest.fixture
def scala_member(cluster: Cluster, group: str, process) -> Callable[..., LiveMember]:
    """Factory: a real old consumer. ``seed`` partitions get offset 0 where the group has none yet
    (needed by the first member of a group that is to start at the beginning)."""

    def run(
        release: str,
        consumer_id: str,
        topics: Sequence[str],
        *,
        seed: int = 0,
        zookeeper: str | None = None,
        properties: dict[str, str] | None = None,
    ) -> LiveMember:
        for name in topics:
            legacy.seed_offsets(cluster.zookeeper, group, name, seed)
        member = legacy.ScalaMember(
            release=release,
            group=group,
            consumer_id=consumer_id,
            topics=topics,
            zookeeper=zookeeper or cluster.zookeeper,
            properties=properties or {},
        )
        command = legacy.command(cluster.home, member, file_name=f"{group}_{consumer_id}")
        return LiveMember(
            process=process(command.name, command.argv),
            member_id=member.member_id,
            ledger_file=cluster.home.ledgers / f"{command.name}.jsonl",
            state_file=cluster.home.members / f"{command.name}.json",
            log_file=cluster.home.logs / f"{command.name}.log",
        )

    return run


@pytest.fixture
def consume_member(cluster: Cluster, group: str, process) -> Callable[..., LiveMember]:
    """Factory: ``groupshift consume`` as a process (kinds zookeeper, migrating, plain)."""

    def run(
        kind: str,
        consumer_id: str,
        topics: Sequence[str],
        *,
        zookeeper: str | None = None,
        bootstrap: str | None = None,
        properties: dict[str, str] | None = None,
    ) -> LiveMember:
        name = f"{group}_{consumer_id}"
        ledger, state = cluster.home.ledgers / f"{name}.jsonl", cluster.home.members / f"{name}.json"
        argv = [sys.executable, "-m", "groupshift.cli.consume", "--kind", kind, "--group", group]
        argv += [part for one in topics for part in ("--topic", one)]
        argv += ["--zookeeper", zookeeper or cluster.zookeeper, "--bootstrap", bootstrap or cluster.bootstrap]
        argv += ["--consumer-id", consumer_id, "--ledger", str(ledger), "--state", str(state)]
        argv += [
            part for key, value in (properties or {}).items() for part in ("--property", f"{key}={value}")
        ]
        return LiveMember(
            process=process(name, argv),
            member_id=name,
            ledger_file=ledger,
            state_file=state,
            log_file=cluster.home.logs / f"{name}.log",
        )

    return run


@pytest.fixture
def producer(cluster: Cluster, process) -> Callable[..., Running]:
    """Factory: the numbered producer on a topic; ``rate`` is records/s on each partition, ``count`` the
    number on each partition after which it ends (None: it goes on)."""

    def run(topic: str, partitions: int, *, rate: float = 20.0, count: int | None = None) -> Running:
        argv = [sys.executable, "-m", "groupshift_sandbox.producer", "--bootstrap", cluster.bootstrap]
        argv += ["--topic", topic, "--partitions", str(partitions), "--rate", str(rate)]
        argv += [] if count is None else ["--count", str(count)]
        return process(f"producer-{topic}", argv)

    return run


@pytest.fixture
def relay(cluster: Cluster) -> Iterator[Callable[[str], Link]]:
    """Factory: a relay before ``zookeeper`` or ``kafka``; connect the member to its ``address``."""
    links: list[Link] = []
    taken: list[RelayedListener] = []

    def run(server: str) -> Link:
        listen, target = free_port(), cluster.zookeeper
        if server == "kafka":
            taken.append(cluster.free_relayed.pop())
            listen, target = taken[-1].advertised_port, f"127.0.0.1:{taken[-1].port}"
        name = f"relay-{server}-{uuid.uuid4().hex[:6]}"
        links.append(start_relay(cluster.home, name, listen=listen, target=target))
        return links[-1]

    yield run
    for link in links:
        stop(link.process)
    cluster.free_relayed.extend(taken)


@pytest.fixture
def kazoo(cluster: Cluster) -> Iterator[KazooClient]:
    """A started ZooKeeper client for looking and for operator's writes."""
    client = KazooClient(hosts=cluster.zookeeper, timeout=60)
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def ledger(cluster: Cluster, group: str) -> GroupLedger:
    """The deliveries of this test's group."""
    return GroupLedger(folder=cluster.home.ledgers, group=group)


@pytest.fixture
def log_ends(cluster: Cluster) -> Callable[[str, int], dict[TopicPartition, int]]:
    """The log end of every partition of a topic now."""
    return partial(kafka.log_ends, cluster.bootstrap)


@pytest.fixture
def owners(kazoo: KazooClient, group: str) -> Callable[[str], dict[int, str]]:
    """The owner nodes of a topic in this test's group: partition → thread id."""

    def read(topic: str) -> dict[int, str]:
        parent, found = f"/consumers/{group}/owners/{topic}", {}
        if not kazoo.exists(parent):
            return found
        for child in kazoo.get_children(parent):
            with contextlib.suppress(NoNodeError):  # released since the listing
                found[int(child)] = kazoo.get(f"{parent}/{child}")[0].decode()
        return found

    return read
