"""Looks at placement: which adapter asks the brokers."""

from __future__ import annotations

from groupshift.ports.placement_views import PlacementViews
from groupshift.settings import KafkaSettings


def placement_views(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> PlacementViews:
    """Looks at this cluster; opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.clock import SystemClock
    from groupshift.adapters.kafka.raw.cluster import KafkaCluster
    from groupshift.adapters.kafka.raw.placement_views import LivePlacementViews

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    return LivePlacementViews(cluster, SystemClock())
