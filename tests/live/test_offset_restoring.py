"""Offsets given back through real coordinators, exactly: NEW on 4.3.1, OLD on 3.9.2."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from groupshift.adapters.kafka import group_changes
from groupshift.adapters.kafka import group_changes as group_deleting
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.group_changes import LiveOffsetRestoring
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import Committed, OffsetRow
from groupshift.log import commit_place
from groupshift.moves.expansion.restore import read_back, restore_offsets
from groupshift.ports.changes import unheld
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.rolling import replace_node
from support.classic_member import ClassicMember, assignment
from support.open_transaction import OpenTransaction

TOPIC = "orders"
ROWS = [
    OffsetRow(
        group=f"g{group}",
        topic=TOPIC,
        partition=partition,
        offset=100 * group + partition,
        leader_epoch=(None, 0, 7)[partition % 3],
        metadata=("", "grün 🚀", "ends with\0", "x" * 4000)[partition % 4],
    )
    for group in range(60)
    for partition in range(4)
]


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node."""
    home = Home(tmp_path_factory.mktemp(f"restoring-{request.param}")).create()
    options = KraftOptions(
        release=request.param, heap="320m", properties={"offsets.topic.num.partitions": "5"}
    )
    try:
        cluster = start_kraft(home, options)
        create_topic(cluster.bootstrap, TOPIC, 4)
        yield cluster
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@pytest.fixture
def ports(node: Cluster) -> Iterator[tuple[LiveOffsetRestoring, LiveGroupSnapshots]]:
    """What restores, and what reads; closed at the end."""
    restoring = LiveOffsetRestoring(KafkaCluster(node.bootstrap, timeout_s=60.0))
    reader = LiveGroupSnapshots(KafkaCluster(node.bootstrap, timeout_s=60.0), SystemClock(), patience_s=60.0)
    with closing(restoring), closing(reader):
        yield restoring, reader


def test_offsets_are_given_back_exactly_and_as_often_as_wanted(ports) -> None:
    """Offset, leader epoch and metadata, a NUL at the end included; then taken away, and given back again."""
    restoring, reader = ports
    for _ in range(2):
        assert restore_offsets(restoring, reader, ROWS).differing == ()
    groups = {row.group for row in ROWS}
    for _ in range(2):
        assert restoring.delete(groups) == {}
    left = read_back(reader, ROWS)
    assert (left.equal, len(left.differing), {each.current for each in left.differing}) == (
        0,
        len(ROWS),
        {None},
    )
    found = restore_offsets(restoring, reader, ROWS)
    assert (found.equal, found.differing) == (len(ROWS), ())


def test_what_is_committed_is_asked_without_a_listing(ports) -> None:
    """The same rows as a snapshot has, in fewer requests; a group that nobody knows has none."""
    restoring, reader = ports
    assert restoring.commit(ROWS) == {}
    groups = [*{row.group for row in ROWS}, "nobody knows"]
    taken = reader.take(groups)
    before = reader.requests
    found = reader.committed(groups)
    assert (sorted(found.offsets, key=str), found.problems) == (sorted(taken.offsets, key=str), [])
    assert len(found.offsets) == len(ROWS)
    assert reader.requests - before < taken.requests


def test_a_first_commit_that_is_pending_is_not_taken_for_none(node: Cluster, ports) -> None:
    """Its transaction is named while it is open; the offset is there once it ended. A group that is not there
    does not wait for it."""
    _, reader = ports
    group = f"settlement-{uuid.uuid4().hex[:6]}"
    pending = OpenTransaction(node.bootstrap, group, At(TOPIC, 0, 7))
    beside = (f"nobody-{number}" for number in range(1_000))
    absent = next(each for each in beside if partition_of(each, 5) == partition_of(group, 5))
    with closing(
        LiveGroupSnapshots(KafkaCluster(node.bootstrap, timeout_s=60.0), SystemClock(), patience_s=0.5)
    ) as hasty:
        found = hasty.committed([group])
        assert hasty.committed([absent]) == Committed(offsets=[], problems=[])
    assert found.offsets == []
    (problem,) = found.problems
    assert f"its first commit may be in a transaction that is open: '{group}'" in problem.problem
    pending.commit()
    assert [row.offset for row in reader.committed([group]).offsets] == [7]


def test_a_topic_that_is_not_there_is_told_and_hides_no_other(ports) -> None:
    """Refused by 4.3.1 (Kafka calls that worth asking again), taken by 3.9.2."""
    restoring, reader = ports
    gone = replace(ROWS[0], group="gone", topic="no-such-topic")
    found = restore_offsets(restoring, reader, [gone, replace(ROWS[1], group="there")])
    assert found.equal == 2 - len(found.differing)
    assert {each.reason for each in found.differing} <= {
        "offsets of group 'gone' are not committed: UNKNOWN_TOPIC_OR_PARTITION (3)"
    }


