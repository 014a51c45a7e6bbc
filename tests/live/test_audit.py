"""The three-way audit of a real ZooKeeper-mode broker: clean while groups commit, and every fault named."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as At
from kazoo.client import KazooClient

from groupshift.adapters.kafka.broker_views import LivePlacementViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.kafka.wire import Api
from groupshift.adapters.system import SystemClock
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.session import ZookeeperConnection
from groupshift.audit.inputs import Terms
from groupshift.audit.offsets import Audit
from groupshift.audit.rules import Weight
from groupshift.audit.run import AuditSources, audit_offsets
from groupshift.cli.main import main
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.log.decode import Position
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.committing import commit, forget
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, create_topic, start_kafka
from groupshift_sandbox.kraft import start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_testing.log_encoder import encode_key, encode_value
from support.kio_messages import messages
from support.native_member import NativeMember, joined

OFFSETS = "__consumer_offsets"
PARTITIONS = 3
AUDITS = 20
QUICK = Terms(settle_ms=300, commit_interval_ms=1000)

pytestmark = pytest.mark.timeout(600)  # the first reading of a log compiles what reads it


class CountedLog(DirectLog):
    """Counts how often its position was asked for: twice a look."""

    positions = 0

    def position(self) -> Position:
        """As `DirectLog`."""
        self.positions += 1
        return super().position()


@contextmanager
def opened(bootstrap: str, zookeeper: str) -> Iterator[AuditSources]:
    """The three sources of a cluster."""
    sources = AuditSources(
        admin=LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=60.0), SystemClock(), patience_s=1.0),
        log=CountedLog(Brokers(bootstrap_servers=bootstrap)),
        zookeeper=ZookeeperGroups(ZookeeperConnection(zookeeper, timeout_s=60.0)),
        clock=SystemClock(),
    )
    try:
        yield sources
    finally:
        sources.close()


@pytest.fixture
def sources(cluster) -> Iterator[AuditSources]:
    """Of the session's cluster."""
    with opened(cluster.bootstrap, cluster.zookeeper) as found:
        yield found


@pytest.fixture
def raw(cluster) -> Iterator[KafkaCluster]:
    """Connections of this test's own."""
    found = KafkaCluster(cluster.bootstrap, timeout_s=20.0)
    yield found
    found.close()


def kinds(found: Audit) -> Mapping[int, tuple[str, Weight]]:
    """What was found of each partition."""
    return {one.partition: (one.kind, one.weight) for one in found.looked.mismatches}


def put_offset(kazoo: KazooClient, group: str, topic: str, partition: int, offset: int) -> None:
    """Write an offset node as a member does."""
    path = f"/consumers/{group}/offsets/{topic}/{partition}"
    kazoo.ensure_path(path)
    kazoo.set(path, str(offset).encode())


def now_ms() -> int:
    """The clock that the brokers of this machine have too, in epoch milliseconds."""
    return time.time_ns() // 10**6


def past_the_coordinator(bootstrap: str, partition: int, at: TopicPartition, group: str, offset: int) -> None:
    """A commit (or, with a negative offset, a tombstone) that only the log gets to know.

    Its time is a later millisecond than that of every commit which the broker has answered, and not ahead
    of the clock: what is committed after the next audit is later again.
    """
    key = {"group": group, "topic": at.topic, "partition": at.partition}
    answered_ms = now_ms()
    wait_until(lambda: now_ms() > answered_ms, 5.0, "the next millisecond")
    value = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": now_ms()}
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client"})
    producer.produce(
        OFFSETS,
        key=encode_key(1, key),
        value=None if offset < 0 else encode_value(1, 3, value),
        partition=partition,
    )
    assert producer.flush(20) == 0


@pytest.fixture
def filled(cluster, topic: Callable[[int], str]) -> Callable[..., str]:
    """Factory: a topic with records in each partition."""

    def create(partitions: int, count: int = 100) -> str:
        name = topic(partitions)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20})
        for number in range(partitions * count):
            producer.produce(name, b"x", partition=number % partitions)
        assert producer.flush(60) == 0
        return name

    return create


