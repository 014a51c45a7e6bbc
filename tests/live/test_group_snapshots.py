"""Live snapshots of all groups of a KRaft broker, of 4.3.1 and of 3.9.2 with the NEW coordinator."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.kafka.wire import Api
from groupshift.adapters.parquet.compare_inputs import verify
from groupshift.adapters.system import SystemClock
from groupshift.cli.main import main
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState, GroupRow, OffsetRow
from groupshift.errors import Transient
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from support.native_member import NativeMember, ShareMember, joined
from support.open_transaction import OpenTransaction

PARTITIONS = 3


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The session's 4.3.1 broker, then a 3.9.2 of this module with the NEW coordinator."""
    if request.param == "4.3.1":
        yield request.getfixturevalue("kraft").bootstrap
        return
    home = Home(tmp_path_factory.mktemp("kraft-3.9.2")).create()
    try:
        yield start_kraft(home, KraftOptions(release="3.9.2", properties=CONSUMER_PROTOCOL)).bootstrap
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


@pytest.fixture
def raw(bootstrap: str) -> Iterator[KafkaCluster]:
    """A cluster of this test's own."""
    cluster = KafkaCluster(bootstrap, timeout_s=60.0)
    yield cluster
    cluster.close()


@pytest.fixture
def take(bootstrap: str) -> Iterator[Callable[..., ClusterState]]:
    """Take a snapshot of these groups with connections of its own."""
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=20.0), SystemClock())
    yield lambda *groups: snapshots.take(groups or None)
    snapshots.close()


@pytest.fixture
def orders(bootstrap: str, group: str) -> str:
    """A fresh topic with three partitions."""
    create_topic(bootstrap, f"orders-{group}", PARTITIONS)
    return f"orders-{group}"


def row_of(state: ClusterState, group: str) -> GroupRow:
    """The row of this group."""
    (found,) = [row for row in state.groups if row.group == group]
    return found


def committed(state: ClusterState, group: str) -> Mapping[tuple[str, int], OffsetRow]:
    """The committed offsets of this group."""
    return {(row.topic, row.partition): row for row in state.offsets if row.group == group}


