"""One view of a group from real servers: ZooKeeper and Kafka together."""

from __future__ import annotations

import contextlib
import gc
import logging
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from kazoo.client import KazooClient

from groupshift.adapters.groups import LiveGroupReader
from groupshift.adapters.kafka.cluster import observer
from groupshift.adapters.kafka.groups import KafkaGroups
from groupshift.adapters.ledger import LedgerFiles
from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.mode_brake_and_rights import ZookeeperModeSwitch
from groupshift.adapters.zookeeper.session import ZookeeperConnection
from groupshift.domain.evidence import Moment
from groupshift.domain.group import GroupView
from groupshift.domain.modes import ABSENT_MODE, MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Registration, encode_awareness, encode_registration
from groupshift.domain.snapshot import snapshot_rows
from groupshift.errors import Rejected, Transient
from groupshift_sandbox.processes import free_port, wait_until


class _Clock:
    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@pytest.fixture
def reader(cluster) -> Iterator[LiveGroupReader]:
    """The reader on the session's servers."""
    made = LiveGroupReader(
        ZookeeperGroups(ZookeeperConnection(cluster.zookeeper, timeout_s=60.0)),
        KafkaGroups(observer(cluster.bootstrap, timeout_s=60.0)),
        _Clock(),
    )
    yield made
    made.close()


@pytest.fixture
def kafka_member(cluster, group: str) -> Iterator[Callable[..., Consumer]]:
    """Factory: a Kafka consumer in this test's group, polled until it holds partitions."""
    made: list[Consumer] = []

    def join(client_id: str, *topics: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "client.id": client_id,
                "enable.auto.commit": False,
            }
        )
        made.append(consumer)
        consumer.subscribe(list(topics))

        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_until(joined, 60, f"{client_id} holds partitions")
        return consumer

    yield join
    for consumer in made:
        consumer.close()


def test_an_unknown_group_does_not_exist(reader: LiveGroupReader, group: str) -> None:
    """Proven: ZooKeeper's parent node and the group coordinator answered."""
    view = reader.read(group)
    assert not view.exists
    assert (view.kafka.state, view.members, view.problems) == ("Dead", (), ())


def test_a_plain_consumer_is_seen_with_its_subscription(
    reader: LiveGroupReader, topic, group: str, kafka_member
) -> None:
    """Also of a topic of which it holds nothing because another member has it all."""
    one, two = topic(1), topic(2)
    consumer = kafka_member("app-1", one, two)
    consumer.commit(offsets=[KafkaPartition(two, 1, 0, "note")], asynchronous=False)
    view = reader.read(group)
    (member,) = view.members
    assert (member.kind, member.client_id) == (MemberKind.PLAIN, "app-1")
    assert member.subscription == tuple(sorted(((one, 1), (two, 1))))
    assert view.exists
    assert view.kafka.state == "Stable"
    assert view.partitions == {TopicPartition(one, 0), TopicPartition(two, 0), TopicPartition(two, 1)}
    assert list(view.owners_by_partition.values()) == [(member.member_id,)] * 3
    ((partition, offset),) = [(at.at, at.offset) for at in view.kafka_offsets]
    assert (partition, offset) == (TopicPartition(two, 1), 0)
    assert view.kafka_offsets[0].metadata == "note\0"  # what confluent-kafka stores for "note"


def test_an_aware_member_is_one_with_its_embedded_consumer(
    reader: LiveGroupReader, topic, group: str, kafka_member, kazoo: KazooClient
) -> None:
    """By client id; beside it a plain one and an old one are told apart."""
    name = topic(4)
    registration = Registration(subscription=((name, 1),), timestamp="1")
    aware, old = f"{group}_m1-1", f"{group}_m2-1"
    for member in (aware, old):
        path = f"/consumers/{group}/ids/{member}"
        kazoo.create(path, encode_registration(registration), ephemeral=True, makepath=True)
    kazoo.create(
        f"/consumers/{group}/migration/ids/{aware}",
        encode_awareness(registration, software="9"),
        ephemeral=True,
        makepath=True,
    )
    kafka_member(aware, name)
    view = reader.read(group)
    assert [(member.member_id, member.kind) for member in view.members] == [
        (aware, MemberKind.AWARE),
        (old, MemberKind.ZOOKEEPER),
    ]
    assert (view.members[0].client_id, view.members[0].version) == (aware, "9")
    assert view.effective_mode is Mode.ZOOKEEPER
    assert all(owners == () for owners in view.owners_by_partition.values())
    assert len(view.owners_by_partition) == 4


