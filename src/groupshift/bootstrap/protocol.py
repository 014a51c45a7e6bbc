"""Moves of the protocol: which adapters look at a group and its brokers."""

from __future__ import annotations

from groupshift.ports.clock import Clock
from groupshift.ports.cluster import CoordinatorGauges, GroupLists, ProtocolViews
from groupshift.settings import KafkaSettings


def protocol_views(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> ProtocolViews:
    """Looks at groups of this cluster; opens nothing before it is used. Raises `Rejected` for an address or
    a property that cannot be used."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.views import LiveProtocolViews
    from groupshift.adapters.system import SystemClock

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    return LiveProtocolViews(cluster, SystemClock())


def group_lists(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> GroupLists:
    """Lists of this cluster's brokers; likewise."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.group_counts import LiveGroupLists

    return LiveGroupLists(
        KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    )


def coordinator_gauges(java: str, class_path: str) -> CoordinatorGauges:
    """Metrics by JMX, read with this Java and a class path that has kafka-tools."""
    from groupshift.adapters.kafka.group_counts import JmxToolGauges

    return JmxToolGauges(java, class_path)


def clock() -> Clock:
    """The system's."""
    from groupshift.adapters.system import SystemClock

    return SystemClock()
