"""Audit: the coordinators, their log and ZooKeeper, read within one bracket and held against each other.

With what only an audit has: what compares, and the port to the offsets in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from groupshift.audit.inputs import Terms, ZookeeperGroup, read_log
from groupshift.audit.offsets import Audit, Looked, Reading, audit, confirmed, unheard_of
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.znodes import refuse_other_cluster
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import GroupSnapshots
from groupshift.ports.log import LogProgress, LogReader


class OffsetNodes(Protocol):
    """Reads the committed offsets of groups in ZooKeeper and changes nothing. Raises `Transient` when it
    does not answer in time, `Rejected` where there is no Kafka cluster."""

    def read(self, groups: Collection[str] | None = None) -> Mapping[str, ZookeeperGroup]:
        """These groups, or all; those that ZooKeeper does not have are left out."""

    def cluster_id(self) -> str:
        """The id of the Kafka cluster that keeps its nodes there; empty where it is not told."""

    def close(self) -> None:
        """Close the connection."""


Progress = Callable[[str, int, int], None]
"""Called with what is being read, how much is done, and of how much."""
Comparison = Callable[[Reading, LogProgress], Looked]
"""Holds what was read within a bracket against the log, which it reads; changes nothing. Returns what
`groupshift.audit.offsets.audit` finds. Raises as `LogReader.read`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSources:
    """The three sources, and a clock. ``zookeeper`` is None for a cluster that has none, ``comparison`` for
    the one of this process."""

    admin: GroupSnapshots
    log: LogReader
    zookeeper: OffsetNodes | None
    clock: Clock
    comparison: Comparison | None = None

    def close(self) -> None:
        """Close every connection."""
        self.admin.close()
        self.log.close()
        if self.zookeeper is not None:
            self.zookeeper.close()


def audit_offsets(
    sources: AuditSources,
    terms: Terms,
    groups: Collection[str] | None = None,
    progress: Progress = lambda *_: None,
) -> Audit:
    """Audit these groups, or all of any source. Differences that one look cannot explain are looked at once
    more, their groups asked for by name; only what both looks see counts. Raises as the ports."""
    began_ms = sources.clock.now_ms()
    cluster_id = sources.admin.cluster_id()
    if sources.zookeeper is not None:
        refuse_other_cluster(sources.zookeeper.cluster_id(), cluster_id)
    if terms.retention_ms is None:
        terms = replace(terms, retention_ms=sources.log.retention_ms())
    compare = sources.comparison or partial(in_process, sources.log)

    def look(
        groups: Collection[str] | None, partitions: Collection[int] | None = None
    ) -> tuple[Looked, Reading]:
        """The log's position, a pause, the other two sources, the position again; then the log up to it."""
        opened = sources.log.position()
        sources.clock.sleep(terms.settle_ms / 1000)
        now_ms = sources.clock.now_ms()
        reading = Reading(
            admin=sources.admin.take(groups, progress=progress),
            zookeeper=None if sources.zookeeper is None else sources.zookeeper.read(groups),
            opened=opened,
            closed=sources.log.position(),
            terms=replace(terms, now_ms=now_ms),
            groups=groups,
            partitions=partitions,
        )
        return compare(reading, lambda done, of: progress("log", done, of)), reading

    looked, reading = look(groups)
    looked = unheard_of(looked, reading)
    if looked.suspicious:
        named = {one.group for one in looked.suspicious}
        homes = {partition_of(group, len(reading.closed)) for group in named}
        second, reading = look(named, homes | looked.elsewhere)
        looked = confirmed(looked, second)
    return Audit(
        began_ms=began_ms,
        ended_ms=sources.clock.now_ms(),
        cluster_id=reading.admin.cluster_id,
        zookeeper=sources.zookeeper is not None,
        retention_ms=terms.retention_ms,
        looked=looked,
    )


def in_process(log: LogReader, reading: Reading, progress: LogProgress) -> Looked:
    """A `Comparison` by the rules themselves, on records that come through this process."""
    records = log.read(reading.closed, reading.partitions, progress)
    side = read_log(records, opened=reading.opened, closed=reading.closed, groups=reading.groups)
    return audit(reading, side)
