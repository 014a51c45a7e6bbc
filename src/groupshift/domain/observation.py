"""From what ZooKeeper and Kafka answer about a group to one `GroupView`, or to rows of a cluster snapshot.

`merge` joins the halves of both systems. `view_of` joins one group's `ProtocolView` and a live snapshot of
it. Groups that ZooKeeper coordinates become rows of the one schema of cluster snapshots: ZooKeeper knows no
group type, protocol, generation, leader epoch or metadata; what it does not know is null.

Source: docs/reference/zookeeper-coordination.md §§1, 3, 6, 8.10 (F6, F7), 8.9 (D11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from groupshift.domain.foreign_json import shown
from groupshift.domain.group import (
    CommittedOffset,
    GroupView,
    KafkaGroup,
    KafkaMember,
    LogEnd,
    Member,
    NoOffset,
    Owner,
)
from groupshift.domain.group_protocol import Kind, Protocol, ProtocolMember, ProtocolView
from groupshift.domain.modes import ABSENT_MODE, MemberKind, Mode, ModeNode, effective_mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Pattern, Registration
from groupshift.domain.rows import (
    GONE,
    AssignmentRow,
    ClusterState,
    GroupRow,
    MemberRow,
    OffsetRow,
    ProblemRow,
    SubscriptionRow,
)
from groupshift.domain.topic_filter import compile_filter
from groupshift.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperSide:
    """What ZooKeeper holds of one group: ``members`` are one per child of ``ids`` (OLD or AWARE).

    ``ids_pzxid`` is that of ``ids`` (-1 when absent).
    ``exists`` is True when ``/consumers/<g>`` was there; False only when its parent answered.
    """

    exists: bool
    mode: ModeNode = ABSENT_MODE
    ids: tuple[str, ...] = ()
    migration_ids: tuple[str, ...] = ()
    ids_pzxid: int = -1
    members: tuple[Member, ...] = ()
    owners: tuple[Owner, ...] = ()
    offsets: tuple[CommittedOffset, ...] = ()
    no_offsets: tuple[NoOffset, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def every_problem(self) -> tuple[str, ...]:
        """With the nodes that hold no offset, whether anybody reads them or not."""
        return (*self.problems, *(each.problem for each in self.no_offsets))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSide:
    """What the brokers answer: the group, the topics its members asked for, its committed offsets.

    ``subscriptions`` maps a Kafka member id to its topics (only members whose bytes could be read);
    ``topics`` maps every topic of the cluster to its number of partitions; ``brokers`` are those met.
    """

    group: KafkaGroup
    subscriptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    offsets: tuple[CommittedOffset, ...] = ()
    problems: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Log ends of the group's partitions, and the offsets of those that the first answer left out."""

    log_ends: tuple[LogEnd, ...] = ()
    offsets: tuple[CommittedOffset, ...] = ()
    problems: tuple[str, ...] = ()


def plain_members(zookeeper: ZookeeperSide, kafka: KafkaSide) -> tuple[Member, ...]:
    """Kafka members whose client id is no child of ``migration/ids`` (D11), sorted by member id."""
    aware = set(zookeeper.migration_ids)
    plain = [member for member in kafka.group.members if member.client_id not in aware]
    return tuple(
        _plain(member, kafka.subscriptions.get(member.member_id, ()))
        for member in sorted(plain, key=lambda member: member.member_id)
    )


def _plain(member: KafkaMember, topics: tuple[str, ...]) -> Member:
    named = topics or tuple(sorted({partition.topic for partition in member.assignment}))
    return Member(
        member_id=member.member_id,
        kind=MemberKind.PLAIN,
        client_id=member.client_id,
        host=member.host,
        subscription=tuple((topic, 1) for topic in sorted(named)),
    )


def topics_of_group(zookeeper: ZookeeperSide, kafka: KafkaSide) -> tuple[str, ...]:
    """The topics the members subscribe to; with no member those owned; else those with offsets."""
    subscribed = {topic for member in _everyone(zookeeper, kafka) for topic in _topics(member, kafka.topics)}
    owned = {owner.partition.topic for owner in zookeeper.owners}
    committed = {at.partition.topic for at in (*zookeeper.offsets, *kafka.offsets)}
    committed |= {at.partition.topic for at in zookeeper.no_offsets}
    return tuple(sorted(subscribed or owned or committed))


def _topics(member: Member, known: Mapping[str, int]) -> tuple[str, ...]:
    registration = Registration(subscription=member.subscription, pattern=Pattern(member.pattern))
    try:
        return tuple(registration.topics(known))
    except Rejected:
        return ()


