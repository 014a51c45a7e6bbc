"""Three brokers whose offsets topic grows from 5 to 8 partitions, the offsets of 300 groups that are away,
and what coordinators answer of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing

from groupshift.adapters.kafka.broker_views import LivePlacementViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import LiveTopicExpansion
from groupshift.adapters.kafka.group_changes import commit_rows
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.domain.rows import OffsetRow
from groupshift.moves.expansion.rules import Placement, audit_placement
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.elections import lead_as_preferred
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.rolling import replace_node
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode

BEFORE, AFTER, OFFSETS = 5, 8, "__consumer_offsets"
TOPIC, PARTITIONS, GROUPS = "orders", 10, 300
Key = tuple[str, str, int]
"""Group, topic, partition."""
Said = tuple[int, int | None, str]
"""Offset, leader epoch, metadata."""


def started(home: Home, kind: str) -> Cluster:
    """Three brokers that will make five partitions."""
    five = {"offsets.topic.num.partitions": str(BEFORE)}
    if kind == "NEW":
        return start_kraft(home, KraftOptions(nodes=3, heap="320m", properties=five))
    return start_zookeeper_mode(
        home, start_zookeeper(home), ZookeeperModeOptions(nodes=3, heap="256m", properties=five)
    )


def rows() -> list[OffsetRow]:
    """The offsets of the groups that are away."""
    return [
        OffsetRow(
            group=f"team-{number}",
            topic=TOPIC,
            partition=partition,
            offset=10_000 * (number + 1) + partition,
            leader_epoch=partition % 3,
            metadata=f"team-{number}/{partition}",
        )
        for number in range(GROUPS)
        for partition in range(PARTITIONS)
    ]


def by_key(found: Iterable[OffsetRow]) -> dict[Key, Said]:
    """Offset, leader epoch and metadata of each."""
    return {
        (row.group, row.topic, row.partition): (row.offset, row.leader_epoch, row.metadata or "")
        for row in found
    }


def committed(cluster: Cluster, found: Iterable[OffsetRow]) -> None:
    """All acknowledged."""
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
        assert commit_rows(raw, found) == {}


def answered(cluster: Cluster, groups: Iterable[str]) -> dict[Key, Said]:
    """What coordinators answer."""
    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    with closing(LiveGroupSnapshots(raw, SystemClock(), patience_s=60.0)) as snapshots:
        return by_key(snapshots.take(tuple(groups)).offsets)


def audited(cluster: Cluster) -> Placement:
    """Who owns what now."""
    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    log = DirectLog(Brokers(bootstrap_servers=cluster.bootstrap, properties={}, timeout_s=60.0))
    with closing(LivePlacementViews(raw, SystemClock())) as views:
        return audit_placement(views, log)


def owners_of(cluster: Cluster, groups: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
    """The brokers that serve each group, as every broker by itself answers for it."""
    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    with closing(LivePlacementViews(raw, SystemClock())) as views:
        return views.owners(set(groups))


def differing(wanted: Mapping[Key, Said], found: Mapping[Key, Said]) -> list[Key]:
    """Keys that are not answered as wanted."""
    return [key for key, offset in wanted.items() if found.get(key) != offset]


def groups_of(keys: Iterable[Key]) -> list[str]:
    """Their groups, each once."""
    return sorted({group for group, _, _ in keys})


def restarted(cluster: Cluster, nodes: Iterable[int]) -> Cluster:
    """One after the other, led as before in the end."""
    for node in nodes:
        cluster, _ = replace_node(cluster, node, unchanged)
    lead_as_preferred(cluster, OFFSETS)
    return cluster


def expanded(cluster: Cluster) -> None:
    """Eight partitions, led."""
    with closing(LiveTopicExpansion(KafkaCluster(cluster.bootstrap, timeout_s=60.0))) as topic:
        topic.expand(AFTER)
        wait_until(lambda: not topic.lacks([1, 2, 3]), 60.0, "all partitions are led")