class BusyMember:
    """A member that commits as fast as the coordinator answers, to Kafka and then to ZooKeeper."""

    def __init__(self, bootstrap: str, kazoo: KazooClient, group: str, topic: str) -> None:
        self.commits = 0
        self._kazoo, self._group, self._topic = kazoo, group, topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        self._consumer.subscribe([topic])
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self.commits > 10, 60.0, "the member commits")
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(30)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._consumer.poll(0)
            held = self._consumer.assignment()
            if len(held) < PARTITIONS:
                self._stopped.wait(0.02)
                continue
            wanted = [At(each.topic, each.partition, self.commits) for each in held]
            with suppress(KafkaException):
                self._consumer.commit(offsets=wanted, asynchronous=False)
                self.commits += 1
            for each in held:
                put_offset(self._kazoo, self._group, each.topic, each.partition, self.commits - 1)


def test_a_group_is_clean_while_its_member_commits_at_full_speed(
    cluster, sources: AuditSources, kazoo: KazooClient, group: str, filled: Callable[..., str]
) -> None:
    """No difference in any of many audits, each of one look; what was in flight is told as that."""
    name = filled(PARTITIONS, 20_000)
    seen: set[str] = set()
    with BusyMember(cluster.bootstrap, kazoo, group, name) as member:
        for _ in range(AUDITS):
            before, asked = member.commits, sources.log.positions
            found = audit_offsets(sources, Terms(settle_ms=300), [group])
            assert found.clean, found.looked.suspicious
            assert found.looked.keys == PARTITIONS
            assert sources.log.positions == asked + 2
            assert member.commits > before
            seen |= {one.kind for one in found.looked.mismatches}
    assert "commit in flight" in seen
    assert seen <= {"commit in flight", "zookeeper within its interval"}


def test_what_was_written_past_the_coordinator_is_named(
    cluster, sources: AuditSources, raw: KafkaCluster, kazoo: KazooClient, group: str, filled
) -> None:
    """A foreign record, a commit and a tombstone that the coordinator never saw; both looks see them."""
    name = filled(PARTITIONS + 1)
    commit(raw, {group: {TopicPartition(name, number): (5, "note") for number in range(PARTITIONS + 1)}})
    assert audit_offsets(sources, QUICK, [group]).looked.agreeing == PARTITIONS + 1
    home = partition_of(group, 10)
    past_the_coordinator(cluster.bootstrap, (home + 1) % 10, TopicPartition(name, 0), group, 9)
    past_the_coordinator(cluster.bootstrap, home, TopicPartition(name, 1), group, 8)
    past_the_coordinator(cluster.bootstrap, home, TopicPartition(name, 2), group, -1)
    asked = sources.log.positions
    found = audit_offsets(sources, QUICK, [group])
    assert kinds(found) == {
        0: ("split brain", Weight.MISMATCH),
        1: ("stale answer", Weight.MISMATCH),
        2: ("served after its tombstone", Weight.MISMATCH),
    }
    assert sources.log.positions == asked + 4
    assert [one.answered for one in found.looked.mismatches] == [5, 5, 5]
    commit(raw, {group: {TopicPartition(name, number): (6, "") for number in range(PARTITIONS)}})
    assert kinds(audit_offsets(sources, QUICK, [group])) == {0: ("foreign record", Weight.MISMATCH)}


