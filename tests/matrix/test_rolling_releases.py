"""Clusters that change their release node by node (docs/reference/coordinator-on-real-brokers.md §E)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import FeatureChange, ask_versions, finalised, update_features
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState
from groupshift_sandbox.client_members.commands import CLIENTS, ClientMember, Commit, GroupProtocol
from groupshift_sandbox.client_members.events import delivered
from groupshift_sandbox.committing import commit
from groupshift_sandbox.elections import elect_preferred
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, Role, to_release, with_properties
from groupshift_sandbox.metadata_log import await_snapshots
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.readiness import connect_to, leaders_of
from groupshift_sandbox.rolling import Adoption, NodeFailed, replace_node, roll
from groupshift_sandbox.servers import stop_all
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode
from support.client_processes import client_processes, produce

pytestmark = pytest.mark.timeout(900)

IDLE = [f"idle-{number}" for number in range(20)]
APP = "app"
PARTITIONS = 3
SHORT_SESSION = {"broker.session.timeout.ms": "12000"}
"""A broker that was stopped registers again only when its former session has ended."""
SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "5000", **SHORT_SESSION}
STAY_39 = ("--release-version", "3.9", "--feature", "group.version=1")


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A sandbox of this test's own; whatever runs in it is ended."""
    found = Home(tmp_path_factory.mktemp("rolling")).create()
    try:
        yield found
    finally:
        stop_all(found, last=("zookeeper", "kraft-101"))


def state_of(cluster: Cluster, groups: Sequence[str] = ()) -> ClusterState:
    """Groups as their coordinators tell them."""
    client = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    snapshots = LiveGroupSnapshots(client, SystemClock(), patience_s=60.0)
    try:
        return snapshots.take(groups or None)
    finally:
        snapshots.close()


def offsets(state: ClusterState) -> dict[tuple[str, int], int]:
    """Committed offsets of the idle groups, by group and partition."""
    return {(row.group, row.partition): row.offset for row in state.offsets if row.group in IDLE}


def with_idle_groups(cluster: Cluster) -> dict[tuple[str, int], int]:
    """Make a topic, and groups that committed on it; their offsets."""
    create_topic(cluster.bootstrap, "orders", PARTITIONS)
    client = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    places = range(PARTITIONS)
    try:
        commit(
            client,
            {
                group: {TopicPartition("orders", p): (100 * n + p, "") for p in places}
                for n, group in enumerate(IDLE)
            },
        )
    finally:
        client.close()
    found = offsets(state_of(cluster))
    assert len(found) == len(IDLE) * PARTITIONS
    return found


def lower_group_version(cluster: Cluster) -> None:
    """``group.version`` to 0, which is what a controller of 3.9 knows."""
    connection = connect_to(cluster.brokers[0].address)
    try:
        update_features(connection, {"group.version": 0}, change=FeatureChange.SAFE_DOWNGRADE)
    finally:
        connection.close()


def finalized(cluster: Cluster) -> int:
    """The level of ``group.version`` (absent: 0)."""
    connection = connect_to(cluster.brokers[0].address)
    try:
        return finalised(connection.ask(ask_versions(connection))).get("group.version", 0)
    finally:
        connection.close()


def combined(home: Home, **more: object) -> Cluster:
    """Three combined nodes of 4.3.1 whose metadata 3.9 can read but for group.version."""
    options = KraftOptions(
        release="4.3.1",
        nodes=3,
        heap="320m",
        format_arguments=STAY_39,
        properties={**SNAPSHOTS, **more},
    )
    return start_kraft(home, options)


def test_an_unprepared_node_dies_and_comes_back_with_its_former_release(home: Home) -> None:
    """4.3.1 → 3.9.2 without lowering group.version: the node names the record and ends; the others go on."""
    cluster = combined(home)
    before = with_idle_groups(cluster)
    with pytest.raises(NodeFailed, match="ended at start") as failed:
        replace_node(cluster, 1, to_release("3.9.2"))
    assert failed.value.log.count("Tried to apply FeatureLevelRecord") > 0
    cluster, seen = replace_node(cluster, 1, to_release("4.3.1"))
    assert seen.count("Tried to apply FeatureLevelRecord") == 0
    assert offsets(state_of(cluster, IDLE)) == before


def test_three_combined_nodes_go_back_to_39_with_their_groups(home: Home) -> None:
    """group.version → 0, a newer snapshot on each node, then node after node: the same offsets after each,
    and a live classic member reads on."""
    cluster = combined(home)
    before = with_idle_groups(cluster)
    with client_processes(home) as run:
        member = run(
            ClientMember(
                client=CLIENTS[0],
                group=APP,
                name="app-1",
                topic="orders",
                bootstrap=cluster.bootstrap,
                protocol=GroupProtocol.CLASSIC,
            )
        )
        member.await_told("assigned")
        lower_group_version(cluster)
        await_snapshots(cluster)
        assert finalized(cluster) == 0
        steps: list[str] = []

        def equal(now: Cluster, seen: Adoption) -> None:
            assert offsets(state_of(now, IDLE)) == before
            steps.append(seen.node.release)

        cluster, seen = roll(cluster, to_release("3.9.2"), after=equal)
        assert steps == ["3.9.2"] * 3
        assert [each.cleanly for each in seen] == [True] * 3
        produce(cluster.bootstrap, "orders", PARTITIONS, 20)
        wanted = {TopicPartition("orders", p): set(range(20)) for p in range(PARTITIONS)}
        wait_until(
            lambda: {at: set(found) for at, found in delivered(member.told()).items()} == wanted,
            120.0,
            "the live member reads on",
            every_s=0.2,
        )
        assert not [each for each in member.told("error") if each.fields["fatal"]]
    assert {row.type for row in state_of(cluster, IDLE).groups} == {"classic"}


