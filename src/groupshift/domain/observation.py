"""The two halves of a group view, as each system answers, and how they become one `GroupView`.

Source: specs/zookeeper-coordination.md §§1, 3, 8.10 (F6, F7), 8.9 (D11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from groupshift.domain.coordination import ABSENT_MODE, MemberKind, ModeNode
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
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Pattern, Registration
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
