"""A consumer group at one moment, in ZooKeeper and at the Kafka coordinator together; its aspects.

The aspects are what an approval is valid for: if any of them changes, the approval is void. Offsets and
assignment are none: they change while a group lives.

`merge` joins what ZooKeeper and what Kafka answers about a group. `view_of` joins one group's `ProtocolView`
and a live snapshot of it. Groups that ZooKeeper coordinates become rows of the one schema of cluster
snapshots: ZooKeeper knows no group type, protocol, generation, leader epoch or metadata; what it does not
know is null.

Source: docs/reference/zookeeper-coordination.md §§1, 3, 6, 8.10 (F6, F7), 8.9 (D11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from groupshift.domain.foreign_json import shown
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember, Kind, Protocol, ProtocolView
from groupshift.domain.modes import ABSENT_MODE, MemberKind, Mode, ModeNode, effective_mode
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.registration import Awareness, Pattern, Registration
from groupshift.domain.rows import (
    GONE,
    AssignmentRow,
    ClusterState,
    GroupRow,
    LogEndRow,
    MemberRow,
    OffsetRow,
    ProblemRow,
    SubscriptionRow,
)
from groupshift.domain.topic_filter import compile_filter
from groupshift.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Awareness):
    """One member, with what it published.

    ``member_id`` is the ``<cid>`` (old, aware) or Kafka's member id (plain, native).

    ``client_id`` is the Kafka client id (``<cid>`` for the embedded consumer of an aware member);
    ``subscription`` is (topic or pattern, streams) pairs, sorted; what only an aware member publishes
    (F6) is None of any other; ``session_id`` is its ZooKeeper session.
    """

    member_id: str
    kind: MemberKind
    client_id: str | None = None
    host: str | None = None
    pattern: str = "static"
    subscription: tuple[tuple[str, int], ...] = ()
    session_id: int | None = None

    def topics(self, known: Collection[str]) -> dict[str, int]:
        """Topic → streams; a wildcard is expanded over the ``known`` topics. Raises `Rejected` for one that
        cannot be evaluated."""
        if self.pattern == Pattern.STATIC:
            return dict(self.subscription)
        return Registration(subscription=self.subscription, pattern=Pattern(self.pattern)).topics(known)


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
class NoOffset:
    """An offset node of ZooKeeper that holds no offset: what it holds, as shown, and a sentence about it."""

    partition: TopicPartition
    held: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class GroupView:
    """One group at ``taken_at_ms`` (epoch): everything assess, gates, sensors and snapshots read.

    What ZooKeeper and what Kafka answers is a view, too, in which only that half is filled
    (`groupshift.domain.group.merge` joins them).
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
    zookeeper_offsets: tuple[OffsetRow, ...] = ()
    kafka_offsets: tuple[OffsetRow, ...] = ()
    log_ends: tuple[LogEndRow, ...] = ()
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

    @cached_property
    def ends(self) -> dict[TopicPartition, LogEndRow]:
        """Log start and end by partition."""
        return {end.at: end for end in self.log_ends}

    @cached_property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions of the group's topics, from the brokers."""
        return frozenset(self.ends)

    @cached_property
    def stores(self) -> dict[str, dict[TopicPartition, int]]:
        """The committed offset of each partition by the store that has it: ``ZooKeeper`` and ``Kafka``."""
        both = {"ZooKeeper": self.zookeeper_offsets, "Kafka": self.kafka_offsets}
        return {store: {row.at: row.offset for row in offsets} for store, offsets in both.items()}

    @cached_property
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
        unread = {at.partition for at in self.no_offsets}.union(*self.stores.values()) - read - owned
        return tuple(sorted(at for at in unread if at.topic not in wanted))

    def of_kind(self, kind: MemberKind) -> tuple[Member, ...]:
        """The members of one kind, in order of member id."""
        return tuple(member for member in self.members if member.kind is kind)

    @property
    def of_kafka(self) -> tuple[Member, ...]:
        """The members that the Kafka coordinator alone knows: plain and native ones."""
        return tuple(m for m in self.members if m.kind is MemberKind.PLAIN or m.kind is MemberKind.NATIVE)

    @property
    def of_zookeeper(self) -> tuple[Member, ...]:
        """The members that ZooKeeper knows."""
        return tuple(member for member in self.members if member.kind is not MemberKind.PLAIN)

    @property
    def assigned_by_kafka(self) -> list[tuple[TopicPartition, KafkaMember]]:
        """Partitions without an owner node: what the coordinator assigned to members that it alone knows."""
        alone = {member.member_id for member in self.of_kafka}
        members = (member for member in self.kafka.members if member.member_id in alone)
        return [(partition, member) for member in members for partition in member.assigned]

    @cached_property
    def owners_by_partition(self) -> dict[TopicPartition, tuple[str, ...]]:
        """Member ids owning each partition now: owner nodes, and Kafka assignments of members that
        the coordinator alone knows."""
        known = [(owner.partition, owner.member_id) for owner in self.owners]
        known += [(partition, member.member_id) for partition, member in self.assigned_by_kafka]
        owned: dict[TopicPartition, tuple[str, ...]] = dict.fromkeys(sorted(self.partitions), ())
        return owned | {partition: tuple(ids) for partition, ids in grouped(known).items()}


