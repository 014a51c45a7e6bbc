"""The metadata log of KRaft nodes: a newer snapshot, without which a node replays records that its release
does not know (docs/reference/group-coordinator.md §8.4)."""

from __future__ import annotations

import time

from groupshift.domain.cluster import QuorumView
from groupshift.errors import Transient
from groupshift_sandbox.layout import Cluster, Node
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.readiness import quorum_at

_FOLDER = "__cluster_metadata-0"


def newest_snapshot(node: Node) -> int:
    """The offset up to which the node's newest snapshot holds everything; -1 when it has none."""
    names = (path.name for path in (node.folder / _FOLDER).glob("*.checkpoint"))
    return max((int(name.partition("-")[0]) for name in names if name[:1].isdigit()), default=-1)


def quorum_of(cluster: Cluster) -> QuorumView:
    """The quorum as some broker tells it. Raises `Transient` when none does."""
    for broker in cluster.brokers:
        quorum = quorum_at(broker)
        if quorum is not None:
            return quorum
    raise Transient(f"no broker of {cluster.bootstrap} tells the metadata quorum; run it again")


def await_snapshots(cluster: Cluster, *, deadline_s: float = 120.0) -> float:
    """Wait until every node has a snapshot of all that is in the metadata log now; seconds that took.

    Snapshots are made every ``metadata.log.max.snapshot.interval.ms``. Raises `Transient` at the deadline."""
    begun, wanted = time.monotonic(), quorum_of(cluster).high_watermark
    wait_until(
        lambda: all(newest_snapshot(node) >= wanted for node in cluster.nodes),
        deadline_s,
        f"a metadata snapshot up to offset {wanted} on every node",
        every_s=0.2,
    )
    return time.monotonic() - begun
