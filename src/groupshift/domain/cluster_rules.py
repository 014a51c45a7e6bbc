"""What the rules of several moves ask of a cluster's brokers. What they say is in the moves' own tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from groupshift.domain.cluster import ClusterView
from groupshift.domain.facts import at_brokers
from groupshift.domain.rules import Says


def controlled(cluster: ClusterView) -> Iterator[Says]:
    """There is a controller: features are lowered and partitions made there, and nodes register with it."""
    if cluster.kraft and cluster.quorum is None:
        yield Says("controller_silent", problem=cluster.quorum_problem)
    elif cluster.quorum is not None and cluster.quorum.leader < 0:
        yield Says("quorum_leaderless")
    elif not cluster.kraft and cluster.controller < 0:
        yield Says("no_controller")


def complete(cluster: ClusterView) -> Iterator[Says]:
    """Every broker tells all its groups and its configuration."""
    for broker in cluster.brokers:
        if broker.loading:
            yield Says("broker_loads", node=broker.node_id)
        if broker.untold:
            yield Says("broker_untold", node=broker.node_id, why=broker.untold)


def one_coordinator(cluster: ClusterView) -> Iterator[Says]:
    """OLD and NEW coordinators load what lies elsewhere in different ways."""
    running = ((broker.coordinator.value.upper(), broker.node_id) for broker in cluster.brokers)
    kinds = at_brokers(sorted(running))
    if len(kinds) > 1:
        yield Says("both_coordinators", kinds=kinds)


def unlisted(cluster: ClusterView, nodes: Collection[int], leaderless: Collection[int]) -> str:
    """Return why brokers may not list all groups now, so that an empty list proves nothing; empty when they
    do. ``nodes`` are to be there, ``leaderless`` are partitions of the offsets topic."""
    loading = [str(each.node_id) for each in cluster.brokers if each.loading]
    absent = ", ".join(map(str, sorted(set(nodes) - {each.node_id for each in cluster.brokers})))
    if loading:
        return f"broker {', '.join(loading)} still loads coordinator partitions and does not list all groups"
    if absent:
        return f"broker {absent} is not registered, and lists no groups: bring one of that id up"
    if leaderless:
        return f"partition {min(leaderless)} of the offsets topic has no leader, its groups are not listed"
    return ""
