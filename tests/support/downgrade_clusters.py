"""Clusters before a downgrade, as a test tells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from groupshift.domain.cluster import BrokerView, ClusterView, Property, QuorumView
from groupshift.domain.group_protocol import KafkaGroup, Kind
from groupshift.domain.versions import METADATA, Version
from groupshift.moves.downgrade.releases import line_of_version


def listed(
    group: str, kind: Kind = Kind.CLASSIC, *, state: str = "Stable", protocol_type: str = "consumer"
) -> KafkaGroup:
    """A group in a broker's list."""
    return KafkaGroup(group=group, kind=kind, protocol_type=protocol_type, state=state)


def broker(
    node_id: int = 1,
    release: str = "4.3.1",
    *,
    groups: Sequence[KafkaGroup] = (),
    properties: Mapping[str, str] | None = None,
) -> BrokerView:
    """A broker of this release, with these lines in its file."""
    line = line_of_version(Version.parse(release))
    assert line is not None
    return BrokerView(
        node_id=node_id,
        supported={METADATA: (1, line.metadata)},
        groups=tuple(groups),
        properties={name: Property(value=value, static=True) for name, value in (properties or {}).items()},
    )


def cluster(*brokers: BrokerView, features: Mapping[str, int] | None = None, **more: object) -> ClusterView:
    """These brokers (one of 4.3.1 where none is named), all of them voters, the first one leading."""
    nodes = brokers or (broker(),)
    view = ClusterView(
        cluster_id="cluster",
        taken_at_ms=0,
        brokers=nodes,
        quorum=QuorumView(
            leader=nodes[0].node_id, voters=tuple(each.node_id for each in nodes), high_watermark=100
        ),
        finalised={METADATA: 21} if features is None else features,
        partitions=5,
    )
    return replace(view, **more)  # type: ignore[arg-type]
