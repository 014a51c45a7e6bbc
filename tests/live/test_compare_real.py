"""`groupshift snapshot` before and after a real move, and what `groupshift compare` says of the two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.spark_submit.java import java_home
from groupshift.cli.main import main
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.spark.session import large_session
from groupshift_sandbox.committing import commit, forget
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from support.group_probe import GroupProbe
from support.warm_spark import LITTLE_DATA

pytestmark = pytest.mark.timeout(900)  # comparisons in Spark, on a machine that may do something else, too

PARTITIONS = 4
RECORDS = 10
READY_S = 90.0

Told = Callable[[], str]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[SparkSession]:
    """The session that every comparison of this module gets."""
    patch = pytest.MonkeyPatch()
    patch.setenv("JAVA_HOME", str(java_home()))
    patch.setenv("PYSPARK_SUBMIT_ARGS", LITTLE_DATA)
    if (former := SparkSession.getActiveSession()) is not None:
        former.stop()  # of other tests, and not set up as one for a comparison
    session = large_session("groupshift compare tests")
    yield session
    session.stop()
    patch.undo()


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """What was printed since the last call."""
    return lambda: capsys.readouterr().out


class Members:
    """Two real members of one group, which commit everything as read when they are told to."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._running: dict[str, Consumer] = {}

    def start(self, client_id: str, protocol: str) -> None:
        """One more member, of this protocol."""
        properties = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self._group,
            "client.id": client_id,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        if protocol == "classic":
            properties["partition.assignment.strategy"] = "range"
        self._running[client_id] = Consumer(properties)
        self._running[client_id].subscribe([self._topic])

    def stop(self, *client_ids: str) -> None:
        """Close these members."""
        for client_id in client_ids:
            self._running.pop(client_id).close()

    def await_shared(self) -> None:
        """Poll until the members have all partitions between them, each at least one."""

        def shared() -> bool:
            self._poll()
            counts = [len(each.assignment()) for each in self._running.values()]
            return sum(counts) == PARTITIONS and min(counts) > 0

        wait_until(shared, READY_S, "the partitions are shared")

    def commit_all(self) -> None:
        """Commit the log end of every partition, each member those that it has."""
        for each in self._running.values():
            at_end = [At(at.topic, at.partition, RECORDS, metadata="read") for at in each.assignment()]
            each.commit(offsets=at_end, asynchronous=False)

    def close(self) -> None:
        """Close all members."""
        self.stop(*tuple(self._running))

    def _poll(self) -> None:
        for each in self._running.values():
            each.poll(0.05)