def test_differences_between_the_stores_are_told_by_mode_and_time(
    cluster, sources: AuditSources, raw: KafkaCluster, kazoo: KazooClient, group: str, filled
) -> None:
    """A znode set back, one that Kafka never had, one whose offset was deleted, one that is not there."""
    name = filled(4)
    commit(raw, {group: {TopicPartition(name, number): (50, "") for number in (0, 1, 3)}})
    for number, offset in ((0, 50), (1, 50), (2, 7)):
        put_offset(kazoo, group, name, number, offset)
    kazoo.create(f"/consumers/{group}/ids/{group}_m", b"{}", makepath=True)
    kazoo.create(f"/consumers/{group}/migration/ids/{group}_m", b"{}", makepath=True)
    wait_until(
        lambda: kinds(audit_offsets(sources, QUICK, [group]))[3] == ("not in zookeeper", Weight.MISMATCH),
        60.0,
        "the commit is older than the interval",
    )
    kazoo.set(f"/consumers/{group}/offsets/{name}/0", b"20")
    forget(raw, group, name, [1])
    diverged = ("stores diverge", Weight.MISMATCH)
    found = kinds(audit_offsets(sources, QUICK, [group]))
    assert (found[0], found[1]) == (diverged, ("removed", Weight.EXPLAINED))
    assert found[2] == ("never committed", Weight.EXPLAINED)
    kazoo.create(f"/consumers/{group}/migration/mode", b"kafka")
    found = kinds(audit_offsets(sources, QUICK, [group]))
    assert (found[0], found[1]) == (diverged, ("removed", Weight.MISMATCH))
    assert found[2] == ("never committed", Weight.MISMATCH)


def audited_in_calm(sources: AuditSources) -> Audit:
    """An audit during which the coordinators' log did not grow. Members of earlier tests may still end
    during one; an audit that writes would find no calm at all."""
    audits: list[Audit] = []

    def calm() -> bool:
        ends = sources.log.position()
        audits.append(audit_offsets(sources, QUICK))
        return sources.log.position() == ends

    wait_until(calm, 60.0, "an audit during which no coordinator wrote", every_s=0.5)
    return audits[-1]


def test_an_audit_of_everything_writes_nothing(
    cluster, sources: AuditSources, raw: KafkaCluster, kazoo: KazooClient, group: str, filled
) -> None:
    """Neither the coordinators' log nor the ensemble has grown; groups only in ZooKeeper are asked for."""
    name = filled(1)
    commit(raw, {group: {TopicPartition(name, 0): (5, "")}})
    put_offset(kazoo, f"{group}-old", name, 0, 3)
    zxid = kazoo.get("/consumers")[1].pzxid
    node = kazoo.get(f"/consumers/{group}-old/offsets/{name}/0")[1]
    found = audited_in_calm(sources)
    assert kazoo.get("/consumers")[1].pzxid == zxid
    assert kazoo.get(f"/consumers/{group}-old/offsets/{name}/0")[1].mzxid == node.mzxid
    rows = {one.group: one for one in found.looked.mismatches if one.topic == name}
    assert set(rows) == {f"{group}-old"}
    assert rows[f"{group}-old"].kind == "never committed"


def test_an_open_transaction_leaves_its_own_offset_unknown_and_hides_no_other(
    cluster, sources: AuditSources, raw: KafkaCluster, group: str, filled
) -> None:
    """Commits behind an open transaction in the same partition of the log are read all the same."""
    name = filled(2)
    commit(raw, {group: {TopicPartition(name, number): (4, "") for number in range(2)}})
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": group, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    producer.send_offsets_to_transaction([At(name, 0, 7)], consumer.consumer_group_metadata(), 30)
    consumer.close()
    commit(raw, {group: {TopicPartition(name, 1): (6, "")}})
    found = audit_offsets(sources, QUICK, [group])
    assert kinds(found) == {0: ("not answered", Weight.UNKNOWN)}
    assert (found.clean, found.looked.agreeing) == (False, 1)
    assert any(f"a transaction that commits {name}-0 is open" in each for each in found.looked.problems)
    views = LivePlacementViews(raw, SystemClock())
    opened = views.look()
    assert opened.unstable == (partition_of(group, opened.count),), "whoever lists it, the log tells"
    assert opened.unlisted_transactions == ()
    producer.commit_transaction(30)  # answered before the groups' coordinator has the marker

    def ended() -> bool:
        found = audit_offsets(sources, QUICK, [group])
        return (found.clean, found.looked.agreeing, found.looked.problems) == (True, 2, ())

    wait_until(ended, 60.0, "the audit is clean after the transaction")
    assert views.look().unstable == ()


