"""All groups of a cluster at one moment, as rows: the one schema of live snapshots and decoded logs.

Each class is a table of `groupshift.domain.evidence`; its fields are the table's columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

from groupshift.domain.commit_places import Topics
from groupshift.domain.partitions import TopicPartition

GONE = "Dead"
"""The state of a group that its coordinator does not know."""


class ReadFrom(StrEnum):
    """Where a cluster snapshot reads groups."""

    KAFKA = "kafka"
    """From their Kafka coordinators."""
    ZOOKEEPER = "zookeeper"
    """From their nodes in ZooKeeper, whoever coordinates them."""
    IN_FORCE = "in-force"
    """Each from whoever coordinates it now: Kafka in effective mode kafka and where ZooKeeper does not know
    the group, else ZooKeeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """``type`` is classic, consumer, share, streams, zookeeper (read there, not from Kafka), or empty where
    the brokers tell none (before 3.8) and nothing else does; ``generation`` is the group epoch of a consumer
    group and unknown (None) of a classic one, which only the log tells; ``coordinator`` is a node id."""

    group: str
    type: str
    state: str
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int | None = None
    assignment_epoch: int | None = None
    coordinator: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """``member_epoch`` and ``member_type`` (classic, consumer, streams) only of members of consumer and
    streams groups; in ZooKeeper ``member_type`` is old or aware, and ``client_id`` unknown (None)."""

    group: str
    member_id: str
    client_id: str | None
    instance_id: str | None = None
    host: str | None = None
    member_epoch: int | None = None
    member_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """A topic, or a regular expression of a consumer group's member, written ``~expression``."""

    group: str
    member_id: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRow:
    """A partition that a member has now (not one that it is still to be given)."""

    group: str
    member_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """A committed offset in one store: next offset to read, leader epoch (None: not committed with one) and
    metadata exactly as stored (UTF-8 on the wire; a trailing NUL stays); in ZooKeeper there is neither.

    ``topic_id`` is the id of the topic that it belongs to, ``former`` for one that is gone, None where that
    is not known (brokers before 4.1): no part of what was committed, so two rows may be equal without it."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str | None = None
    topic_id: str | None = field(default=None, compare=False)

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    def of_topic(self, topic_id: str) -> OffsetRow:
        """Return it with the id of its topic; `dataclasses.replace` takes twice as long."""
        return OffsetRow(
            group=self.group,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            topic_id=topic_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndRow:
    """Log start and log end offset at the leader, read after all committed offsets, and its leader epoch (-1:
    not told), which no snapshot keeps."""

    topic: str
    partition: int
    log_start: int
    log_end: int
    leader_epoch: int = field(default=-1, compare=False)

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker with the number of groups that it lists and of those that it coordinates."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    groups_listed: int = 0
    groups_coordinated: int = 0


INCOMPLETE = ("the earlier snapshot is not complete", "the later snapshot is not complete")
"""What a comparison says first of a snapshot whose reading had problems."""
LISTED_TOO = " too, but coordinated by "
"""What a problem of a group that two brokers list says, and no other one."""


LEFT_OVER = " does not exist (any more), and no member reads it: "
"""What a problem of committed offsets that are left of a topic says, and no other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    """What could not be read, or contradicts itself; ``group`` is None where it concerns no single one."""

    group: str | None = None
    problem: str

    @property
    def of_listing(self) -> bool:
        """Whether it says that a broker lists what another one coordinates: its offsets were told."""
        return LISTED_TOO in self.problem and LISTED_TOO not in (self.group or "")

    @property
    def of_leftover(self) -> bool:
        """Whether it only names committed offsets of a topic that is gone and that no member reads: all was
        told, and nothing of it moves."""
        return LEFT_OVER in self.problem and LEFT_OVER not in (self.group or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What coordinators answer of the offsets of groups, and what they do not; with a problem about a group
    its rows are not complete."""

    offsets: Sequence[OffsetRow] = ()
    problems: Sequence[ProblemRow] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A live snapshot, taken from ``taken_at_ms`` (epoch) on; rows in the order of their tables' keys.

    ``requests`` is how many requests to brokers it took; ``topics`` what the brokers tell of the topics of
    the offsets, where they were asked. With a problem about a group its rows are not complete."""

    cluster_id: str
    taken_at_ms: int
    topics: Topics = field(default_factory=Topics)
    read_from: ReadFrom = ReadFrom.KAFKA
    requests: int = 0
    groups: Sequence[GroupRow] = ()
    members: Sequence[MemberRow] = ()
    subscriptions: Sequence[SubscriptionRow] = ()
    assignments: Sequence[AssignmentRow] = ()
    offsets: Sequence[OffsetRow] = ()
    log_ends: Sequence[LogEndRow] = ()
    brokers: Sequence[BrokerRow] = ()
    problems: Sequence[ProblemRow] = ()

    def tables(self) -> Mapping[str, Sequence[Any]]:
        """Rows by the name of their table."""
        return {name: getattr(self, name) for name in ROWS}

    @property
    def read_topics(self) -> frozenset[str]:
        """Every topic that a member subscribes to or has a partition of."""
        return frozenset(row.topic for rows in (self.subscriptions, self.assignments) for row in rows)

    @property
    def committed_topics(self) -> frozenset[str]:
        """Every topic with a committed offset."""
        return frozenset(row.topic for row in self.offsets)


ROWS: Mapping[str, type] = {
    table: get_args(kind)[0]
    for table, kind in get_type_hints(ClusterState).items()
    if get_origin(kind) is Sequence
}
"""What a live snapshot can know of each table, whether it has rows or not: the class of its rows."""
