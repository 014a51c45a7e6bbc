"""`groupshift.ports.group_counts.GroupLists`: every broker's list, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.reading import listing
from groupshift.domain.group_protocol import Kind
from groupshift.domain.protocol.counts import Counts

_TYPES = set(Kind) - {Kind.ABSENT}


class LiveGroupLists:
    """Reads through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def count(self) -> Mapping[int, Counts]:
        """See the port."""
        self._cluster.attempt(self._cluster.refuse_several)
        listed, totals = self._cluster.attempt(lambda: listing(self._cluster))
        found: dict[int, Counter[tuple[Kind, str]]] = {node: Counter() for node in totals}
        for group in listed.values():
            kind = Kind(group.type) if group.type in _TYPES else Kind.UNKNOWN
            for node in group.brokers:
                found[node][kind, group.state] += 1
        return found

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()