@contextmanager
def members(bootstrap: str, group: str, topic: str) -> Iterator[Members]:
    """Closed at the end."""
    found = Members(bootstrap, group, topic)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def orders(kraft: Cluster, group: str) -> str:
    """A fresh topic with ten records in each of four partitions."""
    name = f"orders-{group}"
    create_topic(kraft.bootstrap, name, PARTITIONS)
    producer = Producer({"bootstrap.servers": kraft.bootstrap})
    for number in range(RECORDS * PARTITIONS):
        producer.produce(name, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return name


def take(folder: Path, group: str, *where: str) -> Path:
    """`groupshift snapshot` of one group; nothing may be left unread."""
    arguments = ["snapshot", "--groups", group, *where, "--timeout", "60"]
    assert main([*arguments, "--output", str(folder), "--json"]) == 0
    return folder


def take_settled(folder: Path, group: str, *where: str) -> Path:
    """As `take`, again into another folder when a rebalance had partitions or the group itself in between."""
    taken: list[Path] = []

    def settled() -> bool:
        taken.append(take(folder.with_name(f"{folder.name}-{len(taken)}"), group, *where))
        assigned = [number for (number,) in rows(taken[-1], "assignments", "partition")]
        return assigned == list(range(PARTITIONS)) and rows(taken[-1], "groups", "state") == [("Stable",)]

    wait_until(settled, READY_S, "a snapshot of all assignments", every_s=0.5)
    return taken[-1]


def lose(kraft: Cluster, group: str, topic: str, raw: KafkaCluster) -> None:
    """Delete the offset of partition 1 and set that of partition 0 back; the group has no member."""
    forget(raw, group, topic, [1])
    commit(raw, {group: {TopicPartition(topic, 0): (RECORDS - 3, "")}})


def test_a_change_of_protocol_is_equal_and_a_planted_loss_is_not(
    kraft: Cluster, group: str, orders: str, tmp_path: Path, told: Told
) -> None:
    """Two classic members are replaced by native ones, one by one: pass under the rules of that move and fail
    under those of a downgrade, which allows no other type. Then one offset is deleted and one set back."""
    where = ("--bootstrap-servers", kraft.bootstrap)
    raw = KafkaCluster(kraft.bootstrap, timeout_s=20.0)
    with members(kraft.bootstrap, group, orders) as running:
        for client_id in ("app-1", "app-2"):
            running.start(client_id, "classic")
        running.await_shared()
        running.commit_all()
        before = take(tmp_path / "before", group, *where)
        for client_id in ("app-1", "app-2"):
            running.stop(client_id)
            running.start(client_id, "consumer")
            running.await_shared()
        after = take(tmp_path / "after", group, *where)
        told()
        assert compared(before, after, "protocol") == 0
        verdict = json.loads(told())
        assert (verdict["verdict"], verdict["rows"]) == ("pass", {"before": PARTITIONS, "after": PARTITIONS})
        assert measured(verdict, "EP01", "EP02", "EP03", "EP05", "EP11", "EP16", "EP17", "EP21") == {"pass"}
        assert compared(before, after, "downgrade") == 1
        assert "ED11" in broken(json.loads(told()))
        running.close()
        lose(kraft, group, orders, raw)
        raw.close()
        for client_id in ("app-1", "app-2"):
            running.start(client_id, "consumer")
        running.await_shared()
        spoilt = take(tmp_path / "spoilt", group, *where)
        told()
        assert compared(before, spoilt, "protocol", "spoilt-proof") == 1
        verdict = json.loads(told())
    assert {name: count for name, count in verdict["counts"].items() if count} == {"lost": 1, "regressed": 1}
    assert set(broken(verdict)) == {"EP02", "EP03"}
    rows = pq.read_table(tmp_path / "spoilt-proof" / "differences").to_pylist()
    assert {(row["class"], row["group"], row["topic"], row["partition"]) for row in rows} == {
        ("lost", group, orders, 1),
        ("regressed", group, orders, 0),
    }


def compared(before: Path, after: Path, move: str, output: str = "proof") -> int:
    """Exit code of `groupshift compare`."""
    folder = after.parent / output
    return main(["compare", str(before), str(after), "--move", move, "--output", str(folder), "--json"])


def measured(verdict: dict, *rules: str) -> set[str]:
    """What these rules said."""
    said = {each["rule"]: each["verdict"] for each in verdict["findings"]}
    return {said[rule] for rule in rules}


def broken(verdict: dict) -> list[str]:
    """The rules that failed."""
    return [each["rule"] for each in verdict["findings"] if each["verdict"] == "fail"]


def test_a_group_goes_from_zookeeper_to_kafka_and_is_equal(
    cluster,
    topic,
    group,
    scala_member,
    consume_member,
    producer,
    kazoo: KazooClient,
    log_ends,
    tmp_path,
    told,
) -> None:
    """A Scala member and a migrating one in mode zookeeper; the former is replaced, the mode toggled, and the
    snapshots of what is in force say: nobody fell back, nothing is lost. What an operator's hand loses in
    ZooKeeper's nodes is named, if that store were to be in force again."""
    name, probe = topic(PARTITIONS), GroupProbe(kazoo, group)
    old = scala_member("1.1.1", "old-1", [name], seed=PARTITIONS)
    aware = consume_member("migrating", "new-1", [name])
    producer(name, PARTITIONS, rate=10)
    probe.await_shares(name, dict.fromkeys([old.member_id, aware.member_id], PARTITIONS // 2))
    await_commits(kazoo, probe, name)
    where = ("--bootstrap-servers", cluster.bootstrap, "--zookeeper", cluster.zookeeper)
    before = take_settled(tmp_path / "before", group, *where, "--read-from", "in-force")
    assert rows(before, "groups", "type", "state") == [("zookeeper", "Stable")]
    assert rows(before, "members", "member_type") == [("aware",), ("old",)]
    assert [row[0] for row in rows(before, "assignments", "partition")] == list(range(PARTITIONS))
    nodes = take(tmp_path / "nodes", group, *where, "--read-from", "zookeeper")
    assert rows(nodes, "members", "member_id") == rows(before, "members", "member_id")
    old.stop()
    newer = consume_member("migrating", "new-2", [name])
    names = [aware.member_id, newer.member_id]
    probe.await_shares(name, dict.fromkeys(names, PARTITIONS // 2))
    node = probe.set_mode(b"kafka")
    probe.await_published(names, Mode.KAFKA, node)
    probe.await_shares(name, dict.fromkeys(names, PARTITIONS // 2))
    reached = log_ends(name, PARTITIONS)
    await_kafka_commits(cluster.bootstrap, group, reached)
    after = take_settled(tmp_path / "after", group, *where, "--read-from", "in-force")
    assert rows(after, "groups", "type", "state") == [("classic", "Stable")]
    assert all(
        offset >= reached[TopicPartition(name, n)]
        for n, offset in rows(after, "offsets", "partition", "offset")
    )
    told()
    assert compared(before, after, "coordination") == 0
    verdict = json.loads(told())
    assert verdict["verdict"] == "pass"
    assert measured(verdict, "EC01", "EC02", "EC03", "EC16", "EC19", "EC21") == {"pass"}
    for member in (aware, newer):  # in mode kafka they mirror what they commit, which would mend the plant
        member.stop()
    kazoo.set(probe.paths.offset_of(TopicPartition(name, 0)), b"1")
    kazoo.delete(probe.paths.offset_of(TopicPartition(name, 1)))
    spoilt = take(tmp_path / "spoilt", group, *where, "--read-from", "zookeeper")
    told()
    assert compared(after, spoilt, "coordination", "spoilt-proof") == 1
    verdict = json.loads(told())
    assert set(broken(verdict)) >= {"EC02", "EC03"}
    assert (verdict["counts"]["lost"], verdict["counts"]["regressed"] >= 1) == (1, True)


def await_commits(kazoo: KazooClient, probe: GroupProbe, topic: str) -> None:
    """Until every partition has an offset above 0 in ZooKeeper."""
    paths = [probe.paths.offset_of(TopicPartition(topic, n)) for n in range(PARTITIONS)]

    def committed() -> bool:
        return all(kazoo.exists(path) and int(kazoo.get(path)[0]) > 0 for path in paths)

    wait_until(committed, READY_S, "every partition is committed in ZooKeeper", every_s=0.2)


def await_kafka_commits(bootstrap: str, group: str, reached: dict[TopicPartition, int]) -> None:
    """Until Kafka knows of each partition a committed offset of at least ``reached``."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    asked = [At(at.topic, at.partition) for at in reached]

    def committed() -> bool:
        found = client.committed(asked, timeout=60)
        return all(each.offset >= reached[TopicPartition(each.topic, each.partition)] for each in found)

    try:
        wait_until(committed, READY_S, "every partition is committed in Kafka", every_s=0.3)
    finally:
        client.close()


def rows(folder: Path, table: str, *columns: str) -> Sequence[tuple]:
    """These columns of a table of a snapshot, sorted."""
    found = pq.read_table(folder / f"{table}-00000.parquet").to_pylist()
    return sorted(tuple(row[name] for name in columns) for row in found)
