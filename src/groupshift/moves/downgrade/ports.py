"""What the steps of a downgrade work with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from groupshift.domain.cluster import ClusterView
from groupshift.engine.move import Run
from groupshift.ports.changes import ClusterActs
from groupshift.ports.cluster import (
    ClusterGroups,
    ClusterSnapshotStore,
    CoordinatorGauges,
    DowngradeViews,
    GroupLists,
)
from groupshift.ports.driver import BrokerReplacement
from groupshift.ports.evidence import EvidenceFolder
from groupshift.ports.log import CommitHashes, CopiedLogs, OffsetsLog
from groupshift.ports.spark_jobs import ComparisonOutcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradePorts:
    """Every port that a downgrade needs."""

    views: DowngradeViews
    cluster: ClusterActs
    log: OffsetsLog
    copies: CopiedLogs
    reader: ClusterGroups
    store: ClusterSnapshotStore
    commits: CommitHashes
    outcomes: ComparisonOutcomes
    nodes: BrokerReplacement
    evidence: EvidenceFolder
    lists: GroupLists
    gauges: CoordinatorGauges


Downgrading = Run[DowngradePorts]


def brokers_of(run: Downgrading) -> Collection[int]:
    """Return the ids of the nodes that serve clients, by the plan."""
    return tuple(int(each) for each in run.there.about["brokers"])


def hidden(run: Downgrading, view: ClusterView) -> str:
    """Return why brokers may not list all groups now, so that an empty list proves nothing; empty when they
    do."""
    loading = [str(each.node_id) for each in view.brokers if each.loading]
    absent = sorted(set(brokers_of(run)) - {each.node_id for each in view.brokers})
    if loading:
        return f"broker {', '.join(loading)} still loads coordinator partitions and does not list all groups"
    if absent:
        return f"broker {', '.join(map(str, absent))} is not registered, and lists no groups"
    if view.leaderless:
        return f"partition {view.leaderless[0]} of the offsets topic has no leader, its groups are not listed"
    return ""
