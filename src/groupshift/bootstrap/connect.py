"""The adapter of each port: groups, clusters, their snapshots and audits.

Imports are local, so a DAG file pays for none when Airflow parses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from groupshift.bootstrap.member_and_broker_drivers import fleet
from groupshift.domain.rows import ReadFrom
from groupshift.ports.changes import ClusterActs, OffsetRestoring, TopicExpansion
from groupshift.ports.clock import NoStepCrash, StepCrashPoints
from groupshift.ports.cluster import (
    ClusterGroups,
    ClusterSnapshotStore,
    DowngradeViews,
    GroupSnapshots,
    PlacementViews,
    ProtocolViews,
)
from groupshift.ports.evidence import Signer, Verifier
from groupshift.ports.group import BrokerSide, GroupSide, ZookeeperSide
from groupshift.ports.log import CommitHashes, LogErasing
from groupshift.settings import KafkaSettings, Settings, ZookeeperSettings

if TYPE_CHECKING:
    from groupshift.adapters.kafka.cluster import KafkaCluster
    from groupshift.adapters.parquet.audits import ParquetAudits
    from groupshift.adapters.zookeeper.session import ZookeeperConnection
    from groupshift.spark.broker_source import Brokers


def signer_of(key: str) -> Signer | None:
    """What signs with this private key (PEM text or path), which is read when the first pack is signed; None
    without one."""
    if not key:
        return None
    from groupshift.adapters.signing import Ed25519Signer

    return Ed25519Signer(key)


def verifier(key: str) -> Verifier | None:
    """What checks signatures with this public key (PEM text or path); None without one."""
    if not key:
        return None
    from groupshift.adapters.signing import Ed25519Verifier

    return Ed25519Verifier(key)


@contextmanager
def zookeeper_side(settings: Settings) -> Iterator[ZookeeperSide]:
    """Open a group as ZooKeeper and Kafka know it, and who writes its mode, over one ZooKeeper session."""
    from groupshift.adapters.groups import LiveAccess, LiveGroupReader
    from groupshift.adapters.kafka.cluster import observer
    from groupshift.adapters.kafka.groups import KafkaGroups, KafkaRights
    from groupshift.adapters.system import SystemClock
    from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
    from groupshift.adapters.zookeeper.mode_brake_and_rights import ZookeeperModeSwitch, ZookeeperRights
    from groupshift.adapters.zookeeper.session import cluster_id

    zookeeper = zookeeper_connection(settings.zookeeper)
    kafka = observer(settings.kafka.bootstrap_servers, properties=settings.kafka.properties)
    with closing(LiveGroupReader(ZookeeperGroups(zookeeper), KafkaGroups(kafka), SystemClock())) as groups:
        yield ZookeeperSide(
            groups=groups,
            fleets=partial(fleet, settings.fleet, groups),
            access=LiveAccess(KafkaRights(kafka), ZookeeperRights(zookeeper)),
            mode=ZookeeperModeSwitch(zookeeper),
            cluster_id=partial(cluster_id, zookeeper),
        )


@contextmanager
def broker_side(settings: Settings) -> Iterator[BrokerSide]:
    """Open a group as Kafka's brokers alone know it."""
    from groupshift.adapters.groups import KafkaGroupReader, LiveAccess
    from groupshift.adapters.kafka.cluster import observer
    from groupshift.adapters.kafka.groups import KafkaRights

    where = settings.kafka
    connection = observer(where.bootstrap_servers, properties=where.properties)
    reader = KafkaGroupReader(protocol_views(where), group_snapshots(where))
    with closing(connection) as kafka, closing(reader) as groups:
        drivers = partial(fleet, settings.fleet, groups)
        access = LiveAccess(KafkaRights(kafka))
        yield BrokerSide(GroupSide(groups=groups, fleets=drivers, access=access))


def _cluster(kafka: KafkaSettings, timeout_s: float) -> KafkaCluster:
    from groupshift.adapters.kafka.cluster import KafkaCluster

    return KafkaCluster(kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)