def test_an_expired_offset_is_told_from_a_deleted_one(
    tmp_path_factory: pytest.TempPathFactory, group: str
) -> None:
    """A broker of its own that looks for expired offsets every half second; the znode is still there."""
    home = Home(tmp_path_factory.mktemp("expiring")).create()
    try:
        zookeeper = start_zookeeper(home)
        expiring = KafkaOptions(properties={"offsets.retention.check.interval.ms": "500"})
        bootstrap = start_kafka(home, zookeeper, expiring).address
        create_topic(bootstrap, "orders", 1)
        producer = Producer({"bootstrap.servers": bootstrap})
        for _ in range(10):
            producer.produce("orders", b"x")
        assert producer.flush(20) == 0
        client = KazooClient(hosts=zookeeper, timeout=60)
        client.start(timeout=60)
        put_offset(client, group, "orders", 0, 5)
        client.stop()
        client.close()
        raw = KafkaCluster(bootstrap, timeout_s=20.0)
        commit(raw, {group: {TopicPartition("orders", 0): (5, "")}})
        with opened(bootstrap, zookeeper) as sources:
            assert sources.log.retention_ms() == 7 * 24 * 3_600_000
            found = audit_offsets(sources, QUICK, [group])
            assert (found.looked.agreeing, found.looked.mismatches) == (1, ())
            _commit_for_a_second(raw, group)
            wait_until(
                lambda: kinds(audit_offsets(sources, QUICK, [group])) == {0: ("expired", Weight.EXPLAINED)},
                60.0,
                "the offset has expired",
            )
        raw.close()
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


def _commit_for_a_second(raw: KafkaCluster, group: str) -> None:
    """OffsetCommit 2 carries its own retention."""
    connection = raw.broker(raw.coordinators([group])[0][group])
    module = messages(connection, Api.OFFSET_COMMIT, at_least=2, at_most=2)
    partition = module.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=""
    )
    answer = connection.ask(
        module.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time=timedelta(seconds=1),
            topics=(module.OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
        )
    )
    assert answer.topics[0].partitions[0].error_code == 0


