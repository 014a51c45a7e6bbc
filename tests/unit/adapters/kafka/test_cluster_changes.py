"""Groups of groupshift's own that commit to every partition of the offsets topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from groupshift.adapters.kafka import cluster_changes
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import PREFIX, LiveClusterActs, names
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition


@pytest.mark.parametrize("partitions", [1, 7, 31, 50, 62, 93, 961])
def test_every_partition_gets_a_group_also_where_31_divides_the_count(partitions: int) -> None:
    """Java's hash multiplies by 31: of such a count only the last character of a name decides."""
    found = names(partitions)
    assert sorted(found) == list(range(partitions))
    assert all(partition_of(name, partitions) == number for number, name in found.items())
    assert all(name.startswith(PREFIX) for name in found.values())


def test_a_topic_that_is_not_there_has_no_names() -> None:
    """A broker that was just started names no partition."""
    assert names(0) == {}


def test_a_broker_that_does_not_know_the_offsets_topic_yet_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was just started; to make no group for any partition would leave segments unrolled."""
    topic, cluster, deleted = "__consumer_offsets", KafkaCluster("127.0.0.1:1"), list[str]()
    told = [({TopicPartition(topic, number): 1 for number in range(2)}, {}), ({}, {topic: 3})]
    monkeypatch.setattr(cluster, "partitions_of", lambda _topics: told.pop())

    def delete(_: KafkaCluster, groups: Iterable[str]) -> Mapping[str, str]:
        deleted.extend(groups)
        return {}

    monkeypatch.setattr(cluster_changes, "delete_groups", delete)
    LiveClusterActs(cluster).remove_churn()
    assert not told
    assert len(deleted) == 2
