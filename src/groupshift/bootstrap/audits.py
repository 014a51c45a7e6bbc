"""Audits: which adapters read the coordinators and ZooKeeper, and keep what was found.

The reader of the log belongs to the layer ``spark`` above; the caller hands it over.
"""

from __future__ import annotations

from groupshift.audit.ports import AuditStore, Comparison, OffsetNodes
from groupshift.audit.run import AuditSources
from groupshift.bootstrap.connect import group_snapshots
from groupshift.ports.log import LogReader
from groupshift.settings import KafkaSettings, ZookeeperSettings


def audit_sources(
    kafka: KafkaSettings,
    zookeeper: ZookeeperSettings | None,
    log: LogReader,
    *,
    comparison: Comparison | None = None,
    timeout_s: float = 10.0,
) -> AuditSources:
    """The sources of these clusters; they open nothing before they are used, close them after. ``comparison``
    None: by the rules in this process. Raises `Rejected` for an address or a property that cannot be used."""
    from groupshift.adapters.system import SystemClock

    return AuditSources(
        admin=group_snapshots(kafka, timeout_s=timeout_s),
        log=log,
        zookeeper=None if zookeeper is None else _nodes(zookeeper),
        clock=SystemClock(),
        comparison=comparison,
    )


def audit_store() -> AuditStore:
    """Where audits are kept: folders of Parquet files."""
    from groupshift.adapters.parquet.audits import ParquetAudits

    return ParquetAudits()


def _nodes(where: ZookeeperSettings) -> OffsetNodes:
    from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
    from groupshift.bootstrap.connect import zookeeper_connection

    return ZookeeperGroups(zookeeper_connection(where))
