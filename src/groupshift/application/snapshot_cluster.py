"""Snapshot a cluster: read all groups (or some) and keep what was read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from groupshift.application.environment import Environment
from groupshift.domain.evidence import ClusterManifest, PlanOf, refuse_older
from groupshift.domain.rows import ClusterState
from groupshift.ports.cluster import ClusterSnapshotStore, GroupSnapshots, Progress


def snapshot_cluster(
    reader: GroupSnapshots,
    store: ClusterSnapshotStore,
    folder: Path,
    groups: Collection[str] | None = None,
    *,
    plan: PlanOf | None = None,
    progress: Progress | None = None,
) -> tuple[ClusterState, ClusterManifest]:
    """Take a snapshot of ``groups`` (None: all) into ``folder``, which is looked at before anything is read.

    With ``plan`` it is bound to that plan; `Rejected` where this clock is before the plan's. Raises as
    `GroupSnapshots.take` and `ClusterSnapshotStore.write`."""
    store.refuse(folder)
    state = reader.take(groups, progress=progress)
    if plan is not None:
        refuse_older(f"snapshot {folder}", state.taken_at_ms, plan)
    return state, store.write(folder, state, plan)


def plan_of(env: Environment, migration: str, folder: Path | None = None) -> tuple[str, PlanOf]:
    """The group of a migration and its plan. Raises `Rejected` when there is none of that id, or when a
    snapshot taken now into ``folder`` would be older than the plan, since this clock is behind."""
    record = env.journal.find(migration)
    plan = PlanOf(migration=migration, hash=record.plan_hash, made_at_ms=record.created_at_ms)
    if folder is not None:
        refuse_older(f"snapshot {folder}", env.clock.now_ms(), plan)
    return record.group, plan
