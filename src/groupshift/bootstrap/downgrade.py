"""Downgrades of brokers: which adapters look at a cluster."""

from __future__ import annotations

from groupshift.ports.downgrade_views import DowngradeViews
from groupshift.settings import KafkaSettings


def downgrade_views(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> DowngradeViews:
    """Looks at this cluster; opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.clock import SystemClock
    from groupshift.adapters.kafka.raw.cluster import KafkaCluster
    from groupshift.adapters.kafka.raw.downgrade_views import LiveDowngradeViews

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    return LiveDowngradeViews(cluster, SystemClock())