def partitions_of(topics: tuple[str, ...], counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """All partitions of those of ``topics`` that the brokers know, sorted."""
    return tuple(
        TopicPartition(topic, number) for topic in sorted(topics) for number in range(counts.get(topic, 0))
    )


def merge(
    group: str, taken_at_ms: int, zookeeper: ZookeeperSide, kafka: KafkaSide, positions: Positions
) -> GroupView:
    """One view of both halves; an aware member and the Kafka member of its client id are one. A node without
    an offset is a problem where somebody reads the partition, and else a leftover."""
    view = GroupView(
        group=group,
        taken_at_ms=taken_at_ms,
        exists=zookeeper.exists or kafka.group.state != "Dead" or bool(kafka.offsets),
        mode=zookeeper.mode,
        ids=zookeeper.ids,
        migration_ids=zookeeper.migration_ids,
        ids_pzxid=zookeeper.ids_pzxid,
        members=_members(zookeeper, kafka),
        owners=zookeeper.owners,
        kafka=kafka.group,
        zookeeper_offsets=zookeeper.offsets,
        kafka_offsets=tuple(sorted((*kafka.offsets, *positions.offsets), key=lambda at: at.partition)),
        no_offsets=zookeeper.no_offsets,
        log_ends=positions.log_ends,
        brokers=kafka.brokers,
        problems=(
            *zookeeper.problems,
            *kafka.problems,
            *positions.problems,
            *_filter_problems(group, zookeeper),
            *_topic_problems(zookeeper, kafka),
        ),
    )
    unread = frozenset(view.leftovers)
    missing = [each.problem for each in view.no_offsets if each.partition not in unread]
    return replace(view, problems=(*view.problems, *missing))


def _filter_problems(group: str, zookeeper: ZookeeperSide) -> Iterator[str]:
    for member in zookeeper.members:
        for text, _ in member.subscription if member.pattern != Pattern.STATIC else ():
            try:
                compile_filter(text)
            except Rejected as wrong:
                node = f"/consumers/{group}/ids/{member.member_id}"
                yield (
                    f"member {member.member_id} ({node}) subscribes by the pattern {shown(text)}, which "
                    f"cannot be evaluated ({wrong}): which topics it wants is unknown; restart it with "
                    "another one"
                )


def _topic_problems(zookeeper: ZookeeperSide, kafka: KafkaSide) -> Iterator[str]:
    """Topics that members subscribe to and partitions that they own, and the brokers do not know. Offsets of
    such are leftovers, and no problem (`GroupView.leftovers`)."""
    for member in _everyone(zookeeper, kafka):
        for topic in _topics(member, kafka.topics):
            if topic not in kafka.topics:
                yield (
                    f"member {member.member_id} subscribes to topic {topic!r}, which the brokers do not "
                    "know: create the topic or restart the member without it"
                )
    unknown = Counter(
        at.partition.topic
        for at in zookeeper.owners
        if at.partition.partition >= kafka.topics.get(at.partition.topic, 0)
    )
    for topic, count in sorted(unknown.items()):  # of living sessions: stop the member, never delete the node
        yield (
            f"{count} owner nodes in ZooKeeper are of topic {topic!r}, of which the brokers know "
            f"{kafka.topics.get(topic, 0)} partitions: stop the members that own them or restore the topic"
        )


def _everyone(zookeeper: ZookeeperSide, kafka: KafkaSide) -> tuple[Member, ...]:
    return (*zookeeper.members, *plain_members(zookeeper, kafka))


def _members(zookeeper: ZookeeperSide, kafka: KafkaSide) -> tuple[Member, ...]:
    by_client = {member.client_id: member for member in kafka.group.members}
    registered = (
        replace(member, client_id=member.member_id, host=by_client[member.member_id].host)
        if member.kind is MemberKind.AWARE and member.member_id in by_client
        else member
        for member in zookeeper.members
    )
    everyone = (*registered, *plain_members(zookeeper, kafka))
    return tuple(sorted(everyone, key=lambda member: member.member_id))


def view_of(look: ProtocolView, state: ClusterState | None) -> GroupView:
    """``state`` is a snapshot of this group alone; None where the group is none that moves.

    A member whose protocol the coordinator does not tell (3.9) is taken for a native one: only groups of
    type consumer have such."""
    group = look.group
    return GroupView(
        group=group.group,
        taken_at_ms=look.taken_at_ms,
        exists=group.kind is not Kind.ABSENT,
        mode=ABSENT_MODE,
        members=tuple(sorted((_member(each) for each in group.members), key=lambda each: each.member_id)),
        kafka=KafkaGroup(
            state=group.state,
            protocol=group.protocol,
            members=tuple(
                KafkaMember(
                    member_id=member.member_id,
                    client_id=member.client_id,
                    host=member.host,
                    assignment=member.assigned,
                )
                for member in sorted(group.members, key=lambda each: each.member_id)
            ),
        ),
        kafka_offsets=_offsets(state),
        log_ends=_log_ends(look, state),
        problems=tuple(each.problem for each in state.problems if not each.of_leftover) if state else (),
        brokers=tuple(str(broker.node_id) for broker in look.brokers),
        protocol=look,
        snapshot=state,
    )


def _member(member: ProtocolMember) -> Member:
    topics = member.topics or tuple(sorted({at.topic for at in member.assigned}))
    return Member(
        member_id=member.member_id,
        kind=MemberKind.PLAIN if member.speaks is Protocol.CLASSIC else MemberKind.NATIVE,
        client_id=member.client_id,
        host=member.host,
        subscription=tuple((topic, 1) for topic in sorted(topics)),
    )


def _offsets(state: ClusterState | None) -> tuple[CommittedOffset, ...]:
    rows = state.offsets if state else ()
    found = (
        CommittedOffset(
            partition=TopicPartition(row.topic, row.partition), offset=row.offset, metadata=row.metadata or ""
        )
        for row in rows
        if row.offset >= 0
    )
    return tuple(sorted(found, key=lambda at: at.partition))


def _log_ends(look: ProtocolView, state: ClusterState | None) -> tuple[LogEnd, ...]:
    """Of the topics that members subscribe to or have; with no member, of those with offsets. A topic that
    was consumed once is nobody's, and is not looked at."""
    members = look.group.members
    wanted = {topic for member in members for topic in member.topics}
    wanted |= {at.topic for member in members for at in member.assigned}
    rows = [row for row in (state.log_ends if state else ()) if not wanted or row.topic in wanted]
    return tuple(
        LogEnd(partition=TopicPartition(row.topic, row.partition), start=row.log_start, end=row.log_end)
        for row in rows
    )


ZOOKEEPER = "zookeeper"
"""The type of a group that ZooKeeper coordinates."""


@dataclass(slots=True, kw_only=True)
class ZookeeperRows:
    """Rows by table; see `groupshift.domain.rows`."""

    groups: list[GroupRow] = field(default_factory=list)
    members: list[MemberRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    assignments: list[AssignmentRow] = field(default_factory=list)
    offsets: list[OffsetRow] = field(default_factory=list)
    problems: list[ProblemRow] = field(default_factory=list)

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that a group commits, owns or subscribes to."""
        return frozenset(
            row.topic for rows in (self.subscriptions, self.assignments, self.offsets) for row in rows
        )

    @property
    def unread(self) -> frozenset[str]:
        """Those of them that no member subscribes to or owns."""
        read = {row.topic for rows in (self.subscriptions, self.assignments) for row in rows}
        return self.topics - read


def coordinated_by_zookeeper(side: ZookeeperSide) -> bool:
    """Whether ZooKeeper knows the group and decides who owns what in it now (§8.3)."""
    mode = effective_mode(side.mode, side.ids, side.migration_ids)
    return side.exists and mode is Mode.ZOOKEEPER


def zookeeper_rows(sides: Mapping[str, ZookeeperSide], known: Collection[str]) -> ZookeeperRows:
    """The rows of these groups, in the order of their keys; an absent one is a group that is `GONE`.

    ``known`` are the topics of the cluster, over which a wildcard subscription is expanded."""
    rows = ZookeeperRows()
    for group, side in sorted(sides.items()):
        state = ("Stable" if side.members else "Empty") if side.exists else GONE
        rows.groups.append(GroupRow(group=group, type=ZOOKEEPER, state=state))
        _member_rows(rows, group, side, known)
        rows.assignments += sorted(
            (
                AssignmentRow(
                    group=group,
                    member_id=owner.member_id,
                    topic=owner.partition.topic,
                    partition=owner.partition.partition,
                )
                for owner in side.owners
            ),
            key=lambda row: (row.member_id, row.topic, row.partition),
        )
        rows.offsets += [
            OffsetRow(
                group=group, topic=at.partition.topic, partition=at.partition.partition, offset=at.offset
            )
            for at in sorted(side.offsets, key=lambda at: at.partition)
        ]
        rows.problems += [ProblemRow(group=group, problem=text) for text in side.every_problem]
    return rows


def _member_rows(rows: ZookeeperRows, group: str, side: ZookeeperSide, known: Collection[str]) -> None:
    for member in sorted(side.members, key=lambda member: member.member_id):
        rows.members.append(
            MemberRow(
                group=group,
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.host,
                member_type=member.kind.value,
            )
        )
        registration = Registration(subscription=member.subscription, pattern=Pattern(member.pattern))
        try:
            topics = sorted(registration.topics(known))
        except Rejected as wrong:
            text = (
                f"member {member.member_id} of group {group!r} subscribes by a pattern that cannot be "
                f"evaluated ({wrong}): which topics it wants is unknown; restart it with another one"
            )
            rows.problems.append(ProblemRow(group=group, problem=text))
            continue
        rows.subscriptions += [
            SubscriptionRow(group=group, member_id=member.member_id, topic=topic) for topic in topics
        ]
