"""The sandbox's clusters: one node that changes its properties, then its release, over the same folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState
from groupshift_sandbox.client_members.commands import ClientMember, Commit, GroupProtocol
from groupshift_sandbox.cluster_file import load
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, to_release, with_properties
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.rolling import NodeFailed, replace_node
from support.client_processes import client_processes, produce

pytestmark = pytest.mark.timeout(900)  # the fixtures count too
SIMPLE, NATIVE = ["g0", "g1"], "native"
OLD = {"group.coordinator.rebalance.protocols": "classic"}


@pytest.fixture
def newest_coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of 3.9.2 with its NEW coordinator, formatted so that 3.4 can read its metadata."""
    home = Home(tmp_path_factory.mktemp("swap")).create()
    options = KraftOptions(
        release="3.9.2",
        heap="320m",
        format_arguments=("--release-version", "3.4"),
        properties={"offsets.topic.num.partitions": "3", **CONSUMER_PROTOCOL},
    )
    try:
        yield start_kraft(home, options)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def state_of(bootstrap: str) -> ClusterState:
    """The groups as their coordinator tells them."""
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=60.0), SystemClock(), patience_s=60.0)
    try:
        return snapshots.take([*SIMPLE, NATIVE])
    finally:
        snapshots.close()


def offsets(bootstrap: str) -> dict[tuple[str, int], int]:
    """Committed offsets by group and partition."""
    state = state_of(bootstrap)
    assert state.problems == []
    return {(row.group, row.partition): row.offset for row in state.offsets}


def committed(bootstrap: str) -> None:
    """Offsets of groups without members."""
    client = KafkaCluster(bootstrap, timeout_s=60.0)
    places = {
        group: {TopicPartition("orders", p): (n + p, "") for p in range(2)} for n, group in enumerate(SIMPLE)
    }
    try:
        commit(client, places)
    finally:
        client.close()


def test_groups_outlive_a_flip_of_the_coordinator_and_an_older_release(newest_coordinator) -> None:
    """3.9.2 NEW → OLD by properties, then 3.5.2 by jars: the same committed offsets after each step, in spite
    of a native member (confluent-kafka 2.8.0) that lives on at the first and is told -150."""
    cluster = newest_coordinator
    create_topic(cluster.bootstrap, "orders", 2)
    produce(cluster.bootstrap, "orders", 2, 10)
    committed(cluster.bootstrap)
    member = ClientMember(
        client="confluent-kafka 2.8.0",
        group=NATIVE,
        name="native-1",
        topic="orders",
        bootstrap=cluster.bootstrap,
        protocol=GroupProtocol.CONSUMER,
        instance_id="static-1",
        commit=Commit.EACH,
    )
    with client_processes(cluster.home) as run:
        native = run(member)
        for partition in range(2):
            native.await_told(
                "committed", when=lambda each, p=partition: ["orders", p, 10] in each.fields["offsets"]
            )
        described = [(row.instance_id, row.client_id) for row in state_of(cluster.bootstrap).members]
        assert described == [("static-1", "native-1")]
        before = offsets(cluster.bootstrap)
        assert len(before) == 6
        assert [before[NATIVE, partition] for partition in range(2)] == [10, 10]
        cluster, flipped = replace_node(cluster, 1, with_properties(OLD))
        assert (flipped.cleanly, flipped.node.properties) == (True, OLD)
        assert flipped.count("Unknown message key") > 0
        silent = native.await_told("error", when=lambda each: each.fields["code"] == -150)
        assert silent.fields["fatal"] is False
        assert offsets(cluster.bootstrap) == before
    assert load(cluster.home, "kraft").nodes == cluster.nodes
    assert native.told("closed")[-1].fields["code"] == 0
    with pytest.raises(NodeFailed, match="kraft-1 ended at start") as failed:
        replace_node(cluster, 1, with_properties({"offsets.topic.num.partitions": "none"}))
    assert failed.value.log.cleanly
    cluster, swapped = replace_node(cluster, 1, to_release("3.5.2"))
    assert (swapped.node.release, swapped.node.properties) == ("3.5.2", OLD)
    assert swapped.count("Unknown message key") == flipped.count("Unknown message key")
    assert offsets(cluster.bootstrap) == before
