"""What a downgrade changes through a real broker: each change is seen, put back, and may be repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import LiveClusterActs, names
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from support.downgrade_story import groups_at

TOPIC, NATIVE, LOG = "orders", "native", 3
SESSION, SEGMENT, GROUP_VERSION = "consumer.session.timeout.ms", "segment.ms", "group.version"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of 4.3.1."""
    home = Home(tmp_path_factory.mktemp("acts")).create()
    options = KraftOptions(
        release="4.3.1", heap="320m", properties={"offsets.topic.num.partitions": str(LOG)}
    )
    try:
        yield start_kraft(home, options)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@pytest.fixture
def acts(node: Cluster) -> Iterator[LiveClusterActs]:
    """Closed at the end."""
    made = LiveClusterActs(KafkaCluster(node.bootstrap, timeout_s=60.0))
    yield made
    made.close()


def test_an_empty_native_group_becomes_classic_and_keeps_its_offsets(
    node: Cluster, acts: LiveClusterActs
) -> None:
    """Twice is as once; its configurations and the feature come and go."""
    create_topic(node.bootstrap, TOPIC, 2)
    with groups_at(node.bootstrap, TOPIC) as groups:
        commit(groups.cluster, {NATIVE: {TopicPartition(TOPIC, 0): (8, "m")}})
        groups.native(NATIVE, 2).leave()
        groups.await_kinds({NATIVE: Kind.CONSUMER})
        for _ in range(2):
            acts.convert_empty(NATIVE)
            groups.await_kinds({NATIVE: Kind.CLASSIC})
        (listed,) = [each for broker in groups.look().brokers for each in broker.groups]
        assert (listed.state, listed.protocol_type) == ("Empty", "consumer")
        for values, told in (({SESSION: "50000"}, {NATIVE: {SESSION: "50000"}}), ({SESSION: None}, {})):
            acts.configure_group(NATIVE, values)
            wait_until(lambda told=told: groups.look().group_configs == told, 60.0, f"configurations {told}")
        acts.lower_feature(GROUP_VERSION, 0)
        wait_until(lambda: GROUP_VERSION not in groups.look().finalised, 60.0, "the feature is gone")
        acts.raise_feature(GROUP_VERSION, 1)
        wait_until(lambda: groups.look().finalised.get(GROUP_VERSION) == 1, 60.0, "the feature is back")


def test_the_offsets_topic_is_configured_and_put_back(node: Cluster, acts: LiveClusterActs) -> None:
    """As it was, whether something stood there or not; groupshift's own groups come and go."""
    with groups_at(node.bootstrap, TOPIC) as groups:
        commit(groups.cluster, {"simple": {TopicPartition(TOPIC, 0): (1, "")}})
    former = acts.topic_configs()
    assert (former["cleanup.policy"], SEGMENT in former) == ("compact", False)
    for values in ({SEGMENT: "1000"}, {SEGMENT: None}):
        acts.configure_topic(values)
        wanted = {name: value for name, value in {**former, **values}.items() if value is not None}
        wait_until(lambda wanted=wanted: acts.topic_configs() == wanted, 60.0, f"the topic is {wanted}")
    for _ in range(2):
        acts.force_compaction()
        assert set(acts.churning()) == set(names(LOG).values())
    for _ in range(2):
        acts.remove_churn()
        wait_until(lambda: not acts.churning(), 60.0, "groupshift's own groups are gone")


def test_a_cluster_that_is_not_whole_is_told_and_a_refusal_is_passed_on(acts: LiveClusterActs) -> None:
    """In a sentence each."""
    assert acts.lacks([1]) == ""
    assert acts.lacks([1, 9]) == "broker 9 is not registered"
    with pytest.raises(Rejected, match=r"metadata\.version"):
        acts.lower_feature("metadata.version", 21)
    with pytest.raises(Rejected, match="segment"):
        acts.configure_topic({SEGMENT: "soon"})
