"""The face of the consumers on real servers: failing to join, metrics, callbacks, no migration."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import threading

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.consumers import MigratingConsumer, ZookeeperConsumer, kafka_membership, owned_partitions
from groupshift.consumers import config as member_configuration
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected, Transient
from groupshift_sandbox.processes import free_port, wait_until
from groupshift_sandbox.producer import NumberedProducer
from support.group_probe import PATIENCE_S, GroupProbe
from support.reading_member import ReadingMember
from support.threads_left import await_no_thread, threads_of

RECORDS = 10
DRAIN_S = 30.0


@pytest.fixture
def configuration(cluster, group):
    """Of a member of this test's group."""

    def make(number, **properties):
        return {
            "group.id": group,
            "consumer.id": f"m{number}",
            "zookeeper.connect": cluster.zookeeper,
            "bootstrap.servers": cluster.bootstrap,
            "auto.offset.reset": "smallest",
            **{key.replace("_", "."): value for key, value in properties.items()},
        }

    return make


@pytest.fixture
def join(configuration):
    """Factory: a reading member; closed after the test."""
    members = []

    def run(number, topics, callbacks=None, **properties):
        members.append(ReadingMember(MigratingConsumer(configuration(number, **properties))))
        return members[-1].join(topics, **(callbacks or {}))

    yield run
    for member in members:
        member.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch):
    """Properties of a member that waits longer for its application, and for Kafka, than one may configure."""
    monkeypatch.setattr(member_configuration, "_LONGEST_DRAIN_S", DRAIN_S)
    monkeypatch.setattr(owned_partitions, "_COMMIT_S", PATIENCE_S)
    monkeypatch.setattr(kafka_membership, "_REVOKE_S", PATIENCE_S)
    return {"rebalance_drain_ms": str(int(DRAIN_S * 1000))}


@pytest.fixture
def written(cluster, topic):
    """A topic of four partitions with a few records each."""
    name = topic(4)
    numbered = NumberedProducer(cluster.bootstrap, name, 4)
    for number in range(4):
        for _ in range(RECORDS):
            numbered.send(number)
    numbered.flush()
    return name


def all_of(name, *numbers):
    """Partitions of a topic."""
    return frozenset(TopicPartition(name, number) for number in numbers)


def test_a_subscription_that_failed_can_be_repeated_and_closed(configuration, relay, written):
    """Without ZooKeeper it is a clear error; nothing is left behind, and the next attempt works."""
    member = MigratingConsumer(
        configuration(1, zookeeper_connect=f"127.0.0.1:{free_port()}", zookeeper_connection_timeout_ms=500)
    )
    for _ in range(2):
        with pytest.raises(Transient, match=r"zookeeper\.connect"):
            member.subscribe([written])
    await_no_thread(member.consumer_id, PATIENCE_S)
    member.close()
    member.close()
    with pytest.raises(RuntimeError):
        member.poll(0)
    link = relay("zookeeper")
    link.cut()
    member = MigratingConsumer(
        configuration(2, zookeeper_connect=link.address, zookeeper_connection_timeout_ms=500)
    )
    with pytest.raises(Transient):
        member.subscribe([written])
    link.restore()
    wait_until(lambda: _subscribed(member, written), PATIENCE_S, "subscribed at last")
    assert member.poll(30) is not None
    member.close()


def _subscribed(member, topic):
    try:
        member.subscribe([topic])
    except Transient:
        return False
    return True


def test_metrics_are_served_while_the_consumer_is_open(join, written):
    """The same numbers by HTTP and as a dictionary; gone with close()."""
    member = join(1, [written], metrics_port=0, client_id="app")
    wait_until(lambda: member.count == 4 * RECORDS, PATIENCE_S, "all delivered")
    port = member.consumer.metrics_port

    def scrape():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()

    labels = f'client_id="app",group_id="{member.consumer.consumer_id[:-3]}"'
    assert f"groupshift_consumer_owned_partitions_count{{{labels}" in scrape()
    member.consumer.commit(asynchronous=False)
    stats = member.consumer.statistics()
    assert (stats["owned_partitions_count"], stats["mode"]) == (4, "zookeeper")
    assert stats["zookeeper_commits"] >= 4
    assert stats["rebalances"] >= 1
    member.close()
    with pytest.raises(ConnectionRefusedError):
        scrape()