def test_a_group_with_members_is_refused_and_hides_no_other(node: Cluster, ports) -> None:
    """Neither its offsets nor the group are touched; offsets below 0 are none."""
    restoring, reader = ports
    alone = replace(ROWS[0], group="alone")
    none = replace(ROWS[0], group="none", offset=-1)
    with closing(KafkaCluster(node.bootstrap, timeout_s=60.0)) as cluster:
        commit(cluster, {"busy": {TopicPartition(TOPIC, 0): (1, "")}})
        nodes, _ = cluster.coordinators(["busy"])
        member = ClassicMember(cluster.broker(nodes["busy"]), "busy", [TOPIC])
        member.join()
        member.sync(assignment({TOPIC: range(4)}))
        busy = [replace(row, group="busy") for row in ROWS[:4]]
        found = restore_offsets(restoring, reader, [*busy, alone, none])
        assert {each.wanted.group for each in found.differing} == {"busy"}
        assert {each.reason for each in found.differing} == {
            "offsets of group 'busy' are not committed: UNKNOWN_MEMBER_ID (25)"
        }
        assert found.equal == 1
        refused = restoring.delete(["busy", "alone", "never there"])
        assert refused == {"busy": "group 'busy' is not deleted: NON_EMPTY_GROUP (68)"}
    assert [each.current for each in read_back(reader, [alone]).differing] == [None]


def test_a_group_larger_than_a_batch_of_its_coordinator(node: Cluster, ports, monkeypatch) -> None:
    """Its members committed their shares; given back in one request a coordinator refuses it as too large."""
    restoring, reader = ports
    create_topic(node.bootstrap, "wide", 300)
    rows = [
        OffsetRow(group="wide", topic="wide", partition=number, offset=number, metadata=f"{number:04}" * 1000)
        for number in range(300)
    ]
    monkeypatch.setattr(group_changes, "_PART_BYTES", 1 << 30)
    refused = restoring.commit(rows)
    said = {"4.3.1": "UNKNOWN_SERVER_ERROR (-1)", "3.9.2": "INVALID_COMMIT_OFFSET_SIZE (28)"}
    assert said[node.options.release] in refused["wide"]
    monkeypatch.undo()
    assert restore_offsets(restoring, reader, rows).differing == ()


def test_a_group_with_more_offsets_than_one_batch_holds_is_deleted(node: Cluster, ports) -> None:
    """Asked to delete it whole, 4.3.1 refuses; 3.9.2 forgets it and leaves all of it in the log. In parts
    both delete it, with an offset of a topic that is gone, and a small group beside it."""
    restoring, reader = ports
    topic, gone = "long-" * 49, "soon-gone"
    create_topic(node.bootstrap, topic, 300)
    create_topic(node.bootstrap, gone, 1)
    rows = [OffsetRow(group="many", topic=topic, partition=number, offset=number) for number in range(300)]
    rows += [OffsetRow(group="many", topic=gone, partition=0, offset=7), replace(ROWS[0], group="few")]
    assert restoring.commit(rows) == {}
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    with limited(admin, "50000"):
        with closing(KafkaCluster(node.bootstrap, timeout_s=60.0)) as cluster:
            refused = group_deleting._deleted(cluster, {"many"}, unheld)
        assert refused == {"4.3.1": {"many": -1}, "3.9.2": {}}[node.options.release]
        assert len(logged(node, "many")) == 301
        if not refused:  # gone, so it says, until it loads the log again (H39)
            assert reader.committed(["many"]).offsets == []
            replace_node(node, 1, unchanged)
        assert len(reader.committed(["many"]).offsets) == 301
    assert restoring.commit(rows) == {}
    admin.delete_topics([gone])[gone].result(60)
    with limited(admin, "50000"):
        assert restoring.delete(["many", "few"]) == {}
    assert reader.committed(["many", "few"]).offsets == []
    assert [row.state for row in reader.take(["many", "few"]).groups] == ["Dead", "Dead"]
    assert logged(node, "many") | logged(node, "few") == set()


def test_a_large_group_with_members_loses_no_offset(node: Cluster, ports) -> None:
    """It would be deleted in parts, and a coordinator deletes single offsets of groups with members, too: of
    topics that nobody subscribes to, as these."""
    restoring, reader = ports
    topic = "wide-" * 49
    create_topic(node.bootstrap, topic, 300)
    rows = [OffsetRow(group="crowd", topic=topic, partition=number, offset=number) for number in range(300)]
    assert restoring.commit(rows) == {}
    with closing(KafkaCluster(node.bootstrap, timeout_s=60.0)) as cluster:
        nodes, _ = cluster.coordinators(["crowd"])
        member = ClassicMember(cluster.broker(nodes["crowd"]), "crowd", [TOPIC])
        member.join()
        member.sync(assignment({TOPIC: range(4)}))
        assert restoring.delete(["crowd"]) == {"crowd": "group 'crowd' is not deleted: it is Stable"}
        assert len(reader.committed(["crowd"]).offsets) == 300


def logged(node: Cluster, group: str) -> set[tuple[str, int]]:
    """Topic and partition of every live commit of the group in the log."""
    log = DirectLog(Brokers(bootstrap_servers=node.bootstrap, properties={}, timeout_s=60.0))
    found: dict[tuple[str, int], bool] = {}
    for record in sorted(log.read(log.position()), key=lambda each: each.offset):
        place = commit_place(record.key)
        if place is not None and place[0] == group:
            found[place[1:]] = record.value is not None
    return {place for place, live in found.items() if live}


@contextmanager
def limited(admin: AdminClient, bytes_: str) -> Iterator[None]:
    """The offsets topic takes no larger batch meanwhile."""
    limit(admin, bytes_)
    try:
        yield
    finally:
        limit(admin, "1048588")


def limit(admin: AdminClient, bytes_: str) -> None:
    """The largest batch that the offsets topic takes."""
    entry = ConfigEntry("max.message.bytes", bytes_, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets", incremental_configs=[entry])
    for pending in admin.incremental_alter_configs([resource]).values():
        pending.result(60)