def aspects(view: GroupView) -> dict[str, dict[str, str]]:
    """What an approval is given for: aspect → item → value, all texts, comparable item by item."""
    topics = Counter(partition.topic for partition in view.partitions)
    return {
        "members": {m.member_id: f"{m.kind} {m.version or 'unversioned'}" for m in view.members},
        "subscriptions": {
            m.member_id: f"{m.pattern} {','.join(f'{topic}:{n}' for topic, n in m.subscription)}"
            for m in view.members
        },
        "partitions": {topic: str(count) for topic, count in sorted(topics.items())},
        "mode": {"node": f"{view.mode.requested if view.mode.data else 'absent'} {view.mode.identity}"},
    }


def _kafka_member(member: KafkaMember, kind: MemberKind) -> Member:
    """A member that only Kafka knows; one whose subscription is not known wants what it holds."""
    topics = member.topics or {at.topic for at in member.assigned}
    return Member(
        member_id=member.member_id,
        kind=kind,
        client_id=member.client_id,
        host=member.host,
        subscription=tuple((topic, 1) for topic in sorted(topics)),
    )


def _everyone(zookeeper: GroupView, kafka: GroupView) -> tuple[Member, ...]:
    """Members of ZooKeeper, and Kafka's whose client id is no child of ``migration/ids`` (D11)."""
    plain = [each for each in kafka.kafka.members if each.client_id not in zookeeper.migration_ids]
    plain.sort(key=lambda member: member.member_id)
    return (*zookeeper.members, *(_kafka_member(member, MemberKind.PLAIN) for member in plain))


def _topics(member: Member, known: Collection[str]) -> tuple[str, ...]:
    """None where the pattern cannot be evaluated: `_unread_patterns` says so."""
    try:
        return tuple(member.topics(known))
    except Rejected:
        return ()


def topics_of_group(zookeeper: GroupView, kafka: GroupView) -> tuple[str, ...]:
    """The topics the members subscribe to; with no member those owned; else those with offsets."""
    subscribed = {topic for member in _everyone(zookeeper, kafka) for topic in _topics(member, kafka.topics)}
    owned = {owner.partition.topic for owner in zookeeper.owners}
    if subscribed or owned:
        return tuple(sorted(subscribed or owned))
    committed = {row.topic for row in (*zookeeper.zookeeper_offsets, *kafka.kafka_offsets)}
    return tuple(sorted(committed.union(at.partition.topic for at in zookeeper.no_offsets)))


