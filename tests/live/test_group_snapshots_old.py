"""A real broker 1.1.1, which knows none of the batched requests: the same rows, group by group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.kafka.wire import Api
from groupshift.adapters.system import SystemClock
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.artifacts import SCALA_CONSUMERS
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, create_topic, start_kafka
from groupshift_sandbox.processes import marked, stop, wait_until
from groupshift_sandbox.zookeeper import start_zookeeper


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kafka 1.1.1 with a ZooKeeper of its own."""
    home = Home(tmp_path_factory.mktemp("old")).create()
    options = KafkaOptions(release=SCALA_CONSUMERS["1.1.1"], initial_rebalance_delay_ms=0)
    try:
        yield start_kafka(home, start_zookeeper(home), options).address
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


def test_an_old_broker_is_asked_in_versions_that_it_knows(old: str) -> None:
    """ApiVersions falls back (KIP-511 came later), coordinators and offsets are asked for one by one, and
    what the broker cannot tell (types, epochs) is not made up."""
    create_topic(old, "orders", 3)
    cluster = KafkaCluster(old, timeout_s=30.0)
    names = [f"g{number}" for number in range(40)]
    commit(
        cluster, {g: {TopicPartition("orders", p): (n, "m") for p in range(3)} for n, g in enumerate(names)}
    )
    consumer = Consumer({"bootstrap.servers": old, "group.id": "live"})
    snapshots = LiveGroupSnapshots(cluster, SystemClock())
    try:
        assert cluster.broker(0).highest(Api.FIND_COORDINATOR) == 1
        assert cluster.broker(0).highest(Api.OFFSET_FETCH) == 3
        consumer.subscribe(["orders"])
        wait_until(lambda: (consumer.poll(0.1), len(consumer.assignment()))[1] == 3, 60.0, "assigned")
        state = snapshots.take()
    finally:
        consumer.close()
        snapshots.close()
    assert {row.group: row.state for row in state.groups} == {
        **dict.fromkeys(names, "Empty"),
        "live": "Stable",
    }
    assert {(row.group, row.partition): row.offset for row in state.offsets} == {
        (name, p): number for number, name in enumerate(names) for p in range(3)
    }
    assert [(row.group, row.partition) for row in state.assignments] == [("live", p) for p in range(3)]
    assert {(row.leader_epoch, row.metadata) for row in state.offsets} == {(None, "m")}
    assert len(state.log_ends) == 3
    assert state.problems == []
