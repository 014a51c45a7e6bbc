"""Snapshots of a whole cluster: which adapters read and keep them."""

from __future__ import annotations

from groupshift.domain.rows import ReadFrom
from groupshift.ports.cluster import ClusterGroups, ClusterSnapshotStore, GroupSnapshots
from groupshift.settings import KafkaSettings, ZookeeperSettings


def group_snapshots(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> ClusterGroups:
    """A reader of this cluster; it opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
    from groupshift.adapters.system import SystemClock

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    return LiveGroupSnapshots(cluster, SystemClock())


def ensemble_snapshots(
    kafka: KafkaSettings, zookeeper: ZookeeperSettings, read_from: ReadFrom, *, timeout_s: float = 10.0
) -> GroupSnapshots:
    """A reader of the groups that ZooKeeper knows, or of each from whoever coordinates it (``read_from``).

    As `group_snapshots`; both are of one Kafka cluster, which `GroupSnapshots.take` finds out."""
    from groupshift.adapters.ensembles import EnsembleSnapshots
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
    from groupshift.adapters.system import SystemClock
    from groupshift.adapters.zookeeper.ensemble import ZookeeperEnsemble
    from groupshift.bootstrap.connections import zookeeper_connection

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    clock = SystemClock()
    return EnsembleSnapshots(
        ZookeeperEnsemble(zookeeper_connection(zookeeper)),
        LiveGroupSnapshots(cluster, clock),
        clock,
        read_from,
    )


def cluster_snapshot_store() -> ClusterSnapshotStore:
    """Where snapshots are kept: folders of Parquet files."""
    from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots

    return ParquetClusterSnapshots()
