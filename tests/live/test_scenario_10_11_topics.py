"""Scenarios 10 and 11: partitions and topics that come and go while the group consumes."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from groupshift.consumers import Blacklist, MigratingConsumer, Whitelist
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.producer import NumberedProducer
from support.group_probe import PATIENCE_S, GroupProbe
from support.reading_member import ReadingMember


@pytest.fixture
def join(cluster, group):
    """Factory: a migrating consumer of this process."""
    members = []

    def run(number, topics, **properties):
        consumer = MigratingConsumer(
            {
                "group.id": group,
                "consumer.id": f"m{number}",
                "zookeeper.connect": cluster.zookeeper,
                "bootstrap.servers": cluster.bootstrap,
                "auto.offset.reset": "smallest",
                **properties,
            }
        )
        members.append(ReadingMember(consumer))
        return members[-1].join(topics)

    yield run
    for member in members:
        member.close()


@pytest.fixture
def prefix():
    """The beginning of the names of this test's topics."""
    return f"w{uuid.uuid4().hex[:6]}"


def fill(cluster, topic, partitions, records=5):
    """A few records in each partition."""
    numbered = NumberedProducer(cluster.bootstrap, topic, partitions)
    for number in range(partitions):
        for _ in range(records):
            numbered.send(number)
    numbered.flush()


def everything(topic, partitions):
    """All partitions of a topic."""
    return {TopicPartition(topic, number) for number in range(partitions)}


def delivered(members):
    """How many records of each topic came, each counted once."""
    came = {
        (at, offset)
        for member in members
        for at, offsets in dict(member.delivered).items()
        for offset in tuple(offsets)
    }
    return Counter(at.topic for at, _ in came)


def await_assigned(members, expected):
    """Wait until these members together are assigned exactly this, each partition once."""

    def met():
        shares = [member.assigned for member in members]
        return sum(map(len, shares)) == len(expected) and set().union(*shares) == expected

    wait_until(met, PATIENCE_S, f"{len(expected)} partitions assigned once")


@pytest.mark.parametrize("mode", list(Mode))
def test_scenario_11_wildcard_new_topic(cluster, group, kazoo, join, prefix, mode):
    """A matching topic is taken up in either mode, a non-matching and an internal one are not (L5, L6)."""
    probe = GroupProbe(kazoo, group)
    node = probe.set_mode(mode.value.encode())
    create_topic(cluster.bootstrap, f"{prefix}.a", 2)
    white = join(1, Whitelist(rf"{prefix}\.a.*, {prefix}\.x"))
    black = join(2, Blacklist(rf"(?!{prefix}).*|{prefix}\.a.+"))
    members = [white, black]
    probe.await_published([each.consumer.consumer_id for each in members], mode, node)
    expected = everything(f"{prefix}.a", 2)
    await_assigned(members, expected)
    create_topic(cluster.bootstrap, f"{prefix}.ab", 2)
    create_topic(cluster.bootstrap, f"{prefix}.x", 1)
    create_topic(cluster.bootstrap, f"other-{prefix}", 1)
    expected |= everything(f"{prefix}.ab", 2) | everything(f"{prefix}.x", 1)
    await_assigned(members, expected)
    for topic, partitions in ((f"{prefix}.a", 2), (f"{prefix}.ab", 2), (f"{prefix}.x", 1)):
        fill(cluster, topic, partitions)
    wait_until(
        lambda: {each for member in members for each in member.delivered} == expected,
        PATIENCE_S,
        "records of all topics",
    )
    assert all(
        each.topic.startswith(f"{prefix}.a") for each in black.delivered if each.topic != f"{prefix}.x"
    )
    assert everything(f"{prefix}.ab", 2) <= set(white.delivered)
    assert white.errors == black.errors == []


def test_scenario_11_wildcard_beside_scala(cluster, group, kazoo, join, prefix, scala_member):
    """Ours and the old consumer's whitelist agree on what matches, and share it."""
    probe = GroupProbe(kazoo, group)
    create_topic(cluster.bootstrap, f"{prefix}.a", 2)
    ours = join(1, Whitelist(rf"{prefix}\..*"))
    scala = scala_member("1.1.1", "s1", [f"{prefix}[.].*"])
    both = {ours.consumer.consumer_id: 1, scala.member_id: 1}
    probe.await_shares(f"{prefix}.a", both)
    create_topic(cluster.bootstrap, f"{prefix}.b", 2)
    create_topic(cluster.bootstrap, f"{prefix}-c", 1)
    probe.await_shares(f"{prefix}.b", both)
    assert probe.owners(f"{prefix}-c") == {}
    assert probe.owners("__consumer_offsets") == {}


@pytest.mark.parametrize("mode", list(Mode))
def test_scenario_10_add_partitions(cluster, group, kazoo, join, topic, mode):
    """Two partitions become six; all are owned once, in either mode."""
    probe, name = GroupProbe(kazoo, group), topic(2)
    probe.set_mode(mode.value.encode())
    members = [join(1, [name]), join(2, [name])]
    await_assigned(members, everything(name, 2))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions(name, 6)])[name].result(timeout=60)
    await_assigned(members, everything(name, 6))
    wait_until(lambda: [len(each.assigned) for each in members] == [3, 3], PATIENCE_S, "three each")
    owners = probe.await_shares(name, {each.consumer.consumer_id: 3 for each in members})
    assert sorted(owners) == list(range(6))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_deleted_topic_is_let_go_and_the_rest_goes_on(cluster, group, kazoo, join, topic, mode):
    """Its owner nodes go; the other topic is consumed as before."""
    probe, kept, gone = GroupProbe(kazoo, group), topic(2), topic(2)
    probe.set_mode(mode.value.encode())
    members = [join(1, [kept, gone]), join(2, [kept, gone])]
    await_assigned(members, everything(kept, 2) | everything(gone, 2))
    fill(cluster, gone, 2)
    wait_until(lambda: delivered(members) == {gone: 10}, PATIENCE_S, "all delivered")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([gone])[gone].result(timeout=60)
    await_assigned(members, everything(kept, 2))
    wait_until(lambda: probe.owners(gone) == {}, PATIENCE_S, "no owner of the deleted topic")
    fill(cluster, kept, 2)
    wait_until(lambda: delivered(members) == {kept: 10, gone: 10}, PATIENCE_S, "the rest is delivered")
    assert probe.owners(gone) == {}
    wait_until(lambda: set(probe.owners(kept)) == {0, 1}, PATIENCE_S, "the other topic is owned")


def test_a_member_that_subscribes_to_nothing_owns_nothing(cluster, group, kazoo, join, topic):
    """§1.2: it is registered, aware, follows every mode, and holds up nobody."""
    probe, name = GroupProbe(kazoo, group), topic(2)
    empty, other = join(1, {}), join(2, [name])
    await_assigned([other], everything(name, 2))
    ids = [empty.consumer.consumer_id, other.consumer.consumer_id]
    for mode in (Mode.KAFKA, Mode.ZOOKEEPER):
        node = probe.set_mode(mode.value.encode())
        probe.await_published(ids, mode, node)
        await_assigned([other], everything(name, 2))
    assert empty.assigned == frozenset()