def test_a_classic_group_is_read_with_members_assignment_offsets_and_log_ends(
    bootstrap: str, take, orders: str, group: str
) -> None:
    """What the client itself knows is what the rows say; the metadata's trailing NUL stays visible."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(orders, str(number), partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "c1", "group.instance.id": "i1"}
        | {"partition.assignment.strategy": "range", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([orders])
        wait_until(
            lambda: (consumer.poll(0.1), len(consumer.assignment()))[1] == PARTITIONS, 60.0, "assigned"
        )
        consumer.commit(offsets=[At(orders, 0, 4, metadata="checkpoint")], asynchronous=False)
        member_id = consumer.memberid()
        state = take()
    finally:
        consumer.close()
    row = row_of(state, group)
    assert (row.type, row.state, row.protocol_type, row.protocol) == (
        "classic",
        "Stable",
        "consumer",
        "range",
    )
    assert (row.generation, row.coordinator) == (None, 1)
    (member,) = [each for each in state.members if each.group == group]
    assert (member.member_id, member.client_id, member.instance_id) == (member_id, "c1", "i1")
    assert [each.topic for each in state.subscriptions if each.group == group] == [orders]
    assert [each.partition for each in state.assignments if each.group == group] == [0, 1, 2]
    (at,) = committed(state, group).values()
    assert (at.partition, at.offset, at.metadata) == (0, 4, "checkpoint\0")
    ends = [(end.partition, end.log_start, end.log_end) for end in state.log_ends if end.topic == orders]
    assert ends == [(0, 0, 5), (1, 0, 0), (2, 0, 0)]
    assert [each for each in state.problems if each.group == group] == []


def test_a_consumer_group_is_read_with_its_epochs(take, raw: KafkaCluster, orders: str, group: str) -> None:
    """ConsumerGroupDescribe gives what DescribeGroups calls unknown: epochs, assignor and assignment."""
    member = joined(NativeMember, raw, group, [orders])
    member.await_assigned(PARTITIONS)
    epoch, state = member.epoch, take(group)
    member.leave()
    row = row_of(state, group)
    assert (row.type, row.state, row.protocol) == ("consumer", "Stable", "uniform")
    (found,) = state.members
    assert found.member_id == member.member_id
    assert epoch >= 1
    assert row.generation == row.assignment_epoch == found.member_epoch == epoch
    assert [(each.topic, each.partition) for each in state.assignments] == [(orders, n) for n in range(3)]
    assert [each.topic for each in state.subscriptions] == [orders]
    assert state.problems == []


class Hiding(KafkaCluster):
    """Its brokers list no group, as while the partition of a group moves to another leader."""

    def ask_brokers(
        self, questions: Callable[[BrokerConnection, int], Iterable[Any]]
    ) -> dict[int, list[Any]]:
        """The answers; those to ListGroups without a group."""
        answers = super().ask_brokers(questions)
        return {
            node: [replace(each, groups=()) if each.__api_key__ == Api.LIST_GROUPS else each for each in told]
            for node, told in answers.items()
        }


def test_a_consumer_group_that_the_listing_hides_is_read_by_its_name(
    bootstrap: str, raw: KafkaCluster, orders: str, group: str
) -> None:
    """Nobody tells its type, so its coordinator is asked for either before the group counts as gone."""
    member = joined(NativeMember, raw, group, [orders])
    member.await_assigned(PARTITIONS)
    epoch = member.epoch
    hidden = LiveGroupSnapshots(Hiding(bootstrap, timeout_s=20.0), SystemClock())
    try:
        assert hidden.take().groups == []
        state = hidden.take([group])
    finally:
        hidden.close()
        member.leave()
    row = row_of(state, group)
    assert (row.type, row.state, row.generation) == ("consumer", "Stable", epoch)
    assert len(state.assignments) == PARTITIONS
    assert state.problems == []


def test_a_share_group_is_read_with_two_members_of_one_partition(kraft: Cluster, group: str) -> None:
    """ShareGroupDescribe; such a group commits no offsets, and none are asked for."""
    create_topic(kraft.bootstrap, f"shared-{group}", 1)
    cluster = KafkaCluster(kraft.bootstrap, timeout_s=60.0)
    snapshots = LiveGroupSnapshots(cluster, SystemClock())
    try:
        members = [joined(ShareMember, cluster, group, [f"shared-{group}"]) for _ in range(2)]

        def shared() -> bool:
            for member in members:
                member.beat()
            return all(member.assigned == 1 for member in members)

        wait_until(shared, 60, "both members have the partition", every_s=0.2)
        state = snapshots.take([group])
        for member in members:
            member.leave()
    finally:
        snapshots.close()
    row = row_of(state, group)
    assert (row.type, row.protocol_type, row.state) == ("share", "share", "Stable")
    assert row.generation == row.assignment_epoch
    assert {each.member_id for each in state.members} == {member.member_id for member in members}
    assert [(each.topic, each.partition) for each in state.assignments] == [(f"shared-{group}", 0)] * 2
    assert (state.offsets, state.problems) == ([], [])


def test_a_group_that_nobody_knows_is_dead_and_no_problem(take, group: str) -> None:
    """Its coordinator says so; that is a positive answer, not a missing one."""
    state = take(group)
    assert (row_of(state, group).state, state.offsets, state.problems) == ("Dead", [], [])


def test_many_groups_take_few_requests_and_equal_librdkafkas_answer(
    bootstrap: str, take, raw: KafkaCluster, orders: str, group: str
) -> None:
    """500 groups with metadata of their own: a request for hundreds of groups, equal offset by offset."""
    names = [f"{group}-{number:03}" for number in range(500)]
    committed_there = {
        name: {TopicPartition(orders, p): (1000 * number + p, f"m{number}") for p in range(PARTITIONS)}
        for number, name in enumerate(names)
    }
    commit(raw, committed_there)
    state = take(*names)
    assert state.requests < 40
    assert state.problems == []
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = [admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name] for name in names]
    told = [each.result(timeout=60) for each in asked]  # a request a group: librdkafka knows no other way
    theirs = {
        (found.group_id, at.topic, at.partition): at.offset for found in told for at in found.topic_partitions
    }
    ours = {(row.group, row.topic, row.partition): (row.offset, row.metadata) for row in state.offsets}
    assert {key: offset for key, (offset, _) in ours.items()} == theirs
    assert ours == {  # librdkafka's Python client reads metadata beyond its end
        (name, at.topic, at.partition): value
        for name, offsets in committed_there.items()
        for at, value in offsets.items()
    }
    assert len(ours) == 500 * PARTITIONS


def test_a_snapshot_waits_for_an_open_transaction(
    bootstrap: str, take, raw: KafkaCluster, orders: str, group: str
) -> None:
    """While it is open its group is asked again; the committed offset is then the transaction's."""
    commit(raw, {group: {TopicPartition(orders, 0): (3, "before")}})
    pending = OpenTransaction(bootstrap, group, At(orders, 0, 7, metadata="after"))
    asked = threading.Event()
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=20.0), SystemClock(), patience_s=60.0)
    rounds: list[int] = []

    def told(_what: str, done: int, _of: int) -> None:
        rounds.append(done)
        if len(rounds) >= 4:
            asked.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(snapshots.take, [group], progress=told)
        assert asked.wait(30), "the group is not asked again"
        assert not waiting.done()
        pending.commit()
        state = waiting.result(60)
    snapshots.close()
    (at,) = committed(state, group).values()
    assert (at.offset, at.metadata) == (7, "after\0")
    assert state.problems == []


