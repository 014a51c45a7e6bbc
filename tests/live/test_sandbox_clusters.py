"""The sandbox's clusters: one node that changes its properties, then its release, over the same folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift.adapters.clock import SystemClock
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.snapshots import LiveGroupSnapshots
from groupshift.domain.partitions import TopicPartition
from groupshift.sandbox.committing import commit
from groupshift.sandbox.home import Home
from groupshift.sandbox.kafka import create_topic
from groupshift.sandbox.kraft import CONSUMER_PROTOCOL, KraftCluster, KraftOptions, start_kraft
from groupshift.sandbox.layout import to_release, with_properties, without_properties
from groupshift.sandbox.processes import marked, stop
from groupshift.sandbox.rolling import replace_node

GROUPS = [f"g{number}" for number in range(3)]


@pytest.fixture
def newest_coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    """One node of 3.9.2 with its NEW coordinator, formatted so that 3.4 can read its metadata."""
    home = Home(tmp_path_factory.mktemp("swap")).create()
    options = KraftOptions(
        release="3.9.2",
        heap="320m",
        format_arguments=("--release-version", "3.4"),
        properties={"offsets.topic.num.partitions": "3"},
    )
    try:
        yield start_kraft(home, options)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def offsets(bootstrap: str) -> dict[tuple[str, int], int]:
    """Committed offsets by group and partition."""
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=60.0), SystemClock(), patience_s=60.0)
    try:
        state = snapshots.take(GROUPS)
    finally:
        snapshots.close()
    assert state.problems == []
    return {(row.group, row.partition): row.offset for row in state.offsets}


def test_groups_outlive_a_flip_of_the_coordinator_and_an_older_release(newest_coordinator) -> None:
    """NEW → OLD by properties, then 3.9.2 → 3.5.2 by jars: the same committed offsets after each step."""
    cluster, _ = replace_node(newest_coordinator, 1, with_properties(CONSUMER_PROTOCOL))
    create_topic(cluster.bootstrap, "orders", 2)
    client = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    try:
        commit(
            client,
            {g: {TopicPartition("orders", p): (n + p, "") for p in range(2)} for n, g in enumerate(GROUPS)},
        )
    finally:
        client.close()
    before = offsets(cluster.bootstrap)
    assert len(before) == 2 * len(GROUPS)
    cluster, flipped = replace_node(cluster, 1, without_properties(*CONSUMER_PROTOCOL))
    assert (flipped.cleanly, flipped.node.properties, flipped.lines) == (True, {}, ())
    assert offsets(cluster.bootstrap) == before
    cluster, swapped = replace_node(cluster, 1, to_release("3.5.2"))
    assert (swapped.cleanly, swapped.node.release, swapped.lines) == (True, "3.5.2", ())
    assert offsets(cluster.bootstrap) == before