@pytest.mark.parametrize("mode", list(Mode))
def test_a_commit_in_on_revoke_is_where_the_next_owner_starts(kazoo, group, join, written, patient, mode):
    """Without auto commit: only what the callback commits counts, in either mode."""
    probe = GroupProbe(kazoo, group)
    probe.set_mode(mode.value.encode())
    failed: list[Transient] = []

    def commit(consumer, partitions):
        """As an application would: again, until it is answered."""
        offsets = [KafkaPartition(each.topic, each.partition, 7) for each in partitions]
        try:
            wait_until(lambda: _committed(consumer, offsets), DRAIN_S, "the commit of the callback")
        except Transient as error:
            failed.append(error)

    first = join(1, [written], {"revoke": commit}, enable_auto_commit="false", **patient)
    wait_until(lambda: first.count == 4 * RECORDS, PATIENCE_S, "all delivered")
    second = join(2, [written], enable_auto_commit="false")
    wait_until(lambda: len(second.delivered) == 2, PATIENCE_S, "the second delivers")
    assert failed == []
    assert {offsets[0] for offsets in second.delivered.values()} == {7}
    heard = [(name, told) for name, told, _ in first.heard if name != "group"]
    given = [told for name, told in itertools.takewhile(lambda each: each[0] == "assign", heard)]
    assert frozenset().union(*given) == all_of(written, 0, 1, 2, 3)
    assert "lost" not in [name for name, _ in heard]
    assert [name for name, _, before in second.heard if before == 0][:1] == ["group"]


def _committed(consumer, offsets):
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException:
        return False
    return True


def test_close_calls_on_revoke_on_the_thread_that_closes(join, written, patient):
    """With everything that was held; a commit there still counts."""
    threads: list[threading.Thread] = []
    member = join(1, [written], {"revoke": lambda *_: threads.append(threading.current_thread())}, **patient)
    wait_until(lambda: member.count == 4 * RECORDS, PATIENCE_S, "all delivered")
    member.close()
    assert threads == [threading.current_thread()]
    assert member.heard[-1][:2] == ("revoke", all_of(written, 0, 1, 2, 3))


def test_scenario_30_global_listener(kazoo, group, join, written, consume_member):
    """Kafka mode, two of ours and a plain consumer: the same complete map at both, before delivery."""
    probe = GroupProbe(kazoo, group)
    node = probe.set_mode(b"kafka")
    members = [join(number, {written: 2}) for number in (1, 2)]
    ids = [each.consumer.consumer_id for each in members]
    probe.await_published(ids, Mode.KAFKA, node)
    consume_member("plain", "k1", [written])

    def maps():
        return [[told for name, told, _ in member.heard if name == "group"] for member in members]

    def plain_counts():
        found = [each[-1] for each in maps() if each]
        if len(found) < 2 or found[0] != found[1] or not found[0].complete:
            return False
        return any(not thread.startswith(tuple(ids)) for thread in found[0].threads.values())

    wait_until(plain_counts, PATIENCE_S, "both know the same map with the plain consumer in it")
    told = maps()[0][-1]
    assert (told.mode, len(told.threads)) == (Mode.KAFKA, 4)
    (plain,) = {each for each in told.threads.values() if not each.startswith(tuple(ids))}
    assert plain.startswith(f"{group}_k1-")
    assert plain.endswith("-0")
    for member, consumer_id in zip(members, ids, strict=True):
        mine = {each for each, thread in told.threads.items() if thread.rpartition("-")[0] == consumer_id}
        wait_until(lambda member=member, mine=mine: member.assigned == mine, PATIENCE_S, "the map is true")
        wait_until(lambda member=member: "assign" in heard(member), PATIENCE_S, "told of the own part")
        assert heard(member).index("group") < heard(member).index("assign")


