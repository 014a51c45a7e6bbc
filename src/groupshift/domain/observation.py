"""From what ZooKeeper and Kafka answer about a group to one `GroupView`, or to rows of a cluster snapshot.

`merge` joins the halves of both systems. `view_of` joins one group's `ProtocolView` and a live snapshot of
it. Groups that ZooKeeper coordinates become rows of the one schema of cluster snapshots: ZooKeeper knows no
group type, protocol, generation, leader epoch or metadata; what it does not know is null.

Source: docs/reference/zookeeper-coordination.md §§1, 3, 6, 8.10 (F6, F7), 8.9 (D11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from groupshift.domain.foreign_json import shown
from groupshift.domain.group import CommittedOffset, GroupView, LogEnd, Member
from groupshift.domain.group_protocol import KafkaMember, Kind, Protocol, ProtocolView
from groupshift.domain.modes import MemberKind
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


def _plain_members(zookeeper: GroupView, kafka: GroupView) -> tuple[Member, ...]:
    """Kafka members whose client id is no child of ``migration/ids`` (D11), sorted by member id."""
    aware = set(zookeeper.migration_ids)
    plain = [member for member in kafka.kafka.members if member.client_id not in aware]
    return tuple(
        _kafka_member(member, MemberKind.PLAIN)
        for member in sorted(plain, key=lambda member: member.member_id)
    )


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


def topics_of_group(zookeeper: GroupView, kafka: GroupView) -> tuple[str, ...]:
    """The topics the members subscribe to; with no member those owned; else those with offsets."""
    subscribed = {topic for member in _everyone(zookeeper, kafka) for topic in _topics(member, kafka.topics)}
    owned = {owner.partition.topic for owner in zookeeper.owners}
    committed = {at.partition.topic for at in (*zookeeper.zookeeper_offsets, *kafka.kafka_offsets)}
    committed |= {at.partition.topic for at in zookeeper.no_offsets}
    return tuple(sorted(subscribed or owned or committed))


def _registered(member: Member) -> Registration:
    return Registration(subscription=member.subscription, pattern=Pattern(member.pattern))


def _topics(member: Member, known: Mapping[str, int]) -> tuple[str, ...]:
    try:
        return tuple(_registered(member).topics(known))
    except Rejected:
        return ()


def partitions_of(topics: tuple[str, ...], counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """All partitions of those of ``topics`` that the brokers know, sorted."""
    return tuple(
        TopicPartition(topic, number) for topic in sorted(topics) for number in range(counts.get(topic, 0))
    )


def merge(taken_at_ms: int, zookeeper: GroupView, kafka: GroupView) -> GroupView:
    """One view of both halves; an aware member and the Kafka member of its client id are one. A node without
    an offset is a problem where somebody reads the partition, and else a leftover."""
    view = replace(
        zookeeper,
        taken_at_ms=taken_at_ms,
        exists=zookeeper.exists or kafka.kafka.state != GONE or bool(kafka.kafka_offsets),
        members=_members(zookeeper, kafka),
        kafka=kafka.kafka,
        kafka_offsets=tuple(sorted(kafka.kafka_offsets, key=lambda at: at.partition)),
        log_ends=kafka.log_ends,
        brokers=kafka.brokers,
    )
    unread = frozenset(view.leftovers)
    problems = (
        *zookeeper.problems,
        *kafka.problems,
        *_filter_problems(zookeeper),
        *_topic_problems(zookeeper, kafka),
        *(each.problem for each in view.no_offsets if each.partition not in unread),
    )
    return replace(view, problems=problems)


def _filter_problems(zookeeper: GroupView) -> Iterator[str]:
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


def _everyone(zookeeper: GroupView, kafka: GroupView) -> tuple[Member, ...]:
    return (*zookeeper.members, *_plain_members(zookeeper, kafka))


def _members(zookeeper: GroupView, kafka: GroupView) -> tuple[Member, ...]:
    by_client = {member.client_id: member for member in kafka.kafka.members}
    everyone = (
        replace(member, client_id=member.member_id, host=by_client[member.member_id].host)
        if member.kind is MemberKind.AWARE and member.member_id in by_client
        else member
        for member in _everyone(zookeeper, kafka)
    )
    return tuple(sorted(everyone, key=lambda member: member.member_id))


def view_of(look: ProtocolView, state: ClusterState | None) -> GroupView:
    """``state`` is a snapshot of this group alone; None where the group is none that moves.

    A member whose protocol the coordinator does not tell (3.9) is taken for a native one: only groups of
    type consumer have such."""
    group = look.group
    members = sorted(group.members, key=lambda member: member.member_id)
    rows = state.offsets if state else ()
    committed = (
        CommittedOffset(
            partition=TopicPartition(row.topic, row.partition), offset=row.offset, metadata=row.metadata or ""
        )
        for row in rows
        if row.offset >= 0
    )
    return GroupView(
        group=group.group,
        taken_at_ms=look.taken_at_ms,
        exists=group.kind is not Kind.ABSENT,
        members=tuple(
            _kafka_member(each, MemberKind.PLAIN if each.speaks is Protocol.CLASSIC else MemberKind.NATIVE)
            for each in members
        ),
        kafka=replace(group, members=tuple(members)),
        kafka_offsets=tuple(sorted(committed, key=lambda at: at.partition)),
        log_ends=_log_ends(look, state),
        problems=tuple(each.problem for each in state.problems if not each.of_leftover) if state else (),
        brokers=tuple(str(broker.node_id) for broker in look.brokers),
        protocol=look,
        snapshot=state,
    )


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


def with_nodes(state: ClusterState, views: Iterable[GroupView], known: Collection[str]) -> ClusterState:
    """``state`` with what ZooKeeper has of these groups as its rows, in the order of their keys; one that is
    not there is `GONE`.

    ``known`` are the topics of the cluster, over which a wildcard subscription is expanded."""
    groups: list[GroupRow] = []
    members: list[MemberRow] = []
    subscriptions: list[SubscriptionRow] = []
    assignments: list[AssignmentRow] = []
    offsets: list[OffsetRow] = []
    problems: list[ProblemRow] = []
    for view in sorted(views, key=lambda view: view.group):
        group = view.group
        alive = ("Stable" if view.members else "Empty") if view.exists else GONE
        groups.append(GroupRow(group=group, type=ZOOKEEPER, state=alive))
        for member in sorted(view.members, key=lambda member: member.member_id):
            members.append(
                MemberRow(
                    group=group,
                    member_id=member.member_id,
                    client_id=member.client_id,
                    host=member.host,
                    member_type=member.kind.value,
                )
            )
            topics, said = _expanded(group, member, known)
            problems += said
            subscriptions += [
                SubscriptionRow(group=group, member_id=member.member_id, topic=topic) for topic in topics
            ]
        owned = sorted((owner.member_id, *owner.partition) for owner in view.owners)
        assignments += [
            AssignmentRow(group=group, member_id=member_id, topic=topic, partition=partition)
            for member_id, topic, partition in owned
        ]
        offsets += [
            OffsetRow(
                group=group, topic=at.partition.topic, partition=at.partition.partition, offset=at.offset
            )
            for at in sorted(view.zookeeper_offsets, key=lambda at: at.partition)
        ]
        said_of_nodes = (*view.problems, *(each.problem for each in view.no_offsets))
        problems += [ProblemRow(group=group, problem=text) for text in said_of_nodes]
    return replace(
        state,
        groups=groups,
        members=members,
        subscriptions=subscriptions,
        assignments=assignments,
        offsets=offsets,
        problems=problems,
    )


def _expanded(
    group: str, member: Member, known: Collection[str]
) -> tuple[Iterable[str], tuple[ProblemRow, ...]]:
    """The topics that the member subscribes to, and what is said where they cannot be told."""
    try:
        return sorted(_registered(member).topics(known)), ()
    except Rejected as wrong:
        text = (
            f"member {member.member_id} of group {group!r} subscribes by a pattern that cannot be "
            f"evaluated ({wrong}): which topics it wants is unknown; restart it with another one"
        )
        return (), (ProblemRow(group=group, problem=text),)
