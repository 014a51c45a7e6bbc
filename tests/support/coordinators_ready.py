"""When the coordinator of a broker that has just started serves the groups of each of its partitions."""

from __future__ import annotations

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import fetch_offsets, fetched
from groupshift.adapters.kafka.wire import raise_for

_DEADLINE_S = 90.0
_PROBES = tuple(f"nobody-{number}" for number in range(200))
"""Groups that nobody has: so many that each of a few partitions has one of them."""


def await_coordinators(bootstrap: str) -> None:
    """The first question makes the offsets topic; return when every group's offsets can be asked for.

    Raises `Transient` at the deadline."""
    cluster = KafkaCluster(bootstrap, timeout_s=_DEADLINE_S)
    try:
        cluster.attempt(lambda: _ask(cluster))
    finally:
        cluster.close()


def _ask(cluster: KafkaCluster) -> None:
    """Raises `BrokerError` while a probe has no coordinator, or one that still loads its partition."""
    nodes, errors = cluster.coordinators(_PROBES)
    for group, code in errors.items():
        raise_for(code, f"group {group!r} has no coordinator")
    for node in set(nodes.values()):
        connection = cluster.broker(node)
        probes = [group for group in _PROBES if nodes[group] == node]
        for request, asked in fetch_offsets(connection, probes):
            for group, code, _ in fetched(asked, connection.ask(request)):
                raise_for(code, f"offsets of {group!r}")