def heard(member):
    """What it was told, in order."""
    return [name for name, _, _ in member.heard]


def test_without_migration_the_nodes_are_those_of_the_zookeeper_consumer(
    kazoo, group, configuration, written
):
    """MDZKCC: no migration id, no Kafka membership, the same bytes but for the time."""
    probe, seen = GroupProbe(kazoo, group), {}
    probe.set_mode(b"kafka")
    switched_off = {"coordination_migration_enabled": "false"}
    for kind, properties in ((ZookeeperConsumer, {}), (MigratingConsumer, switched_off)):
        member = kind(configuration(1, **properties))
        member.subscribe({written: 2})
        assert member.poll(30) is not None
        wait_until(lambda: len(probe.owners(written)) == 4, PATIENCE_S, "all owned")
        assert not kazoo.exists(probe.paths.migration_id_of(member.consumer_id))
        assert not threads_of(f"groupshift-member-{member.consumer_id}")
        assert member.status().mode is Mode.ZOOKEEPER
        registration = kazoo.get(probe.paths.id_of(member.consumer_id))[0]
        stamp = json.loads(registration)["timestamp"].encode()
        owners = {
            number: kazoo.get(probe.paths.owner_of(TopicPartition(written, number)))[0] for number in range(4)
        }
        seen[kind] = (registration.replace(stamp, b""), owners)
        member.close()
    assert seen[ZookeeperConsumer] == seen[MigratingConsumer]
    assert "migration" in kazoo.get_children(probe.paths.root)
    assert kazoo.get_children(f"{probe.paths.root}/migration") == ["mode"]


def test_the_old_kind_of_consumer_finds_the_brokers_in_zookeeper(configuration, written):
    """As the Scala consumer does: no bootstrap.servers."""
    told = {key: value for key, value in configuration(1).items() if key != "bootstrap.servers"}
    with ZookeeperConsumer(told) as member:
        member.subscribe([written])
        assert member.poll(30) is not None
    lost = ZookeeperConsumer({**told, "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"})
    with pytest.raises(Rejected, match="SASL_SSL"):
        lost.subscribe([written])
    lost.close()


@pytest.fixture
def behind_links(kazoo, group, configuration, relay, written):
    """Factory: a member in a mode that delivers, and its links to ZooKeeper and to Kafka."""

    def run(mode):
        GroupProbe(kazoo, group).set_mode(mode.value.encode())
        links = relay("zookeeper"), relay("kafka")
        member = MigratingConsumer(
            configuration(1, zookeeper_connect=links[0].address, bootstrap_servers=links[1].address)
        )
        member.subscribe([written])
        assert member.poll(30) is not None
        wait_until(lambda: member.status().mode is mode, PATIENCE_S, f"{mode} mode")
        return member, *links

    return run


def assert_ended(member, kafka):
    """Nothing of it acts any more without the servers, and nothing at all is left when Kafka is back."""
    await_no_thread(member.consumer_id, PATIENCE_S, besides=["groupshift-farewell-"])
    with pytest.raises(RuntimeError):
        member.poll(0)
    kafka.restore()
    await_no_thread(member.consumer_id, PATIENCE_S)


@pytest.mark.parametrize("mode", list(Mode))
def test_close_ends_although_the_servers_are_gone(behind_links, mode):
    """N5: nothing of it goes on, whatever could not be said to the servers."""
    member, zookeeper, kafka = behind_links(mode)
    for link in (zookeeper, kafka):
        link.cut()
    with contextlib.suppress(Transient):
        member.close()
    assert_ended(member, kafka)


def test_close_ends_although_a_commit_gets_no_answer(behind_links):
    """N5: librdkafka repeats a commit that was under way when the connection broke until a broker answers,
    and ends no client before."""
    member, zookeeper, kafka = behind_links(Mode.KAFKA)
    kafka.stall()
    with pytest.raises(KafkaException):
        member.commit(asynchronous=False)
    for link in (zookeeper, kafka):
        link.cut()
    with contextlib.suppress(Transient):
        member.close()
    assert_ended(member, kafka)
