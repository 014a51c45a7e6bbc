"""The adapters for runs of a whole cluster: downgrades of brokers, and placement of groups."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.ports.changes import ClusterActs, OffsetRestoring, TopicExpansion
from groupshift.ports.clock import NoStepCrash, StepCrashPoints
from groupshift.ports.cluster import DowngradeViews, PlacementViews
from groupshift.ports.log import CommitHashes, LogErasing
from groupshift.settings import KafkaSettings


def downgrade_views(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> DowngradeViews:
    """Looks at this cluster; opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.views import LiveDowngradeViews
    from groupshift.adapters.system import SystemClock

    cluster = KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    return LiveDowngradeViews(cluster, SystemClock())


def cluster_acts(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> ClusterActs:
    """Changes this cluster. Raises as `downgrade_views`."""
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.kafka.cluster_changes import LiveClusterActs

    return LiveClusterActs(
        KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    )


def commit_hashes() -> CommitHashes:
    """Where the hashes of live commits are kept: JSON files beside the snapshots."""
    from groupshift.adapters.parquet.snapshots import CommitHashFiles

    return CommitHashFiles()


def step_crash_points(environ: Mapping[str, str]) -> StepCrashPoints:
    """None outside tests; with ``GROUPSHIFT_TEST_HOOKS=1`` what ``GROUPSHIFT_CRASH_AT_STEP`` asks for.

    Raises `Rejected` for a point that does not exist."""
    if environ.get("GROUPSHIFT_TEST_HOOKS") != "1":
        return NoStepCrash()
    from groupshift.adapters.system import KillAtStep

    return KillAtStep.from_environment(environ) or NoStepCrash()


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
