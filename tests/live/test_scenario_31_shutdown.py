"""Scenario 31: closing at any moment."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.consumers import MigratingConsumer, kafka_membership, owned_partitions
from groupshift.consumers import consumer as group_consumer
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.producer import NumberedProducer
from support.group_probe import PATIENCE_S, GroupProbe
from support.threads_left import await_no_thread

RECORDS = 20


@pytest.fixture
def consumer(cluster, group):
    """A migrating consumer in this process."""

    def make(**properties):
        return MigratingConsumer(
            {
                "group.id": group,
                "consumer.id": "m1-1",
                "zookeeper.connect": cluster.zookeeper,
                "bootstrap.servers": cluster.bootstrap,
                "auto.offset.reset": "smallest",
                **{key.replace("_", "."): value for key, value in properties.items()},
            }
        )

    return make


@pytest.fixture
def patient(monkeypatch):
    """A member that leaves waits for Kafka, however slow the machine is."""
    for module, bound in (
        (kafka_membership, "_ANSWER_S"),
        (owned_partitions, "_COMMIT_S"),
        (owned_partitions, "_JOIN_S"),
        (group_consumer, "_CLOSE_S"),
    ):
        monkeypatch.setattr(module, bound, PATIENCE_S)


@pytest.fixture
def written(cluster, topic):
    """A topic of two partitions with a few records each."""
    name = topic(2)
    numbered = NumberedProducer(cluster.bootstrap, name, 2)
    for partition in (0, 1):
        for _ in range(RECORDS):
            numbered.send(partition)
    numbered.flush()
    return name


def assert_gone(probe, name, member):
    """Nothing of the member is left: nodes, threads."""
    assert not probe.owners(name)
    assert not probe.client.exists(probe.paths.id_of(member.consumer_id))
    assert not probe.client.exists(probe.paths.migration_id_of(member.consumer_id))
    await_no_thread(member.consumer_id, PATIENCE_S)
    with pytest.raises(RuntimeError):
        member.poll(0)


def kafka_offsets(cluster, group, name):
    """Committed offsets at the coordinator."""
    client = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        found = client.committed([KafkaPartition(name, n) for n in (0, 1)], timeout=60)
        return [each.offset for each in found]
    finally:
        client.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("mode", [b"zookeeper", b"kafka"])
def test_scenario_31_shutdown_commits_to_both_stores(cluster, group, written, consumer, kazoo, mode):
    """Owner nodes go before the ids; both stores hold what was delivered."""
    probe, member, gone = GroupProbe(kazoo, group), consumer(), []
    probe.set_mode(mode)
    member.subscribe([written])
    taken = [member.poll(30) for _ in range(2 * RECORDS)]
    assert None not in taken
    wait_until(
        lambda: member.statistics()["kafka_owned_partitions_count"] == 2,
        PATIENCE_S,
        "the Kafka group let it in",
    )
    watched = [probe.paths.id_of(member.consumer_id), f"{probe.paths.owners}/{written}/0"]
    for path in watched:
        assert kazoo.exists(path, watch=lambda event: gone.append(event.path))
    member.close()
    wait_until(lambda: len(gone) == len(watched), PATIENCE_S, "both nodes are gone")
    assert gone == watched[::-1]
    assert_gone(probe, written, member)
    assert [probe.offset(written, number) for number in (0, 1)] == [RECORDS, RECORDS]
    assert kafka_offsets(cluster, group, written) == [RECORDS, RECORDS]
    member.close()


def test_scenario_31_shutdown_without_auto_commit_keeps_what_was_committed(
    cluster, group, written, consumer, kazoo
):
    """Only the application's own commit is in the stores."""
    probe, member = GroupProbe(kazoo, group), consumer(enable_auto_commit="false")
    member.subscribe([written])
    assert member.poll(30) is not None
    wait_until(lambda: len(member.assignment()) == 2, PATIENCE_S, "both assigned")
    member.commit(offsets=[KafkaPartition(written, 0, 7)], asynchronous=False)
    assert [each.offset for each in member.committed([KafkaPartition(written, 0)])] == [7]
    member.close()
    assert_gone(probe, written, member)
    assert [probe.offset(written, number) for number in (0, 1)] == [7, None]


@pytest.mark.parametrize("moment", ["join", "commit", "reconcile"])
def test_scenario_31_shutdown_in_the_middle(group, written, consumer, kazoo, moment):
    """During a join, a commit or a toggle: it ends, and nothing is left."""
    probe, member = GroupProbe(kazoo, group), consumer(auto_commit_interval_ms=10)
    member.subscribe([written])
    if moment == "join":
        path = probe.paths.id_of(member.consumer_id)
        wait_until(lambda: kazoo.exists(path) is not None, PATIENCE_S, "registered", every_s=0.001)
    else:
        assert member.poll(30) is not None
    if moment == "commit":
        member.commit()
    if moment == "reconcile":
        probe.set_mode(b"kafka")
    member.close()
    assert_gone(probe, written, member)
