"""Scenario 18: one partition has no leader and no offset; the others are committed all the same (O3)."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from groupshift.consumers import MigratingConsumer
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.znodes import topic_path
from groupshift_sandbox.processes import wait_until
from support.group_probe import PATIENCE_S, GroupProbe
from support.numbered_records import write
from support.protocol_fleet import patiently
from support.reading_member import ReadingMember

ABSENT_BROKER = 99
BAD = 2


def leader(admin, name, partition):
    """The partition's leader as the broker tells clients; None while it does not know the partition."""
    known = admin.list_topics(name, timeout=60).topics[name].partitions
    return known[partition].leader if partition in known else None


@pytest.fixture
def crippled(cluster, topic, kazoo):
    """A topic of three partitions, the last of which is on a broker that is not there.

    The controller takes a partition's last state from ZooKeeper when it is elected."""
    name = topic(2)
    path = topic_path(name)
    write(cluster.bootstrap, name, 2, 10)
    state = {
        "controller_epoch": 1, "leader": -1, "version": 1, "leader_epoch": 0, "isr": [ABSENT_BROKER],
    }  # fmt: skip
    kazoo.create(f"{path}/partitions/{BAD}/state", json.dumps(state).encode(), makepath=True)
    described = json.loads(kazoo.get(path)[0])
    described["partitions"][str(BAD)] = [ABSENT_BROKER]
    kazoo.set(path, json.dumps(described).encode())
    kazoo.delete("/controller")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wait_until(lambda: leader(admin, name, BAD) == -1, PATIENCE_S, f"{name}-{BAD} has no leader")
    wait_until(lambda: leader(admin, name, 0) == 0, PATIENCE_S, f"{name}-0 has one")
    yield name
    kazoo.delete(path, recursive=True)


@pytest.mark.parametrize("mode", list(Mode))
def test_scenario_18_one_bad_partition(cluster, group, kazoo, crippled, mode):
    """The member owns all three, delivers two and commits these to both stores, asked or by itself."""
    name, probe = crippled, GroupProbe(kazoo, group)
    node = probe.set_mode(mode.value.encode())
    consumer = MigratingConsumer(
        {
            "group.id": group,
            "zookeeper.connect": cluster.zookeeper,
            "bootstrap.servers": cluster.bootstrap,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 500,
        }
    )
    member = ReadingMember(consumer).join([name])
    looking = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})

    def stores():
        asked = [KafkaPartition(name, number) for number in range(3)]
        kafka = patiently(lambda: looking.committed(asked, timeout=60))
        return [probe.offset(name, number) for number in range(3)], [each.offset for each in kafka]

    try:
        probe.await_shares(name, {consumer.consumer_id: 3})
        probe.await_published([consumer.consumer_id], mode, node)
        wait_until(lambda: stores() == ([10, 10, None], [10, 10, -1001]), PATIENCE_S, "both stores at 10")
        write(cluster.bootstrap, name, 2, 10)
        wait_until(lambda: stores() == ([20, 20, None], [20, 20, -1001]), PATIENCE_S, "both stores at 20")
        assert member.delivered == {TopicPartition(name, number): list(range(20)) for number in (0, 1)}
        assert TopicPartition(name, BAD) in consumer.status().owned
        consumer.commit(asynchronous=False)
        member.close()
        assert stores() == ([20, 20, None], [20, 20, -1001])
    finally:
        member.close()
        looking.close()
