"""Snapshots of a whole cluster: which adapters read and keep them."""

from __future__ import annotations

from groupshift.ports.group_snapshots import ClusterSnapshotStore, GroupSnapshots
from groupshift.settings import KafkaSettings


def group_snapshots(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> GroupSnapshots:
    """A reader of this cluster; it opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.clock import SystemClock
    from groupshift.adapters.kafka.raw.cluster import KafkaCluster
    from groupshift.adapters.kafka.raw.snapshots import LiveGroupSnapshots

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    return LiveGroupSnapshots(cluster, SystemClock())


def cluster_snapshot_store() -> ClusterSnapshotStore:
    """Where snapshots are kept: folders of Parquet files."""
    from groupshift.adapters.parquet.cluster_snapshots import ParquetClusterSnapshots

    return ParquetClusterSnapshots()
