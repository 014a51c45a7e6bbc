"""Placement of groups: which adapters ask the brokers, and give offsets back."""

from __future__ import annotations

from groupshift.ports.changes import OffsetRestoring, TopicExpansion
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.log import LogErasing
from groupshift.settings import KafkaSettings


def placement_views(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> PlacementViews:
    """Looks at this cluster; opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.views import LivePlacementViews
    from groupshift.adapters.system import SystemClock

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    return LivePlacementViews(cluster, SystemClock())


def offset_restoring(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> OffsetRestoring:
    """Gives offsets back in this cluster. Raises as `placement_views`."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.group_changes import LiveOffsetRestoring

    return LiveOffsetRestoring(
        KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    )


def log_erasing(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> LogErasing:
    """Writes tombstones into the offsets topic of this cluster."""
    from groupshift.adapters.kafka.group_changes import ProducerErasing

    return ProducerErasing(kafka.bootstrap_servers, kafka.properties, timeout_s)


def topic_expansion(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> TopicExpansion:
    """Gives the offsets topic of this cluster more partitions. Raises as `placement_views`."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.cluster_changes import LiveTopicExpansion

    return LiveTopicExpansion(
        KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    )