@pytest.mark.parametrize("release", ["1.1.1", "0.10.2.2"])
def test_a_real_scala_member_becomes_a_verified_snapshot(
    reader: LiveGroupReader, cluster, topic, group: str, scala_member, producer, tmp_path, release: str
) -> None:
    """Member, owners, offsets, log ends and ledger of a live group, all consistent with each other."""
    name = topic(3)
    producer(name, 3, rate=20.0, count=40)
    member = scala_member(release, "m1-1", [name], seed=3, properties={"auto.commit.interval.ms": "500"})
    views: list[GroupView] = []
    ledger: dict[TopicPartition, int] = {}

    def committed_all() -> bool:
        views.append(reader.read(group))
        offsets = {at.at: at.offset for at in views[-1].zookeeper_offsets}
        ends = {end.at: end.log_end for end in views[-1].log_ends}
        ledger.update(LedgerFiles(cluster.home.ledgers).last_delivered(group))
        consumed = sum(ends.values()) == 120 and offsets == ends and len(views[-1].owners) == 3
        return consumed and ledger == {at: end - 1 for at, end in ends.items()}

    wait_until(committed_all, 60.0, "everything is consumed, committed and written down", every_s=0.2)
    for view in views:  # also the views taken while records flowed: no offset is ahead of its log end
        ends = {end.at: end.log_end for end in view.log_ends}
        assert all(at.offset <= ends[at.at] for at in view.zookeeper_offsets if at.at in ends)
    view = views[-1]
    assert [(m.member_id, m.kind) for m in view.members] == [(member.member_id, MemberKind.ZOOKEEPER)]
    assert {owner.member_id for owner in view.owners} == {member.member_id}
    assert list(view.owners_by_partition.values()) == [(member.member_id,)] * 3
    assert view.problems == ()
    assert ledger == {TopicPartition(name, number): 39 for number in range(3)}
    store = ParquetEvidence(tmp_path)
    rows = snapshot_rows(view, ledger)
    store.write(("m", "canary", Moment.BEFORE), view.taken_at_ms, rows)
    assert store.read("m", "canary", Moment.BEFORE) == rows


def test_what_the_brokers_do_not_know_is_a_problem(
    reader: LiveGroupReader, group: str, kazoo: KazooClient
) -> None:
    """A subscribed topic that was deleted; the offsets that it left behind are leftovers, and no problem."""
    registration = encode_registration(Registration(subscription=(("no-such-topic", 1),), timestamp="1"))
    path = f"/consumers/{group}/ids/{group}_m1-1"
    kazoo.create(path, registration, ephemeral=True, makepath=True)
    kazoo.create(f"/consumers/{group}/offsets/no-such-topic/0", b"5", makepath=True)
    view = reader.read(group)
    (problem,) = view.problems
    assert "no-such-topic" in problem
    assert view.partitions == frozenset()


def test_a_young_group_without_znode_offsets_shows_none(
    reader: LiveGroupReader, topic, group: str, kafka_member, kazoo: KazooClient
) -> None:
    """Kafka's offsets are there, ZooKeeper's are not: what N3 is found by."""
    name = topic(2)
    registration = Registration(subscription=((name, 1),), timestamp="1")
    member = f"{group}_m1-1"
    for folder, data in (
        ("ids", encode_registration(registration)),
        ("migration/ids", encode_awareness(registration, software="9")),
    ):
        kazoo.create(f"/consumers/{group}/{folder}/{member}", data, ephemeral=True, makepath=True)
    consumer = kafka_member(member, name)
    consumer.commit(offsets=[KafkaPartition(name, 0, 0), KafkaPartition(name, 1, 0)], asynchronous=False)
    view = reader.read(group)
    assert view.zookeeper_offsets == ()
    assert [at.partition for at in view.kafka_offsets] == [0, 1]


def test_a_broker_that_is_not_there_is_transient_and_named(cluster) -> None:
    """Address, setting and remedy in one sentence, after a bounded time."""
    address = f"127.0.0.1:{free_port()}"
    groups = KafkaGroups(observer(address, timeout_s=1.0))
    with pytest.raises(Transient) as caught:
        groups.observe("g")
    assert address in str(caught.value)
    assert "[kafka] bootstrap_servers" in str(caught.value)
    groups.close()


