"""Groups as ZooKeeper and Kafka together tell them: one, or all of an ensemble and its Kafka cluster.

Implements ports of `groupshift.ports.cluster` and `groupshift.scan.ports`. `LiveGroupReader` and
`KafkaGroupReader` are a `GroupReader`: from ZooKeeper and Kafka, and from Kafka alone with every broker.
`LiveAccess` is an `Access`: whether the tool may read and change a group. `LiveEnsembleReader` is an
`EnsembleReader`. `EnsembleSnapshots` are `GroupSnapshots` of what ZooKeeper knows of all groups, or of what
the system that coordinates each group now knows of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from groupshift.adapters.system import collector_paused
from groupshift.domain.group import (
    GroupView,
    merge,
    partitions_of,
    topics_of_group,
    view_of,
    zookeeper_rows,
)
from groupshift.domain.group_protocol import Kind
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ROWS, ClusterState, LogEndRow, ReadFrom
from groupshift.domain.znodes import refuse_other_cluster
from groupshift.errors import Transient
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import GroupSnapshots, Identity, Progress, ProtocolViews
from groupshift.scan.group_state import Observed

if TYPE_CHECKING:  # whoever needs Kafka alone does not load ZooKeeper's client
    from groupshift.adapters.kafka.cluster import OfCluster
    from groupshift.adapters.kafka.groups import KafkaGroups, KafkaRights, ListedKafkaGroups  # noqa: F401 - in "…"
    from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
    from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
    from groupshift.adapters.zookeeper.mode_brake_and_rights import ZookeeperRights


K = TypeVar("K", bound="OfCluster")


class _Both(Generic[K]):
    """Reads ZooKeeper and the brokers of its Kafka cluster; both connections are closed together."""

    def __init__(self, zookeeper: ZookeeperGroups, kafka: K, clock: Clock) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._clock = clock

    def close(self) -> None:
        """Close both connections."""
        self._zookeeper.close()
        self._kafka.close()


class LiveAccess:
    """Kafka's half, and ZooKeeper's before it unless a move has nothing to do with ZooKeeper."""

    def __init__(self, kafka: KafkaRights, zookeeper: ZookeeperRights | None = None) -> None:
        self._kafka = kafka
        self._zookeeper = zookeeper

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """See the port; a group that does not exist is nothing to have rights on."""
        if not view.exists:
            return ()
        static = [member for member in view.members if member.pattern == "static"]
        topics = {owner.partition.topic for owner in view.owners}  # whether or not Kafka shows them
        topics |= {each.topic for each in (*view.zookeeper_offsets, *view.kafka_offsets)}
        topics |= {topic for member in static for topic, _ in member.subscription}
        nodes = () if self._zookeeper is None else (self._zookeeper.identity(view.group),)
        return (*nodes, self._kafka.identity(view.group, sorted(topics)))


_AGAIN, _APART_MS = 2, 1_500


class LiveGroupReader(_Both["KafkaGroups"]):
    """Reads ZooKeeper first, then Kafka's offsets, then log ends.

    In kafka mode members commit to Kafka first and raise the znode at once (F8), so in this order no
    znode of a view is ahead of Kafka; and no offset is ahead of its log end. Where Kafka answered so late
    that its offsets are of another time than ZooKeeper's, both are read again, while that is faster: a stall
    is no difference between the stores.
    """

    def read(self, group: str) -> GroupView:
        """The group now; see `groupshift.ports.cluster.GroupReader.read`."""
        view, apart_ms = self._read(group)
        for _ in range(_AGAIN if apart_ms > _APART_MS else 0):
            try:
                again, again_ms = self._read(group)
            except Transient:
                break  # what was read is whole, if of two times
            if again_ms >= apart_ms:
                break  # this cluster is as slow as that
            view, apart_ms = again, again_ms
            if apart_ms <= _APART_MS:
                break
        return view

    def _read(self, group: str) -> tuple[GroupView, int]:
        """A view, and how long after ZooKeeper's answer Kafka's last one came."""
        taken_at_ms = self._clock.now_ms()
        zookeeper = self._zookeeper.observe(group)
        answered_ms = self._clock.now_ms()
        kafka = self._kafka.observe(group, zookeeper.migration_ids)
        partitions = partitions_of(topics_of_group(zookeeper, kafka), kafka.topics)
        kafka = self._kafka.positions(kafka, partitions)
        apart_ms = self._clock.now_ms() - answered_ms
        return merge(taken_at_ms, zookeeper, kafka), apart_ms


_READ = frozenset({Kind.CLASSIC, Kind.CONSUMER})


class KafkaGroupReader:
    """Looks at the brokers first, then reads offsets and log ends: no offset is ahead of its log end."""

    def __init__(self, views: ProtocolViews, snapshots: GroupSnapshots) -> None:
        self._views, self._snapshots = views, snapshots

    def read(self, group: str) -> GroupView:
        """The group now; see `groupshift.ports.cluster.GroupReader.read`. ZooKeeper is not asked."""
        look = self._views.look(group)
        known = look.group.kind in _READ
        return view_of(look, self._snapshots.take([group]) if known else None)

    def close(self) -> None:
        """Close the connections."""
        self._views.close()
        self._snapshots.close()


class LiveEnsembleReader(_Both["ListedKafkaGroups"]):
    """Reads ZooKeeper first, then Kafka's offsets, then log ends, as the reader of one group does: no offset
    of a view is ahead of its log end."""

    @property
    def name(self) -> str:
        """See the port."""
        return self._zookeeper.name

    def groups(self) -> tuple[str, ...]:
        """See the port."""
        return tuple(sorted({*self._zookeeper.groups(), *self._kafka.groups()}))

    @collector_paused()
    def read(self, groups: Sequence[str]) -> tuple[Observed, ...]:
        """See the port."""
        taken_at_ms = self._clock.now_ms()
        nodes = dict(zip(groups, self._zookeeper.window(groups), strict=True))
        kafka = self._kafka.observe({group: side.migration_ids for group, (side, _) in nodes.items()})
        wanted = {
            group: partitions_of(topics_of_group(side, kafka[group]), kafka[group].topics)
            for group, (side, _) in nodes.items()
        }
        read_by_ms = self._clock.now_ms()
        ends, missing = self._kafka.log_ends(at for partitions in wanted.values() for at in partitions)
        return tuple(
            Observed(
                view=merge(taken_at_ms, side, _with_ends(kafka[group], wanted[group], ends, missing)),
                times=times,
                read_by_ms=read_by_ms,
            )
            for group, (side, times) in nodes.items()
        )


def _with_ends(
    view: GroupView,
    partitions: Sequence[TopicPartition],
    ends: Mapping[TopicPartition, LogEndRow],
    missing: Sequence[str],
) -> GroupView:
    """With the group's log ends; partitions without one are named."""
    unread = [at for at in partitions if at not in ends]
    said = [text for text in missing if any(f" {at} " in text for at in unread)] if unread else []
    log_ends = tuple(ends[at] for at in partitions if at in ends)
    return replace(view, log_ends=log_ends, problems=(*view.problems, *said))


