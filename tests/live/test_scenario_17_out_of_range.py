"""Scenario 17: ZooKeeper holds offsets that the log has no more, or never had."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from groupshift.consumers import MigratingConsumer
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.processes import wait_until
from support.group_probe import PATIENCE_S, GroupProbe
from support.numbered_records import write
from support.reading_member import ReadingMember

LOG_START, LOG_END = 40, 100
BELOW, ABOVE, NONE = 10, 500, -1001


@pytest.fixture
def truncated(cluster, topic, group, kazoo):
    """A topic with the records 40 to 99 and 0 to 99, and the group's offsets below and above them."""
    name = topic(2)
    write(cluster.bootstrap, name, 2, LOG_END)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    deleted = admin.delete_records([KafkaPartition(name, 0, LOG_START)], request_timeout=60)
    assert [each.result(60).low_watermark for each in deleted.values()] == [LOG_START]
    for partition, offset in ((0, BELOW), (1, ABOVE)):
        path = f"{GroupProbe(kazoo, group).paths.offsets}/{name}/{partition}"
        kazoo.create(path, str(offset).encode(), makepath=True)
    return name


def in_kafka(cluster, group, name):
    """The group's offsets in Kafka, by partition; those of ZooKeeper may have been copied there."""
    looking = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        return [each.offset for each in looking.committed([KafkaPartition(name, n) for n in (0, 1)], 60)]
    finally:
        looking.close()


@pytest.mark.parametrize(("reset", "starts"), [("smallest", (LOG_START, 0)), ("largest", (LOG_END, LOG_END))])
def test_scenario_17_out_of_range(cluster, group, kazoo, truncated, reset, starts):
    """The reset policy decides, in both directions; no store has its answer before the next commit."""
    name, probe = truncated, GroupProbe(kazoo, group)
    consumer = MigratingConsumer(
        {
            "group.id": group,
            "zookeeper.connect": cluster.zookeeper,
            "bootstrap.servers": cluster.bootstrap,
            "auto.offset.reset": reset,
            "auto.commit.interval.ms": 600_000,
        }
    )
    member = ReadingMember(consumer).join([name])
    both = [KafkaPartition(name, number) for number in (0, 1)]
    expected = {
        TopicPartition(name, number): list(range(start, LOG_END + 5)) for number, start in enumerate(starts)
    }
    try:
        wait_until(
            lambda: [each.offset for each in consumer.position(both)] == [LOG_END] * 2,
            PATIENCE_S,
            "both positions at the log end",
        )
        write(cluster.bootstrap, name, 2, 5)
        wait_until(lambda: member.delivered == expected, PATIENCE_S, "exactly these are delivered")
        assert [probe.offset(name, number) for number in (0, 1)] == [BELOW, ABOVE]
        assert in_kafka(cluster, group, name) in ([NONE, NONE], [BELOW, ABOVE])
        consumer.commit(asynchronous=False)
        assert [probe.offset(name, number) for number in (0, 1)] == [LOG_END + 5] * 2
        wait_until(lambda: in_kafka(cluster, group, name) == [LOG_END + 5] * 2, PATIENCE_S, "Kafka follows")
        assert not member.errors
    finally:
        member.close()
