"""A consumer group at one moment, in ZooKeeper and at the Kafka coordinator together; its fingerprint.

The fingerprint is what an approval is valid for: if any of it changes, the approval is void. Offsets and
assignment are not in it: they change while a group lives.
Sections are those of docs/reference/zookeeper-coordination.md.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.group_protocol import KafkaGroup, ProtocolView
from groupshift.domain.modes import ABSENT_MODE, MemberKind, Mode, ModeNode, effective_mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member. ``member_id`` is the ``<cid>`` (old, aware) or Kafka's member id (plain, native).

    ``client_id`` is the Kafka client id (``<cid>`` for the embedded consumer of an aware member);
    ``subscription`` is (topic or pattern, streams) pairs, sorted; ``fence``, ``mode`` and
    ``acting_on`` (a `ModeNode.identity`) are what an aware member published (F6), else None;
    ``version`` is the software version it publishes, if any; ``session_id`` its ZooKeeper session.
    """

    member_id: str
    kind: MemberKind
    client_id: str | None = None
    host: str | None = None
    pattern: str = "static"
    subscription: tuple[tuple[str, int], ...] = ()
    fence: int | None = None
    mode: Mode | None = None
    acting_on: str | None = None
    version: str | None = None
    session_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One owner node: ``thread_id`` is its payload; ``czxid`` and ``session_id`` identify it."""

    partition: TopicPartition
    thread_id: str
    czxid: int
    session_id: int

    @property
    def member_id(self) -> str:
        """The ``<cid>`` in the thread id: everything before the last ``-`` (§2)."""
        return self.thread_id.rpartition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset (next offset to read) in one store; ``metadata`` empty in ZooKeeper, and
    ``leader_epoch`` -1 there and where the commit has none."""

    partition: TopicPartition
    offset: int
    metadata: str = ""
    leader_epoch: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOffset:
    """An offset node of ZooKeeper that holds no offset: what it holds, as shown, and a sentence about it."""

    partition: TopicPartition
    held: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Log start and log end offset of a partition at the brokers, and its leader epoch (-1: not told)."""

    partition: TopicPartition
    start: int
    end: int
    leader_epoch: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group at ``taken_at_ms`` (epoch): everything assess, gates, sensors and snapshots read.

    What ZooKeeper and what Kafka answers is a view, too, in which only that half is filled
    (`groupshift.domain.observation.merge` joins them).
    ``exists``: ``/consumers/<g>`` was there, or the coordinator knows it; False only when both answered.
    ``ids_pzxid`` changes with every member that comes to ZooKeeper or leaves it (-1: nobody was ever there).
    ``topics`` are the partition counts of all topics of the cluster, where a reader told them.
    ``protocol`` is the group as a move of the protocol sees it, with every broker, and ``snapshot`` what its
    offsets were taken from; None where only ZooKeeper and the classic protocol were read.
    ``problems`` are sentences about nodes that could not be understood (malformed registration,
    mode node, owner or offset): they are findings, never silently dropped. ``brokers`` say who answered.
    """

    group: str
    taken_at_ms: int = 0
    exists: bool = False
    mode: ModeNode = ABSENT_MODE
    ids: tuple[str, ...] = ()
    migration_ids: tuple[str, ...] = ()
    ids_pzxid: int = -1
    members: tuple[Member, ...] = ()
    owners: tuple[Owner, ...] = ()
    kafka: KafkaGroup = field(default_factory=KafkaGroup)
    zookeeper_offsets: tuple[CommittedOffset, ...] = ()
    kafka_offsets: tuple[CommittedOffset, ...] = ()
    log_ends: tuple[LogEnd, ...] = ()
    no_offsets: tuple[NoOffset, ...] = ()
    problems: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    protocol: ProtocolView | None = None
    snapshot: ClusterState | None = None

    @property
    def effective_mode(self) -> Mode:
        """The mode the members must obey now (§8.3); with no member below ``ids``, the node's. A group that
        was read as one of Kafka's alone is in kafka mode."""
        if self.protocol is not None:
            return Mode.KAFKA
        return effective_mode(self.mode, self.ids, self.migration_ids)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions of the group's topics, from the brokers."""
        return frozenset(end.partition for end in self.log_ends)

    @property
    def leftovers(self) -> tuple[TopicPartition, ...]:
        """Partitions with a committed offset, in either store, that no member reads: nobody subscribes to the
        topic, it was deleted, or it has fewer partitions. They stay as they are, whatever the group does; so
        does a node there that holds no offset.

        A topic that a member names and the brokers do not know is none of these, nor is a partition that
        somebody owns."""
        read = self.partitions
        known = {partition.topic for partition in read}
        wanted = {topic for member in self.members for topic, _ in member.subscription} - known
        owned = {owner.partition for owner in self.owners}
        committed = {at.partition for at in (*self.zookeeper_offsets, *self.kafka_offsets)}
        committed |= {at.partition for at in self.no_offsets}
        return tuple(sorted(at for at in committed - read - owned if at.topic not in wanted))

    @property
    def below_start(self) -> tuple[tuple[CommittedOffset, LogEnd], ...]:
        """The lowest committed offset of each partition whose records there are deleted, and its log. Its
        reader begins where its own ``auto.offset.reset`` says."""
        lowest: dict[TopicPartition, CommittedOffset] = {}
        for at in (*self.zookeeper_offsets, *self.kafka_offsets):
            if at.partition not in lowest or at.offset < lowest[at.partition].offset:
                lowest[at.partition] = at
        return tuple(
            (lowest[end.partition], end)
            for end in sorted(self.log_ends, key=lambda end: end.partition)
            if end.partition in lowest and lowest[end.partition].offset < end.start
        )

    def of_kind(self, kind: MemberKind) -> tuple[Member, ...]:
        """The members of one kind, in order of member id."""
        return tuple(member for member in self.members if member.kind is kind)

    @property
    def of_kafka(self) -> tuple[Member, ...]:
        """The members that the Kafka coordinator alone knows: plain and native ones."""
        return tuple(m for m in self.members if m.kind in {MemberKind.PLAIN, MemberKind.NATIVE})

    def owners_of(self) -> dict[TopicPartition, tuple[str, ...]]:
        """Member ids owning each partition now: owner nodes, and Kafka assignments of members that
        the coordinator alone knows."""
        plain = {member.member_id for member in self.of_kafka}
        owned: dict[TopicPartition, tuple[str, ...]] = dict.fromkeys(sorted(self.partitions), ())
        for owner in self.owners:
            owned[owner.partition] = (*owned.get(owner.partition, ()), owner.member_id)
        for member in self.kafka.members:
            for partition in member.assigned if member.member_id in plain else ():
                owned[partition] = (*owned.get(partition, ()), member.member_id)
        return owned

    def load(self) -> Counter[str]:
        """Partitions owned per member id."""
        return Counter(owner for owners in self.owners_of().values() for owner in owners)


