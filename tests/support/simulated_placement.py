"""The ports of placement over simulated brokers, and what clients of them were told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from groupshift.domain.cluster import (
    COUNT,
    BrokerView,
    ClusterView,
    PlacementView,
    Property,
    QuorumView,
    TopicView,
)
from groupshift.domain.commit_places import FORMER, TopicNow, Topics
from groupshift.domain.group_partition_and_count import NOBODY, Answers, probe_names
from groupshift.domain.group_protocol import KafkaGroup, Kind
from groupshift.domain.rows import ClusterState, Committed, OffsetRow, ProblemRow
from groupshift.log import LogRecord
from groupshift.log.decode import Position
from groupshift.log.releases import Coordinator
from groupshift.ports.changes import unheld
from groupshift_testing.offset_brokers import NotCoordinator, OffsetBrokers

_LEVELS = {Coordinator.NEW: (1, 30), Coordinator.OLD: (1, 8)}


@dataclass(slots=True)
class Placed:
    """Looks, reads the log, restores and snapshots; ``told`` is the newest commit that was acknowledged."""

    world: OffsetBrokers
    told: dict[str, int] = field(default_factory=dict)
    now: dict[str, TopicNow] = field(default_factory=dict)
    former: set[tuple[str, str, int]] = field(default_factory=set)

    def running(self) -> list[int]:
        """Brokers that run."""
        return [node for node, broker in self.world.brokers.items() if broker.running]

    def topics(self, names: Collection[str]) -> Topics:
        """See the port: all that is known is what a test says (``now``)."""
        return Topics(now={name: each for name, each in self.now.items() if name in names})

    def look(self) -> PlacementView:
        """As every running broker tells it."""
        world, nodes = self.world, self.running()
        names = probe_names(world.leaders)
        brokers = tuple(
            BrokerView(
                node_id=node,
                supported={"metadata.version": _LEVELS[world.kind]},
                properties={COUNT: Property(value=str(len(world.logs)), static=True)},
                groups=tuple(
                    KafkaGroup(group=group, kind=Kind.CLASSIC, protocol_type="", state="Empty")
                    for group in sorted(world.listed_at(node))
                ),
            )
            for node in nodes
        )
        missing = tuple(node for node in world.brokers if node not in nodes)
        return PlacementView(
            cluster=ClusterView(
                cluster_id="simulated",
                taken_at_ms=world.now_ms,
                brokers=brokers,
                quorum=QuorumView(leader=1, voters=(1,), high_watermark=1),
                partitions=len(world.logs),
            ),
            topic=TopicView(
                leaders=tuple(world.leaders),
                replicas=(len(world.brokers),) * len(world.logs),
                behind=dict.fromkeys(range(len(world.logs)), missing) if missing else {},
            ),
            answers=tuple(
                Answers(node_id=node, named={name: world.find_coordinator(node, name) for name in names})
                for node in nodes
            ),
        )

    def owners(self, groups: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """The brokers that serve each."""
        return {
            group: tuple(node for node in self.running() if self.world.serves(node, group))
            for group in groups
        }

    def answering(self, groups: Collection[str]) -> frozenset[str]:
        """Those with an offset at their coordinator."""
        return frozenset(group for group in groups if self.answered(group) != NOBODY)

    def position(self) -> Position:
        """The end of every partition."""
        return {number: len(records) for number, records in enumerate(self.world.logs)}

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, _told: object = None
    ) -> Iterator[LogRecord]:
        """All records."""
        assert partitions is None
        for number, end in up_to.items():
            yield from self.world.logs[number][:end]

    def coordinator(self, group: str) -> int:
        """Whom the first running broker names."""
        running = self.running()
        return self.world.find_coordinator(running[0], group) if running else NOBODY

    def answered(self, group: str) -> int:
        """The offset that its coordinator answers, -1 for none."""
        node = self.coordinator(group)
        if node == NOBODY or not self.world.serves(node, group):
            return NOBODY
        return next((row.offset for row in self.world.fetch_at(node, group)), NOBODY)

    def commit_as_client(self, group: str, offset: int, asked: int) -> bool:
        """A client that asks this broker for its coordinator; whether it was acknowledged."""
        node = self.world.find_coordinator(asked, group)
        if node == NOBODY or not self.world.serves(node, group):
            return False
        self.world.commit_at(node, [OffsetRow(group=group, topic="t", partition=0, offset=offset)])
        self.told[group] = offset
        return True

    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """One group after the other, at its coordinator."""
        by_group: dict[str, list[OffsetRow]] = {}
        for row in rows:
            by_group.setdefault(row.group, []).append(row)
        refused = {}
        for group, each in by_group.items():
            try:
                self.world.commit_at(self.coordinator(group), each)
            except NotCoordinator as why:
                refused[group] = str(why)
        return refused

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> Mapping[str, str]:
        """One group after the other, at its coordinator."""
        for group in groups:
            hold()
            self.world.delete_at(self.coordinator(group), group)
        return {}

    def erase(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Tombstones in the log; no cache sees them before it loads again."""
        for partition, key in keys:
            records = self.world.logs[partition]
            self.world.now_ms += 1
            records.append(
                LogRecord(
                    partition=partition,
                    offset=len(records),
                    timestamp_ms=self.world.now_ms,
                    key=key,
                    value=None,
                )
            )

    def take(self, groups: Collection[str] | None = None, *, progress: object = None) -> ClusterState:
        """What coordinators answer."""
        assert progress is None
        wanted: Sequence[str] = sorted(self.told if groups is None else groups)
        rows: list[OffsetRow] = []
        problems = []
        for group in wanted:
            try:
                rows += map(self._as_told, self.world.fetch_at(self.coordinator(group), group))
            except NotCoordinator as why:
                problems.append(ProblemRow(group=group, problem=str(why)))
        return ClusterState(
            cluster_id="simulated", taken_at_ms=self.world.now_ms, offsets=rows, problems=problems
        )

    def _as_told(self, row: OffsetRow) -> OffsetRow:
        former = (row.group, row.topic, row.partition) in self.former
        return replace(row, topic_id=FORMER) if former else row

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port."""
        found = Placed.take(self, groups)
        return Committed(offsets=found.offsets, problems=found.problems)

    def cluster_id(self) -> str:
        """One."""
        return "simulated"

    def close(self) -> None:
        """Nothing is open."""
