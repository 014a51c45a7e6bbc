"""Snapshot a cluster: read all groups (or some) and keep what was read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from groupshift.domain.cluster_rows import ClusterState
from groupshift.domain.cluster_snapshot import ClusterManifest
from groupshift.ports.group_snapshots import ClusterSnapshotStore, GroupSnapshots, Progress


def snapshot_cluster(
    reader: GroupSnapshots,
    store: ClusterSnapshotStore,
    folder: Path,
    groups: Collection[str] | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[ClusterState, ClusterManifest]:
    """Take a snapshot of ``groups`` (None: all) into ``folder``, which is looked at before anything is read.

    Raises as `GroupSnapshots.take` and `ClusterSnapshotStore.write`."""
    store.refuse(folder)
    state = reader.take(groups, progress=progress)
    return state, store.write(folder, state)
