"""A link in memory: two clusters with groups over simulated replications, its syncs, and the positions.

`LinkWorld` opens as a `groupshift.links.sync.OpenLink`, and commits as clients do on either side. Each act on
the target burns the `Fuse`, which may kill the process there; ``down`` names calls that do not answer.

    world = LinkWorld(link)
    world.replications[0].produce(b"1")
    world.replications[0].settle()
    world.commit("billing", 0, 1)
    rows = translate(world.opened, "billing")

Source: docs/reference/cross-cluster-offsets.md §§8.1, 9.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupshift.domain.commit_places import FORMER
from groupshift.domain.group_protocol import EMPTY
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import GONE, Committed, OffsetRow, ProblemRow
from groupshift.errors import Transient
from groupshift.links.link import Link
from groupshift.links.ports import GroupPartition, LinkSyncs, NoSyncs, TailBatch, TopicLogs
from groupshift.links.proven_positions import PositionKey, PositionsRead, ProvenPosition
from groupshift.links.sync_history import EpochEnd, PartitionPair, Sync, SyncHistory
from groupshift.links.sync_look import OpenLink
from groupshift.links.write_rules import Failure, LogRange
from groupshift.ports.clock import NoStepCrash, StepCrashPoints
from groupshift_testing.clock import ManualClock
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Replication, SimulatedLog
from groupshift_testing.world import Killed


@dataclass(slots=True)
class Fuse:
    """Kills the process at the act after ``left`` more; -1: never. ``acts`` counts what happened."""

    left: int = -1
    acts: int = 0

    def burn(self) -> None:
        """One act is about to happen. Raises `Killed`."""
        if self.left == 0:
            self.left = -1
            raise Killed
        self.left -= self.left > 0
        self.acts += 1


@dataclass(slots=True)
class MemoryGroup:
    """A group on one cluster; ``state`` as brokers name it, ``generation`` grows when somebody joins."""

    state: str = EMPTY
    generation: int = 0
    offsets: dict[TopicPartition, OffsetRow] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class MemorySide:
    """Both sides' ports. ``partitions`` gives the partitions that there are now, ``down`` names calls that
    raise `Transient`, ``unread`` why a group's offsets are not given in full: the last one is missing.
    ``tells_ids``: coordinators tell the topic ids of commits (4.1 on). ``between`` is called within a fenced
    commit, and before each one."""

    name: str
    partitions: Callable[[], Mapping[TopicPartition, SimulatedLog]]
    internal: set[str] = field(default_factory=set)
    members: dict[str, MemoryGroup] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)
    states_unread: dict[str, str] = field(default_factory=dict)
    tells_ids: bool = True
    fuse: Fuse = field(default_factory=Fuse)
    between: Callable[[str], None] = lambda _group: None
    written: list[OffsetRow] = field(default_factory=list)

    def _answer(self, call: str) -> None:
        if call in self.down:
            raise Transient(f"cluster {self.name} does not answer ({call}); run it again")

    # -- what clients do -------------------------------------------------------------------------------

    def group(self, name: str) -> MemoryGroup:
        """The group, made where there is none."""
        return self.members.setdefault(name, MemoryGroup())

    def commit_as_client(self, group: str, at: TopicPartition, offset: int, metadata: str = "") -> None:
        """Commit as a consumer does."""
        row = OffsetRow(
            group=group,
            topic=at.topic,
            partition=at.partition,
            offset=offset,
            leader_epoch=7,
            metadata=metadata,
            topic_id=self._topic_id(at.topic),
        )
        self.group(group).offsets[at] = row

    def join(self, group: str, state: str = "Stable") -> None:
        """A member joins."""
        self.group(group).state = state
        self.group(group).generation += 1

    def leave(self, group: str) -> None:
        """The last member leaves."""
        self.group(group).state = EMPTY

    # -- the ports -------------------------------------------------------------------------------------

    def cluster_id(self) -> str:
        """See the port."""
        self._answer("cluster_id")
        return self.name

    def topic_names(self) -> frozenset[str]:
        """See the port."""
        self._answer("topic_names")
        return frozenset({at.topic for at in self.partitions()} | self.internal)

    def logs(self, topics: Collection[str]) -> Mapping[str, TopicLogs | Failure]:
        """See the port."""
        self._answer("logs")
        partitions = grouped((at.topic, at.partition) for at in self.partitions() if at.topic in topics)
        return {
            topic: TopicLogs(
                topic_id=self._topic_id(topic),
                logs={number: self._range(TopicPartition(topic, number)) for number in numbers},
            )
            for topic, numbers in partitions.items()
        }

    def _range(self, at: TopicPartition) -> LogRange:
        log = self.partitions()[at]
        return LogRange(log.start, log.end)

    def _topic_id(self, topic: str) -> str | None:
        ids = [log.topic_id for at, log in sorted(self.partitions().items()) if at.topic == topic]
        return "+".join(ids) or None

    def open(
        self, partitions: Collection[TopicPartition], _isolation: Isolation
    ) -> Mapping[TopicPartition, SimulatedReader]:
        """See the port."""
        for at in partitions:
            self._answer(f"open {at}")
        there = self.partitions()
        return {at: SimulatedReader(there[at]) for at in partitions if at in there}

    def groups(self) -> frozenset[str]:
        """See the port."""
        self._answer("groups")
        return frozenset(self.members)

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port."""
        self._answer("committed")
        rows: list[OffsetRow] = []
        for group in sorted(self.members.keys() & set(groups)):
            offsets = list(self.members[group].offsets.values())
            rows += map(self._as_told, offsets[:-1] if group in self.unread else offsets)
        problems = [
            ProblemRow(group=group, problem=self.unread[group]) for group in groups if group in self.unread
        ]
        return Committed(offsets=rows, problems=problems)

    def _as_told(self, row: OffsetRow) -> OffsetRow:
        if not self.tells_ids:
            return replace(row, topic_id=None)
        return row if row.topic_id == self._topic_id(row.topic) else replace(row, topic_id=FORMER)

    def states(self, groups: Collection[str]) -> Mapping[str, str | Failure]:
        """See the port."""
        self._answer("states")
        return {
            group: Failure(self.states_unread[group])
            if group in self.states_unread
            else self.members[group].state
            if group in self.members
            else GONE
            for group in groups
        }

    def commit(self, rows: Sequence[OffsetRow], *, fenced: bool = False) -> Mapping[str, str]:
        """See the port."""
        self._answer("commit")
        refused: dict[str, str] = {}
        for name, some in sorted(grouped((row.group, row) for row in rows).items()):
            self.fuse.burn()
            generation = self.group(name).generation
            self.between(name)
            group = self.group(name)
            if group.state != EMPTY:
                refused[name] = "UNKNOWN_MEMBER_ID"
            elif fenced and group.generation != generation:
                refused[name] = "ILLEGAL_GENERATION"
            for row in some if name not in refused else ():
                if row.topic_id not in {None, self._topic_id(row.topic)}:
                    refused[name] = "UNKNOWN_TOPIC_ID"
                    continue
                group.offsets[row.at] = replace(row, topic_id=self._topic_id(row.topic))
                self.written.append(row)
        return refused

    def close(self) -> None:
        """See the port."""