_WINDOW = 200


class EnsembleSnapshots(_Both["LiveGroupSnapshots"]):
    """Reads ZooKeeper first, then Kafka's groups (``in-force`` only), then log ends: no committed offset of
    either store is ahead of its log. ``kafka`` and ``zookeeper`` are of one cluster; both are closed."""

    def __init__(
        self,
        zookeeper: ZookeeperGroups,
        kafka: LiveGroupSnapshots,
        clock: Clock,
        read_from: ReadFrom = ReadFrom.ZOOKEEPER,
    ) -> None:
        super().__init__(zookeeper, kafka, clock)
        self._read_from = read_from

    def take(
        self, groups: Collection[str] | None = None, *, progress: Progress | None = None
    ) -> ClusterState:
        """See the port. Raises `Rejected` when ZooKeeper belongs to another Kafka cluster."""
        tell = progress or (lambda _what, _done, _of: None)
        taken_at_ms, requests = self._clock.now_ms(), self._kafka.requests
        empty = ClusterState(cluster_id=self.cluster_id(), taken_at_ms=taken_at_ms)
        views = self._views(groups, tell)
        if self._read_from is ReadFrom.IN_FORCE:
            views = {group: view for group, view in views.items() if in_force(view)}
        nodes = zookeeper_rows(empty, views.values(), self._kafka.topics())
        others = empty
        if self._read_from is ReadFrom.IN_FORCE:  # groups that Kafka coordinates
            unread = None if groups is None else set(groups) - views.keys()
            others = self._kafka.take(unread, progress=tell)
        committed, read = nodes.committed_topics, nodes.read_topics
        ends, problems = self._kafka.log_ends(committed | read, committed - read)
        joined = _joined(others, views.keys(), nodes, ends)
        return replace(
            joined,
            taken_at_ms=taken_at_ms,
            read_from=self._read_from,
            problems=list(dict.fromkeys([*joined.problems, *problems])),
            requests=self._kafka.requests - requests,
        )

    def cluster_id(self) -> str:
        """See the port."""
        kafka_id = self._kafka.cluster_id()
        refuse_other_cluster(self._zookeeper.cluster_id(), kafka_id)
        return kafka_id

    def _views(self, groups: Collection[str] | None, tell: Progress) -> dict[str, GroupView]:
        """What ZooKeeper holds of the groups; those that are named and not there included, unless Kafka is
        asked for them."""
        known = self._zookeeper.groups()
        names = known if groups is None else tuple(sorted(groups))
        views: dict[str, GroupView] = {}
        for at in range(0, len(names), _WINDOW):
            window = names[at : at + _WINDOW]
            views |= {
                group: side
                for group, (side, _) in zip(window, self._zookeeper.window(window), strict=True)
                if side.exists or groups is not None
            }
            tell("groups in ZooKeeper", at + len(window), len(names))
        return views


def in_force(view: GroupView) -> bool:
    """Whether ZooKeeper knows the group and decides who owns what in it now."""
    return view.exists and view.effective_mode is Mode.ZOOKEEPER


def _joined(
    kafka: ClusterState, ours: Collection[str], nodes: ClusterState, ends: Iterable[LogEndRow]
) -> ClusterState:
    """Both halves; of a group that ZooKeeper coordinates nothing that Kafka says of it."""
    theirs, own = kafka.tables(), nodes.tables()
    both: dict[str, Any] = {}
    for name in ROWS.keys() - {"log_ends", "brokers"}:
        rows = [*(row for row in theirs[name] if row.group not in ours), *own[name]]
        both[name] = sorted(rows, key=lambda row: row.group or "")
    all_ends = {row.at: row for row in (*kafka.log_ends, *ends)}
    return replace(kafka, **both, log_ends=[all_ends[at] for at in sorted(all_ends)])