@pytest.fixture
def command(cluster, group: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """``groupshift audit`` of the test's group: its exit code, and its output or, without one, its error."""
    arguments = ["audit", "--groups", group, "--bootstrap-servers", cluster.bootstrap, "--zookeeper"]
    arguments += [cluster.zookeeper, "--settle", "0.3", "--commit-interval", "0", "--timeout", "60"]

    def run(*more: str) -> tuple[int, str]:
        code = main([*arguments, *more])
        said = capsys.readouterr()
        return code, said.out or said.err

    return run


def test_the_command_keeps_what_it_found_and_says_it(
    command, raw: KafkaCluster, kazoo: KazooClient, group: str, filled, tmp_path: Path
) -> None:
    """Exit code 0 for a clean group, 1 for a znode that was set back; the rows are in the folder."""
    name = filled(2)
    commit(raw, {group: {TopicPartition(name, number): (50, "") for number in range(2)}})
    for number in range(2):
        put_offset(kazoo, group, name, number, 50)
    kazoo.create(f"/consumers/{group}/ids/{group}_m", b"{}", makepath=True)
    kazoo.create(f"/consumers/{group}/migration/ids/{group}_m", b"{}", makepath=True)
    code, said = command("--output", str(tmp_path / "clean"))
    assert code == 0
    assert "clean: No offset differs: 2 of 2 offsets agree in three sources" in said
    assert pq.read_table(tmp_path / "clean" / "differences.parquet").num_rows == 0
    kazoo.set(f"/consumers/{group}/offsets/{name}/1", b"20")
    code, said = command("--output", str(tmp_path / "set-back"), "--json")
    told = json.loads(said)
    assert code == 1
    assert (told["kinds"], told["weights"]["mismatch"]) == ({"stores diverge": 1}, 1)
    (row,) = pq.read_table(tmp_path / "set-back" / "differences.parquet").to_pylist()
    assert (row["kind"], row["answered"], row["logged"], row["zookeeper"]) == ("stores diverge", 50, 50, 20)
    assert json.loads((tmp_path / "set-back" / "manifest.json").read_text())["clean"] is False
    code, said = command("--output", str(tmp_path / "set-back"))
    assert code == 2
    assert "never overwritten" in said
    code, shown = command()
    assert code == 1
    assert "stores diverge" in shown
    assert f"groupshift audit --groups {group}" in shown
    assert sorted(each.name for each in tmp_path.iterdir()) == ["clean", "set-back"]


@pytest.mark.timeout(1800)  # a job of Spark, on a machine that may do something else, too
def test_the_command_finds_the_same_in_spark(
    cluster, command, raw: KafkaCluster, kazoo: KazooClient, group: str, filled, tmp_path: Path
) -> None:
    """A foreign record, a stale answer and an offset of ZooKeeper alone: every row is that of the process."""
    name = filled(2)
    commit(raw, {group: {TopicPartition(name, number): (5, "note") for number in range(2)}})
    home = partition_of(group, 10)
    past_the_coordinator(cluster.bootstrap, (home + 1) % 10, TopicPartition(name, 0), group, 9)
    past_the_coordinator(cluster.bootstrap, home, TopicPartition(name, 1), group, 8)
    put_offset(kazoo, group, name, 7, 3)
    in_spark = ("--json", "--spark", "--output", str(tmp_path / "in-spark"))
    (process, found), (job, found_by_job) = command("--json"), command(*in_spark)
    assert process == job == 1
    told = [json.loads(found), json.loads(found_by_job)]
    assert [row["rule"] for row in told[0]["differences"]] == ["A03", "A10", "A28"]
    assert told[1]["differences"] == told[0]["differences"]
    assert [each["keys"] for each in told] == [3, 3]
    assert pq.read_table(tmp_path / "in-spark" / "differences.parquet").num_rows == 3
    code, said = command(*in_spark)
    assert code == 2
    assert "never overwritten" in said


@pytest.fixture
def kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of this test's own: other tests leave offsets beyond their logs on the session's."""
    home = Home(tmp_path_factory.mktemp("audited")).create()
    try:
        yield start_kraft(home)
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


def test_a_cluster_without_zookeeper_has_two_sources(
    kraft: Cluster, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records of version 4 with topic ids, of a NEW coordinator, and a group of the consumer protocol."""
    create_topic(kraft.bootstrap, f"t-{group}", 1)
    raw = KafkaCluster(kraft.bootstrap, timeout_s=20.0)
    commit(raw, {group: {TopicPartition(f"t-{group}", 0): (0, "note\0")}})
    member = joined(NativeMember, raw, f"{group}-n", [f"t-{group}"])
    member.await_assigned(1)
    member.leave()
    raw.close()
    arguments = ["audit", "--all", "--bootstrap-servers", kraft.bootstrap, "--settle", "0.3"]
    assert main([*arguments, "--timeout", "60", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["zookeeper"], told["differences"]) == (False, [])
    assert told["keys"] == told["agreeing"] >= 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "either --groups NAME,NAME or --all"),
        (["--all", "--groups", "g"], "either --groups NAME,NAME or --all"),
        (["--all", "--bootstrap-servers", "b:1", "--settings", "s.toml"], "give one of them"),
        (["--all", "--zookeeper", "z:1"], "--zookeeper goes with --bootstrap-servers"),
        (["--all", "--bootstrap-servers", "127.0.0.1:1", "--timeout", "0.3"], "does not answer"),
    ],
)
def test_the_command_refuses_what_is_not_clear(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, and nothing is written."""
    code = main(["audit", *options, "--output", str(tmp_path / "a")])
    assert code == (4 if said == "does not answer" else 2)
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