class MemorySyncs:
    """`groupshift.links.ports.LinkSyncs` of simulated replications; log offsets count over all of them."""

    def __init__(self, replications: Callable[[], Mapping[TopicPartition, Replication]]) -> None:
        self._replications = replications
        self._histories: dict[TopicPartition, SyncHistory] = {}
        self._syncs: dict[TopicPartition, list[Sync]] = {}
        self._end = 0

    def read(self) -> None:
        """See the port."""
        for at, replication in self._replications().items():
            archived = self._syncs.setdefault(at, [])
            for sync in replication.syncs[len(archived) :]:
                numbered = replace(sync, log_offset=self._end)
                self._end += 1
                archived.append(numbered)
                self._history(at).append(numbered)

    def log_end(self) -> int:
        """See the port."""
        return self._end

    def _history(self, partition: TopicPartition) -> SyncHistory:
        return self._histories.setdefault(partition, SyncHistory())

    def history(self, partition: TopicPartition) -> SyncHistory | None:
        """See the port."""
        return self._histories.get(partition)

    def observe(self, partition: TopicPartition, pair: PartitionPair) -> EpochEnd | None:
        """See the port."""
        return self._history(partition).observe(pair)

    def all_of(self, partition: TopicPartition) -> Sequence[Sync]:
        """See the port."""
        return self._syncs.get(partition, ())

    def close(self) -> None:
        """See the port."""