def partitions_of(topics: tuple[str, ...], counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """All partitions of those of ``topics`` that the brokers know, sorted."""
    return tuple(
        TopicPartition(topic, number) for topic in sorted(topics) for number in range(counts.get(topic, 0))
    )


def merge(taken_at_ms: int, zookeeper: GroupView, kafka: GroupView) -> GroupView:
    """One view of both halves; an aware member and the Kafka member of its client id are one. A node without
    an offset is a problem where somebody reads the partition, and else a leftover."""
    by_client = {member.client_id: member for member in kafka.kafka.members}
    members = [
        replace(member, client_id=member.member_id, host=by_client[member.member_id].host)
        if member.kind is MemberKind.AWARE and member.member_id in by_client
        else member
        for member in _everyone(zookeeper, kafka)
    ]
    view = replace(
        zookeeper,
        taken_at_ms=taken_at_ms,
        exists=zookeeper.exists or kafka.kafka.state != GONE or bool(kafka.kafka_offsets),
        members=tuple(sorted(members, key=lambda member: member.member_id)),
        kafka=kafka.kafka,
        kafka_offsets=tuple(sorted(kafka.kafka_offsets, key=lambda row: row.at)),
        log_ends=kafka.log_ends,
        brokers=kafka.brokers,
    )
    unread = frozenset(view.leftovers if view.no_offsets else ())
    problems = (
        *zookeeper.problems,
        *kafka.problems,
        *_unread_patterns(zookeeper),
        *_topic_problems(zookeeper, kafka),
        *(each.problem for each in view.no_offsets if each.partition not in unread),
    )
    return view if problems == view.problems else replace(view, problems=problems)


def _unread_patterns(zookeeper: GroupView) -> Iterator[str]:
    for member in zookeeper.members:
        for text, _ in member.subscription if member.pattern != Pattern.STATIC else ():
            try:
                compile_filter(text)
            except Rejected as wrong:
                node = f"/consumers/{zookeeper.group}/ids/{member.member_id}"
                yield (
                    f"member {member.member_id} ({node}) subscribes by the pattern {shown(text)}, which "
                    f"cannot be evaluated ({wrong}): which topics it wants is unknown; restart it with "
                    "another one"
                )


def _topic_problems(zookeeper: GroupView, kafka: GroupView) -> Iterator[str]:
    """Topics that members subscribe to and partitions that they own, and the brokers do not know. Offsets of
    such are leftovers, and no problem (`GroupView.leftovers`)."""
    for member in _everyone(zookeeper, kafka):
        for topic in _topics(member, kafka.topics):
            if topic not in kafka.topics:
                yield (
                    f"member {member.member_id} subscribes to topic {topic!r}, which the brokers do not "
                    "know: create the topic or restart the member without it"
                )
    owned = (owner.partition for owner in zookeeper.owners)
    unknown = Counter(at.topic for at in owned if at.partition >= kafka.topics.get(at.topic, 0))
    for topic, count in sorted(unknown.items()):  # of living sessions: stop the member, never delete the node
        yield (
            f"{count} owner nodes in ZooKeeper are of topic {topic!r}, of which the brokers know "
            f"{kafka.topics.get(topic, 0)} partitions: stop the members that own them or restore the topic"
        )


def view_of(look: ProtocolView, state: ClusterState | None) -> GroupView:
    """``state`` is a snapshot of this group alone; None where the group is none that moves.

    A member whose protocol the coordinator does not tell (3.9) is taken for a native one: only groups of
    type consumer have such. Log ends are of the topics that members subscribe to or have; with no member, of
    those with offsets: a topic that was consumed once is nobody's."""
    group = look.group
    members = sorted(group.members, key=lambda member: member.member_id)
    wanted = {topic for member in members for topic in member.topics}
    wanted |= {at.topic for member in members for at in member.assigned}
    offsets, ends = (state.offsets, state.log_ends) if state else ((), ())
    return GroupView(
        group=group.group,
        taken_at_ms=look.taken_at_ms,
        exists=group.kind is not Kind.ABSENT,
        members=tuple(
            _kafka_member(each, MemberKind.PLAIN if each.speaks is Protocol.CLASSIC else MemberKind.NATIVE)
            for each in members
        ),
        kafka=replace(group, members=tuple(members)),
        kafka_offsets=tuple(sorted((row for row in offsets if row.offset >= 0), key=lambda row: row.at)),
        log_ends=tuple(row for row in ends if not wanted or row.topic in wanted),
        problems=tuple(each.problem for each in state.problems if not each.of_leftover) if state else (),
        brokers=tuple(str(broker.node_id) for broker in look.brokers),
        protocol=look,
        snapshot=state,
    )


ZOOKEEPER = "zookeeper"
"""The type of a group that ZooKeeper coordinates."""


def zookeeper_rows(state: ClusterState, views: Iterable[GroupView], known: Collection[str]) -> ClusterState:
    """``state`` with what ZooKeeper has of these groups as its rows, in the order of their keys; one that is
    not there is `GONE`.

    ``known`` are the topics of the cluster, over which a wildcard subscription is expanded."""
    changed = ("groups", "members", "subscriptions", "assignments", "offsets", "problems")
    rows: dict[str, Any] = {table: [] for table in changed}
    for view in sorted(views, key=lambda view: view.group):
        group, at_rest = view.group, "Stable" if view.members else "Empty"
        rows["groups"].append(GroupRow(group=group, type=ZOOKEEPER, state=at_rest if view.exists else GONE))
        for member in sorted(view.members, key=lambda member: member.member_id):
            about: dict[str, Any] = {"group": group, "member_id": member.member_id}
            by, kind = member.client_id, member.kind.value
            rows["members"].append(MemberRow(**about, client_id=by, host=member.host, member_type=kind))
            topics = sorted(_topics(member, known))
            rows["subscriptions"] += [SubscriptionRow(**about, topic=each) for each in topics]
        owned = sorted((owner.member_id, *owner.partition) for owner in view.owners)
        rows["assignments"] += [
            AssignmentRow(group=group, member_id=member_id, topic=topic, partition=partition)
            for member_id, topic, partition in owned
        ]
        rows["offsets"] += sorted(view.zookeeper_offsets, key=lambda row: row.at)
        unread = (each.problem for each in view.no_offsets)
        said = (*_unread_patterns(view), *view.problems, *unread)
        rows["problems"] += [ProblemRow(group=group, problem=each) for each in said]
    return replace(state, **rows)
