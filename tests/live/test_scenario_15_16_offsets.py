"""Scenarios 15 and 16: where a member starts, and what it leaves behind."""

from __future__ import annotations

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.producer import NumberedProducer
from support.delivered_again import delivered_again
from support.group_probe import PATIENCE_S, GroupProbe


def write(cluster, name, partition, count):
    """Append numbered records to one partition of a topic with two."""
    numbered = NumberedProducer(cluster.bootstrap, name, 2)
    for _ in range(count):
        numbered.send(partition)
    numbered.flush()
    assert not numbered.failure


def test_scenario_15_offsets_zookeeper_roundtrip(
    cluster, topic, group, scala_member, consume_member, kazoo, ledger, log_ends
):
    """Busy and idle partition go from Scala to ours and back without a gap or a repetition."""
    name, probe = topic(2), GroupProbe(kazoo, group)
    for partition in (0, 1):
        write(cluster, name, partition, 100)
    for consumer_id, kind, wanted in (
        ("m1-1", "scala", 100),
        ("m1-2", "migrating", 150),
        ("m1-3", "scala", 200),
    ):
        member = (
            scala_member("0.10.2.2", consumer_id, [name], seed=2)
            if kind == "scala"
            else consume_member(kind, consumer_id, [name])
        )
        probe.await_shares(name, {member.member_id: 2})
        if wanted > 100:
            write(cluster, name, 0, 50)
        ledger.await_all(log_ends(name, 2))
        member.stop()
        assert kazoo.get(f"{probe.paths.offsets}/{name}/0")[0] == str(wanted).encode()
        assert kazoo.get(f"{probe.paths.offsets}/{name}/1")[0] == b"100"
    assert not delivered_again(ledger.deliveries())


def test_scenario_16_dual_max(cluster, topic, group, producer, consume_member, kazoo, log_ends, process):
    """The higher of both stores wins and the znode is raised to it; without any, the reset policy."""
    name, probe = topic(3), GroupProbe(kazoo, group)
    producer(name, 3, rate=500, count=1010)
    wait_until(lambda: sum(log_ends(name, 3).values()) == 3030, PATIENCE_S, "records written")
    for partition, offset in ((0, 900), (1, 1000)):
        kazoo.create(f"{probe.paths.offsets}/{name}/{partition}", str(offset).encode(), makepath=True)
    operator = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    operator.commit(offsets=[KafkaPartition(name, 0, 1000), KafkaPartition(name, 1, 900)], asynchronous=False)
    operator.close()
    rarely = {"auto.commit.interval.ms": "600000"}
    member = consume_member("migrating", "m1-1", [name], properties=rarely)
    due = {(number, each) for number, at in enumerate((1000, 1000, 0)) for each in range(at, 1010)}
    wait_until(
        lambda: {(each.partition.partition, each.offset) for each in member.deliveries()} == due,
        PATIENCE_S,
        "all delivered",
    )
    first = {}
    for each in member.deliveries():
        first.setdefault(each.partition.partition, each.offset)
    assert first == {0: 1000, 1: 1000, 2: 0}
    assert [probe.offset(name, number) for number in range(3)] == [1000, 1000, None]
    member.stop()
    assert [probe.offset(name, number) for number in range(3)] == [1010, 1010, 1010]