def _readable(groups: KafkaGroups, group: str, asked: Sequence[TopicPartition]) -> bool:
    with contextlib.suppress(Transient):
        side = groups.observe(group)
        ends = groups.positions(side, asked).log_ends
        return (side.kafka.state, side.topics[asked[0].topic], len(ends)) == ("Dead", len(asked), len(asked))
    return False


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_link_that_fails_is_transient_and_the_next_read_works(relay, topic, group: str, fault: str) -> None:
    """Whether the connection is closed or says nothing any more; the same reader goes on."""
    name, link = topic(2), relay("kafka")
    groups = KafkaGroups(observer(link.address, timeout_s=10.0))
    asked = [TopicPartition(name, number) for number in range(2)]
    for _ in range(2):
        wait_until(lambda: _readable(groups, group, asked), 60, "the group is read")
        getattr(link, fault)()
        with pytest.raises(Transient, match=link.address):
            groups.observe(group)
        with pytest.raises(Transient, match=link.address):
            groups.positions(GroupView(group=group), asked)
        link.restore()
    wait_until(lambda: _readable(groups, group, asked), 60, "the group is read again")
    groups.close()


def test_a_bootstrap_server_that_is_silent_is_passed_over(cluster, group: str) -> None:
    """The next one is asked within the same call, whichever is asked first."""
    for _ in range(4):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            both = f"127.0.0.1:{silent.getsockname()[1]},{cluster.bootstrap}"
            groups = KafkaGroups(observer(both, timeout_s=60.0))
            side = groups.observe(group)
            groups.close()
        assert side.kafka.state == "Dead"
        assert len(side.brokers) == 1
        assert ", speaks " in side.brokers[0]


def test_no_thread_and_no_socket_is_left_behind(cluster, group: str) -> None:
    """Neither of connections that were served nor of those that were refused."""
    gc.collect()
    threads = set(threading.enumerate())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for address in (cluster.bootstrap, f"127.0.0.1:{free_port()}"):
            groups = KafkaGroups(observer(address, timeout_s=5.0))
            with contextlib.suppress(Transient):
                groups.observe(group)
            assert set(threading.enumerate()) - threads == set()  # those of earlier tests may end meanwhile
            groups.close()
        gc.collect()
    assert [str(each.message) for each in caught if each.category is ResourceWarning] == []


def test_refused_credentials_are_rejected_without_the_secret(
    cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The password is in no sentence and in no log."""
    caplog.set_level(logging.DEBUG)
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "wonder-land-1",
    }
    groups = KafkaGroups(observer(cluster.bootstrap, properties=properties, timeout_s=60.0))
    with pytest.raises(Rejected, match=r"refuses the credentials.*\[kafka\.properties\]") as caught:
        groups.observe("g")
    assert "groupshift.adapters.kafka" in {record.name.rpartition(".")[0] for record in caplog.records}
    assert "wonder-land-1" not in caplog.text + str(caught.value)
    groups.close()


def test_a_wrong_property_is_rejected_without_its_secret(cluster) -> None:
    """The sentence names the key, never its value."""
    with pytest.raises(Rejected, match=r"a property of \[kafka\.properties\] cannot be used") as caught:
        KafkaGroups(observer(cluster.bootstrap, properties={"ssl.key.password.typo": "wonder-1"})).observe(
            "g"
        )
    assert "wonder-1" not in str(caught.value)


def test_a_toggle_is_seen_in_what_every_aware_member_publishes(
    reader: LiveGroupReader, cluster, topic, group: str, consume_member
) -> None:
    """The switch writes, members act, the reader tells which write each of them acts on: there and back."""
    name = topic(4)
    connection = ZookeeperConnection(cluster.zookeeper, timeout_s=60.0)
    switch = ZookeeperModeSwitch(connection)
    members = [consume_member("migrating", f"m{number}-1", [name]).member_id for number in (1, 2)]
    expected = ABSENT_MODE
    views: list[GroupView] = []
    for wanted in (Mode.KAFKA, Mode.ZOOKEEPER):

        def joined() -> bool:
            view = reader.read(group)
            held = view.owners_by_partition
            return (
                view.migration_ids == tuple(members)
                and {member.client_id for member in view.kafka.members} == set(members)
                and len(held) == 4
                and all(len(owners) == 1 for owners in held.values())
            )

        wait_until(joined, 60.0, "both members are in and own everything", every_s=0.1)
        expected = switch.compare_and_set(group, expected, wanted)

        def settled(wanted: Mode = wanted, identity: str = expected.identity) -> bool:
            views.append(reader.read(group))
            aware = views[-1].of_kind(MemberKind.AWARE)
            return [(m.mode, m.acting_on) for m in aware] == [(wanted, identity)] * 2

        wait_until(settled, 60, f"every member acts on {wanted}", every_s=0.1)
        view = views[-1]
        assert (view.effective_mode, view.mode) == (wanted, expected)
        assert [(m.fence, m.version is not None) for m in view.members] == [(1, True)] * 2
        assert view.problems == ()
    connection.close()