Parts = Mapping[str, Mapping[str, str]]
"""Aspect → item → value, all texts: comparable item by item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """``parts`` hold the aspects members, subscriptions, partitions, mode, plan and evidence."""

    parts: Parts

    @property
    def text(self) -> str:
        """SHA-256 of the canonical JSON of all parts, in hex."""
        canonical = json.dumps(self.parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def changes(self, now: Fingerprint) -> tuple[str, ...]:
        """What differs in ``now``, one clause each; evidence taken since does not count."""
        return changes(self.parts, now.parts)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Fingerprint:
        """The fingerprint whose ``parts`` were journaled."""
        return cls(parts={aspect: dict(items) for aspect, items in data.items()})


def changes(then: Parts, now: Parts) -> tuple[str, ...]:
    """What differs in ``now`` of the aspects of ``then``, one clause each; evidence may grow."""
    return tuple(
        f"{aspect} {item}: {before} is now {today}"
        for aspect, items in then.items()
        for item, before, today in _differences(items, now[aspect], grows=aspect == "evidence")
    )


def _differences(
    then: Mapping[str, str], now: Mapping[str, str], *, grows: bool
) -> list[tuple[str, str, str]]:
    items = sorted(then) if grows else sorted({*then, *now})
    return [
        (item, then.get(item, "absent"), now.get(item, "absent"))
        for item in items
        if then.get(item) != now.get(item)
    ]


def members(view: GroupView) -> dict[str, str]:
    """The aspect ``members``: who is in the group, by id."""
    return {m.member_id: f"{m.kind} {m.version or 'unversioned'}" for m in view.members}


def fingerprint(view: GroupView, plan_hash: str, evidence: Mapping[str, str]) -> Fingerprint:
    """The fingerprint of a group now; ``evidence`` maps ``stage/moment`` to the manifest's digest."""
    return Fingerprint(
        parts={
            "members": members(view),
            "subscriptions": {
                m.member_id: f"{m.pattern} {','.join(f'{topic}:{n}' for topic, n in m.subscription)}"
                for m in view.members
            },
            "partitions": _counts(view.partitions),
            "mode": {"node": f"{view.mode.requested if view.mode.data else 'absent'} {view.mode.identity}"},
            "plan": {"hash": plan_hash},
            "evidence": dict(evidence),
        }
    )


def _counts(partitions: frozenset[TopicPartition]) -> dict[str, str]:
    topics = sorted({partition.topic for partition in partitions})
    return {topic: str(sum(1 for each in partitions if each.topic == topic)) for topic in topics}