@dataclass(slots=True)
class MemoryPositions:
    """`groupshift.links.proven_positions.ProvenPositions`; ``writes`` counts positions that were written."""

    fuse: Fuse
    rows: dict[PositionKey, ProvenPosition] = field(default_factory=dict)
    writes: int = 0

    def prepare(self) -> None:
        """See the port."""

    def write(self, positions: Mapping[PositionKey, ProvenPosition]) -> None:
        """See the port."""
        for key, each in positions.items():
            self.fuse.burn()
            self.rows[key] = each
            self.writes += 1

    def forget(self, keys: Collection[PositionKey]) -> None:
        """See the port."""
        for key in keys:
            self.rows.pop(key, None)

    def read(self) -> PositionsRead:
        """See the port."""
        return PositionsRead(positions=dict(self.rows))


@dataclass(slots=True)
class MemoryTail:
    """`groupshift.links.ports.CommitTail`: gives what `LinkWorld.commit` added, or ``batches`` of a test."""

    commits: list[tuple[GroupPartition, int]] = field(default_factory=list)
    behind_ms: int = 0

    def poll(self, _timeout_s: float) -> TailBatch:
        """See the port."""
        batch = TailBatch(commits=tuple(self.commits), behind_ms=self.behind_ms)
        self.commits.clear()
        return batch

    def close(self) -> None:
        """See the port."""


class LinkWorld:
    """A topic ``orders`` of some partitions on the source, replicated over ``link``.

    ``replications`` are its partitions; more keyword arguments are those of each `Replication`."""

    def __init__(self, link: Link, *, partitions: int = 1, **options: Any) -> None:
        self.link, self.clock, self.fuse, self.tail = link, ManualClock(), Fuse(), MemoryTail()
        self.replications = [Replication(**options) for _ in range(partitions)]
        self.topic, copy = "orders", link.target_topic("orders").topic
        self.copy = copy or ""
        self.gone: set[str] = set()
        """Topics that were deleted and not made anew."""
        self.source = MemorySide(
            name="cluster-s",
            partitions=lambda: self._logs(self.topic, lambda one: one.source),
            fuse=self.fuse,
        )
        self.target = MemorySide(
            name="cluster-t", partitions=lambda: self._logs(self.copy, lambda one: one.target), fuse=self.fuse
        )
        topics = link.internal_topics
        if topics:
            self.source.internal.add(topics.offset_syncs)
        self.syncs: LinkSyncs = NoSyncs()
        if topics:
            self.syncs = MemorySyncs(
                lambda: {TopicPartition(self.topic, at): one for at, one in enumerate(self.replications)}
            )
        self.positions = MemoryPositions(self.fuse)

    def _logs(
        self, topic: str, side: Callable[[Replication], SimulatedLog]
    ) -> Mapping[TopicPartition, SimulatedLog]:
        if topic in self.gone:
            return {}
        return {TopicPartition(topic, at): side(one) for at, one in enumerate(self.replications)}

    @property
    def opened(self) -> OpenLink:
        """The link with its ports."""
        return self.open()

    def open(self, crash: StepCrashPoints | None = None) -> OpenLink:
        """The same, with crash points."""
        return OpenLink(
            crash=crash or NoStepCrash(),
            link=self.link,
            source=self.source,
            target=self.target,
            syncs=self.syncs,
            positions=self.positions,
            clock=self.clock,
        )

    def fill(self, records: int) -> None:
        """Produce so many records in each partition, and copy them all."""
        for replication in self.replications:
            for _ in range(records):
                replication.produce(b"%d" % replication.source.end)
        self.settle()

    def settle(self) -> None:
        """Bring replication to rest."""
        for replication in self.replications:
            replication.settle()

    def commit(self, group: str, partition: int, offset: int, metadata: str = "") -> None:
        """Commit on the source as a consumer does."""
        at = TopicPartition(self.topic, partition)
        self.source.commit_as_client(group, at, offset, metadata)
        self.tail.commits.append((GroupPartition(group, at), self.clock.now_ms()))

    def at_target(self, partition: int) -> TopicPartition:
        """The copy of a partition."""
        return TopicPartition(self.copy, partition)

    def offset(self, group: str, partition: int = 0) -> int | None:
        """The group's commit on the target; None: none."""
        members = self.target.members.get(group)
        row = members.offsets.get(self.at_target(partition)) if members else None
        return row.offset if row else None

    def lost(self) -> int:
        """Records that no group would ever get on the target, over all groups that have an offset there."""
        lost = 0
        for group, of in self.source.members.items():
            for at, row in of.offsets.items():
                x = self.offset(group, at.partition)
                lost += 0 if x is None else self.replications[at.partition].lost(x, row.offset)
        return lost
