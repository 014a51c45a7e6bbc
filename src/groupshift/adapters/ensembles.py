"""All groups of a ZooKeeper ensemble and its Kafka cluster, for scans and for snapshots.

Implements `groupshift.scan.ports.EnsembleReader` and `groupshift.ports.cluster.GroupSnapshots`. A snapshot
holds what ZooKeeper knows of all groups, or what the system that coordinates each group now knows of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from groupshift.adapters.kafka.groups import KafkaEnsemble
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.zookeeper.ensemble import ZookeeperEnsemble
from groupshift.domain.group import LogEnd
from groupshift.domain.observation import (
    Positions,
    ZookeeperRows,
    ZookeeperSide,
    coordinated_by_zookeeper,
    merge,
    partitions_of,
    topics_of_group,
    zookeeper_rows,
)
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import (
    AssignmentRow,
    ClusterState,
    GroupRow,
    LogEndRow,
    MemberRow,
    OffsetRow,
    ProblemRow,
    ReadFrom,
    SubscriptionRow,
)
from groupshift.domain.znodes import refuse_other_cluster
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import Progress
from groupshift.scan.state import Observed


class LiveEnsembleReader:
    """Reads ZooKeeper first, then Kafka's offsets, then log ends, as the reader of one group does: no offset
    of a view is ahead of its log end."""

    def __init__(self, zookeeper: ZookeeperEnsemble, kafka: KafkaEnsemble, clock: Clock) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._clock = clock

    @property
    def name(self) -> str:
        """See the port."""
        return self._zookeeper.name

    def groups(self) -> tuple[str, ...]:
        """See the port."""
        return tuple(sorted({*self._zookeeper.groups(), *self._kafka.groups()}))

    def read(self, groups: Sequence[str]) -> tuple[Observed, ...]:
        """See the port."""
        taken_at_ms = self._clock.now_ms()
        nodes = dict(zip(groups, self._zookeeper.observe(groups), strict=True))
        kafka = self._kafka.observe({group: side.migration_ids for group, (side, _) in nodes.items()})
        wanted = {
            group: partitions_of(topics_of_group(side, kafka[group]), kafka[group].topics)
            for group, (side, _) in nodes.items()
        }
        read_by_ms = self._clock.now_ms()
        ends, missing = self._kafka.log_ends(at for partitions in wanted.values() for at in partitions)
        return tuple(
            Observed(
                view=merge(group, taken_at_ms, side, kafka[group], _positions(wanted[group], ends, missing)),
                times=times,
                read_by_ms=read_by_ms,
            )
            for group, (side, times) in nodes.items()
        )

    def close(self) -> None:
        """Close both connections."""
        self._zookeeper.close()
        self._kafka.close()


def _positions(
    partitions: Sequence[TopicPartition], ends: Mapping[TopicPartition, LogEnd], missing: Sequence[str]
) -> Positions:
    """A group's log ends; partitions without one are named."""
    unread = [at for at in partitions if at not in ends]
    said = [text for text in missing if any(f" {at} " in text for at in unread)] if unread else []
    return Positions(log_ends=tuple(ends[at] for at in partitions if at in ends), problems=tuple(said))


_WINDOW = 200
_Row = TypeVar("_Row", GroupRow, MemberRow, SubscriptionRow, AssignmentRow, OffsetRow, ProblemRow)


class EnsembleSnapshots:
    """Reads ZooKeeper first, then Kafka's groups (``in-force`` only), then log ends: no committed offset of
    either store is ahead of its log. ``kafka`` and ``zookeeper`` are of one cluster; both are closed."""

    def __init__(
        self,
        zookeeper: ZookeeperEnsemble,
        kafka: LiveGroupSnapshots,
        clock: Clock,
        read_from: ReadFrom = ReadFrom.ZOOKEEPER,
    ) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._clock = clock
        self._read_from = read_from

    def take(
        self, groups: Collection[str] | None = None, *, progress: Progress | None = None
    ) -> ClusterState:
        """See the port. Raises `Rejected` when ZooKeeper belongs to another Kafka cluster."""
        tell = progress or (lambda _what, _done, _of: None)
        taken_at_ms, requests = self._clock.now_ms(), self._kafka.requests
        cluster_id = self.cluster_id()
        sides = self._sides(groups, tell)
        if self._read_from is ReadFrom.IN_FORCE:
            sides = {group: side for group, side in sides.items() if coordinated_by_zookeeper(side)}
        rows = zookeeper_rows(sides, self._kafka.topics())
        others = self._others(groups, sides, tell)
        ends, problems = self._kafka.log_ends(rows.topics, rows.unread)
        state = ClusterState(cluster_id=cluster_id, taken_at_ms=taken_at_ms) if others is None else others
        joined = _joined(state, sides.keys(), rows, ends)
        return replace(
            joined,
            taken_at_ms=taken_at_ms,
            read_from=self._read_from,
            problems=list(dict.fromkeys([*joined.problems, *problems])),
            requests=self._kafka.requests - requests,
        )

    def cluster_id(self) -> str:
        """See the port."""
        found = self._kafka.cluster_id()
        refuse_other_cluster(self._zookeeper.cluster_id(), found)
        return found

    def close(self) -> None:
        """Close both connections."""
        self._zookeeper.close()
        self._kafka.close()

    def _sides(self, groups: Collection[str] | None, tell: Progress) -> dict[str, ZookeeperSide]:
        """What ZooKeeper holds of the groups; those that are named and not there included, unless Kafka is
        asked for them."""
        known = self._zookeeper.groups()
        names = known if groups is None else tuple(sorted(groups))
        found: dict[str, ZookeeperSide] = {}
        for at in range(0, len(names), _WINDOW):
            window = names[at : at + _WINDOW]
            found |= {
                group: side
                for group, (side, _) in zip(window, self._zookeeper.observe(window), strict=True)
                if side.exists or groups is not None
            }
            tell("groups in ZooKeeper", at + len(window), len(names))
        return found

    def _others(
        self, groups: Collection[str] | None, sides: Collection[str], tell: Progress
    ) -> ClusterState | None:
        """The groups that Kafka coordinates; None where they are not asked for."""
        if self._read_from is not ReadFrom.IN_FORCE:
            return None
        return self._kafka.take(None if groups is None else set(groups) - set(sides), progress=tell)


def _joined(
    kafka: ClusterState, ours: Collection[str], rows: ZookeeperRows, ends: Iterable[LogEndRow]
) -> ClusterState:
    """Both halves; of a group that ZooKeeper coordinates nothing that Kafka says of it."""

    def both(theirs: Iterable[_Row], own: Iterable[_Row]) -> list[_Row]:
        found = [row for row in theirs if row.group not in ours]
        found.extend(own)
        found.sort(key=lambda row: row.group or "")
        return found

    all_ends = {(row.topic, row.partition): row for row in (*kafka.log_ends, *ends)}
    return replace(
        kafka,
        groups=both(kafka.groups, rows.groups),
        members=both(kafka.members, rows.members),
        subscriptions=both(kafka.subscriptions, rows.subscriptions),
        assignments=both(kafka.assignments, rows.assignments),
        offsets=both(kafka.offsets, rows.offsets),
        problems=both(kafka.problems, rows.problems),
        log_ends=[all_ends[at] for at in sorted(all_ends)],
    )