def brokers_of(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> Brokers:
    """How Spark's executors and this process read the log of the offsets topic of this cluster."""
    from groupshift.spark.broker_source import Brokers

    return Brokers(**asdict(kafka), timeout_s=timeout_s)


def zookeeper_connection(where: ZookeeperSettings) -> ZookeeperConnection:
    """A connection with this login; it opens at its first use."""
    from groupshift.adapters.zookeeper.session import ZookeeperConnection

    return ZookeeperConnection(**asdict(where))


def group_snapshots(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> ClusterGroups:
    """A reader of this cluster; it opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
    from groupshift.adapters.system import SystemClock

    return LiveGroupSnapshots(_cluster(kafka, timeout_s), SystemClock())


def ensemble_snapshots(
    kafka: KafkaSettings, zookeeper: ZookeeperSettings, read_from: ReadFrom, *, timeout_s: float = 10.0
) -> GroupSnapshots:
    """A reader of the groups that ZooKeeper knows, or of each from whoever coordinates it (``read_from``).

    As `group_snapshots`; both are of one Kafka cluster, which `GroupSnapshots.take` finds out."""
    from groupshift.adapters.groups import EnsembleSnapshots
    from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
    from groupshift.adapters.system import SystemClock
    from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups

    cluster = _cluster(kafka, timeout_s)
    clock = SystemClock()
    return EnsembleSnapshots(
        ZookeeperGroups(zookeeper_connection(zookeeper)), LiveGroupSnapshots(cluster, clock), clock, read_from
    )


def cluster_snapshot_store() -> ClusterSnapshotStore:
    """Where snapshots are kept: folders of Parquet files."""
    from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots

    return ParquetClusterSnapshots()


def protocol_views(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> ProtocolViews:
    """Looks at groups of this cluster; opens nothing before it is used. Raises `Rejected` for an address or
    a property that cannot be used."""
    from groupshift.adapters.kafka.broker_views import LiveProtocolViews
    from groupshift.adapters.system import SystemClock

    return LiveProtocolViews(_cluster(kafka, timeout_s), SystemClock())


def downgrade_views(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> DowngradeViews:
    """Looks at this cluster; opens nothing before it is used. Raises `Rejected` for an address or a
    property that cannot be used."""
    from groupshift.adapters.kafka.broker_views import LiveDowngradeViews
    from groupshift.adapters.system import SystemClock

    return LiveDowngradeViews(_cluster(kafka, timeout_s), SystemClock())


def cluster_acts(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> ClusterActs:
    """Changes this cluster. Raises as `downgrade_views`."""
    from groupshift.adapters.kafka.cluster_changes import LiveClusterActs

    return LiveClusterActs(_cluster(kafka, timeout_s))


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
    from groupshift.adapters.kafka.broker_views import LivePlacementViews
    from groupshift.adapters.system import SystemClock

    return LivePlacementViews(_cluster(kafka, timeout_s), SystemClock())


def offset_restoring(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> OffsetRestoring:
    """Gives offsets back in this cluster. Raises as `placement_views`."""
    from groupshift.adapters.kafka.group_changes import LiveOffsetRestoring

    return LiveOffsetRestoring(_cluster(kafka, timeout_s))


def log_erasing(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> LogErasing:
    """Writes tombstones into the offsets topic of this cluster."""
    from groupshift.adapters.kafka.group_changes import ProducerErasing

    return ProducerErasing(kafka.bootstrap_servers, kafka.properties, timeout_s)


def topic_expansion(kafka: KafkaSettings, *, timeout_s: float = 10.0) -> TopicExpansion:
    """Gives the offsets topic of this cluster more partitions. Raises as `placement_views`."""
    from groupshift.adapters.kafka.cluster_changes import LiveTopicExpansion

    return LiveTopicExpansion(_cluster(kafka, timeout_s))


def audit_store() -> ParquetAudits:
    """Where audits are kept: folders of Parquet files."""
    from groupshift.adapters.parquet.audits import ParquetAudits

    return ParquetAudits()