def test_a_transaction_that_stays_open_is_a_problem_of_its_group_only(
    bootstrap: str, raw: KafkaCluster, orders: str, group: str
) -> None:
    """Neither the old nor the new offset is told; another partition's and another group's are."""
    commit(
        raw, {name: {TopicPartition(orders, p): (3, "") for p in (0, 1)} for name in (group, f"{group}-b")}
    )
    pending = OpenTransaction(bootstrap, group, At(orders, 0, 7))
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=20.0), SystemClock(), patience_s=0.5)
    try:
        state = snapshots.take([group, f"{group}-b"])
    finally:
        pending.abort()
        snapshots.close()
    assert sorted(committed(state, group)) == [(orders, 1)]
    assert sorted(committed(state, f"{group}-b")) == [(orders, 0), (orders, 1)]
    (problem,) = state.problems
    assert problem.group == group
    assert f"a transaction that commits {orders}-0 is open" in problem.problem


def test_a_first_commit_in_an_open_transaction_is_waited_for(
    bootstrap: str, raw: KafkaCluster, orders: str, group: str
) -> None:
    """The coordinator says nothing of it, but the transaction does: without its end the group is a problem
    that names it, with it the offset is there."""
    pending = OpenTransaction(bootstrap, group, At(orders, 0, 7))
    impatient = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=20.0), SystemClock(), patience_s=0.5)
    state = impatient.take([group])
    impatient.close()
    assert state.offsets == []
    (problem,) = state.problems
    assert f"its first commit may be in a transaction that is open: {group!r}" in problem.problem
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=20.0), SystemClock(), patience_s=60.0)
    with ThreadPoolExecutor(1) as pool:
        rounds = threading.Semaphore(0)
        waiting = pool.submit(snapshots.take, [group], progress=lambda *_: rounds.release())
        assert all(rounds.acquire(timeout=30) for _ in range(6)), "the group is not asked again"
        assert not waiting.done()
        pending.commit()
        state = waiting.result(60)
    snapshots.close()
    assert [(row.partition, row.offset) for row in state.offsets] == [(0, 7)]
    assert state.problems == []


def test_offsets_of_a_topic_that_is_gone_are_kept_and_said(
    bootstrap: str, take, raw: KafkaCluster, orders: str, group: str
) -> None:
    """A deleted topic has no log end; that hides neither its offsets nor other topics' ends."""
    doomed = f"doomed-{group}"
    create_topic(bootstrap, doomed, 1)
    commit(raw, {group: {TopicPartition(name, 0): (2, "") for name in (doomed, orders)}})
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept: without a name it ends before its answer
    admin.delete_topics([doomed])[doomed].result(timeout=60)
    wait_until(lambda: not raw.partitions_of([doomed])[0], 60, "the topic is gone")
    state = take(group)
    assert (orders, 0) in committed(state, group)
    assert {end.topic for end in state.log_ends} == {orders}
    if (doomed, 0) in committed(state, group):  # the coordinator forgets such offsets a moment later
        assert [row.problem for row in state.problems] == [
            (
                f"topic {doomed!r} does not exist (any more), and no member reads it: "
                "its committed offsets are kept as they are"
            )
        ]


def test_a_bootstrap_server_that_is_down_is_passed_over(kraft: Cluster) -> None:
    """Whichever is tried first, the broker is met; its connection then is to the advertised address."""
    for _ in range(6):
        cluster = KafkaCluster(f"127.0.0.1:1,{kraft.bootstrap}", timeout_s=20.0)
        assert [node.node_id for node in cluster.brokers()] == [1]
        assert cluster.broker(1).address == kraft.bootstrap
        cluster.close()


def test_nobody_at_the_address_is_one_sentence() -> None:
    """Who does not answer and at what address, within the time."""
    snapshots = LiveGroupSnapshots(KafkaCluster("127.0.0.1:1", timeout_s=0.3), SystemClock())
    with pytest.raises(Transient, match=r"Kafka does not answer at 127\.0\.0\.1:1 .*check that it runs"):
        snapshots.take()


def test_the_command_writes_a_snapshot_that_can_be_compared(
    bootstrap: str,
    raw: KafkaCluster,
    orders: str,
    group: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`groupshift snapshot` ends with the next command; its files are those that `compare` proves."""
    commit(raw, {group: {TopicPartition(orders, 0): (2, "x")}})
    arguments = ["snapshot", "--groups", group, "--bootstrap-servers", bootstrap, "--timeout", "60"]
    assert main([*arguments, "--output", str(tmp_path / "a"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"]["offsets"], told["problems"]) == (1, [])
    assert told["next"] == f"groupshift compare {tmp_path / 'a'} LATER --move MOVE"
    assert verify(tmp_path / "a").manifest.digest == told["manifest_sha256"]
    assert main([*arguments, "--output", str(tmp_path / "a")]) == 2
    assert "never overwritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "either --groups NAME,NAME or --all"),
        (["--all", "--groups", "g"], "either --groups NAME,NAME or --all"),
        (["--all", "--settings", "s.toml"], "give one of them"),
    ],
)
def test_the_command_refuses_what_is_not_clear(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, exit code 2, nothing written."""
    arguments = ["snapshot", "--bootstrap-servers", "127.0.0.1:1", "--output", str(tmp_path / "a"), *options]
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