def test_brokers_of_39_serve_the_groups_under_controllers_of_43(home: Home) -> None:
    """Brokers only, controllers stay: the realistic rollback."""
    cluster = start_kraft(
        home,
        KraftOptions(
            release="4.3.1",
            nodes=2,
            controllers=1,
            heap="320m",
            format_arguments=STAY_39,
            properties=SNAPSHOTS,
        ),
    )
    assert [node.role for node in cluster.nodes] == [Role.BROKER, Role.BROKER, Role.CONTROLLER]
    before = with_idle_groups(cluster)
    lower_group_version(cluster)
    await_snapshots(cluster)
    brokers = [node.node_id for node in cluster.brokers]
    cluster, seen = roll(cluster, to_release("3.9.2"), node_ids=brokers)
    assert [each.node.release for each in seen] == ["3.9.2", "3.9.2"]
    assert [node.release for node in cluster.nodes] == ["3.9.2", "3.9.2", "4.3.1"]
    assert offsets(state_of(cluster, IDLE)) == before
    cluster, (controller,) = roll(cluster, with_properties({"num.io.threads": "3"}), node_ids=[101])
    assert (controller.cleanly, controller.node.properties) == (True, {"num.io.threads": "3"})
    assert offsets(state_of(cluster, IDLE)) == before


def test_leaders_come_back_where_they_are_preferred(home: Home) -> None:
    """A rolling flip of 3.9.2's coordinator bounces every partition; the election gives them back."""
    cluster = start_kraft(
        home,
        KraftOptions(
            release="3.9.2",
            nodes=3,
            heap="320m",
            properties={**CONSUMER_PROTOCOL, **SHORT_SESSION, "auto.leader.rebalance.enable": "false"},
        ),
    )
    before = with_idle_groups(cluster)
    cluster, _ = roll(cluster, with_properties({"group.coordinator.rebalance.protocols": "classic"}))
    assert offsets(state_of(cluster, IDLE)) == before
    address = cluster.brokers[0].address
    former = leaders_of(address, "__consumer_offsets")
    assert 3 not in former.values()
    elect_preferred(cluster, "__consumer_offsets", former)
    wait_until(
        lambda: set(leaders_of(address, "__consumer_offsets").values()) == {1, 2, 3},
        90.0,
        "every broker leads partitions of the coordinator again",
        every_s=0.2,
    )
    assert offsets(state_of(cluster, IDLE)) == before


@pytest.mark.parametrize(("release", "older"), [("3.9.2", "3.5.2"), ("3.9.2", "3.4.1"), ("3.4.1", "3.4.0")])
def test_brokers_with_zookeeper_change_their_release_too(home: Home, release: str, older: str) -> None:
    """Three brokers, one after the other, at the inter-broker version that both know."""
    options = ZookeeperModeOptions(release=release, nodes=3, heap="320m")
    cluster = start_zookeeper_mode(home, start_zookeeper(home), options)
    before = with_idle_groups(cluster)
    cluster, seen = roll(cluster, to_release(older))
    assert [(each.node.release, each.lines) for each in seen] == [(older, ())] * 3
    assert offsets(state_of(cluster, IDLE)) == before


def test_coordinator_31_leftovers_hide_their_partition_under_340_and_are_ignored_by_341(home: Home) -> None:
    """One native group was enough: every group in its partition of the coordinator's log has no offsets under
    3.4.0, without any error; back under 3.9.2, and under 3.4.1 with a warning a record, all have them."""
    properties = {**CONSUMER_PROTOCOL, "offsets.topic.num.partitions": "5"}
    cluster = start_kraft(
        home,
        KraftOptions(
            release="3.9.2",
            heap="320m",
            format_arguments=("--release-version", "3.4"),
            properties=properties,
        ),
    )
    before = with_idle_groups(cluster)
    produce(cluster.bootstrap, "orders", PARTITIONS, 5)
    with client_processes(home) as run:
        native = run(
            ClientMember(
                client="confluent-kafka 2.8.0",
                group="native",
                name="native-1",
                topic="orders",
                bootstrap=cluster.bootstrap,
                protocol=GroupProtocol.CONSUMER,
                commit=Commit.EACH,
            )
        )
        native.await_told("committed", when=lambda each: bool(each.fields["offsets"]))
    at = partition_of("native", 5)
    beside = {group for group in IDLE if partition_of(group, 5) == at}
    assert 0 < len(beside) < len(IDLE)
    cluster, swapped = replace_node(cluster, 1, to_release("3.4.0"))
    assert swapped.count("Error loading offsets") == 1
    assert f"__consumer_offsets-{at}" in next(
        each.first for each in swapped.lines if each.pattern == "Error loading offsets"
    )
    swapped_state = state_of(cluster, IDLE)
    assert swapped_state.problems == []
    assert {group for group, _ in before} - {group for group, _ in offsets(swapped_state)} == beside
    cluster, _ = replace_node(cluster, 1, to_release("3.9.2"))
    assert offsets(state_of(cluster, IDLE)) == before
    cluster, fixed = replace_node(cluster, 1, to_release("3.4.1"))
    assert (fixed.count("Error loading offsets"), fixed.count("Unknown message key") > 0) == (0, True)
    assert offsets(state_of(cluster, IDLE)) == before
