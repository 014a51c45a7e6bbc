"""Rows of one group, and its values for a protocol migration, from what its coordinator answers.

Bytes of classic members are read here: their subscription and what their leader assigned to them.
Source: Apache Kafka, "ConsumerProtocolSubscription.json" (int16 version, array of topic names, nullable
bytes) and "ConsumerProtocolAssignment.json" (int16 version, array of topic name with an array of int32,
nullable bytes); later versions only append.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from groupshift.domain.group_protocol import CONSUMERS, KafkaGroup, KafkaMember, Kind, Protocol
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import (
    AssignmentRow,
    GroupRow,
    LogEndRow,
    MemberRow,
    OffsetRow,
    SubscriptionRow,
)
from groupshift.log.decode import ASSIGNMENT, SUBSCRIPTION, read_blob

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
_CONSUMERS = "consumer"
_MEMBER_TYPES = {0: CLASSIC, 1: CONSUMER}
_NO_EPOCH = -1


@dataclass(slots=True, kw_only=True)
class Described:
    """The rows of a description; ``unread`` are sentences about bytes of members that cannot be read."""

    group: GroupRow
    members: list[MemberRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    assignments: list[AssignmentRow] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def classic_rows(answer: Any, coordinator: int) -> Described:
    """From one group of DescribeGroups. What members subscribe to is read only of consumers: Connect
    and others put bytes of their own there."""
    name = answer.group_id
    row = GroupRow(
        group=name,
        type=CLASSIC,
        state=answer.group_state,
        protocol_type=answer.protocol_type,
        protocol=answer.protocol_data,
        coordinator=coordinator,
    )
    found = Described(group=row)
    for member in sorted(answer.members, key=lambda member: str(member.member_id)):
        found.members.append(_member(name, member, getattr(member, "group_instance_id", None)))
        if answer.protocol_type == _CONSUMERS:
            _classic_rows(found, name, member)
    return found


def _classic_rows(found: Described, group: str, member: Any) -> None:
    try:
        topics = subscribed_topics(bytes(member.member_metadata))
        partitions = sorted(assigned_partitions(bytes(member.member_assignment)))
    except ValueError as wrong:
        found.unread.append(
            f"what Kafka member {member.member_id!r} of group {group!r} consumes cannot be read ({wrong}): "
            "check what client it runs"
        )
        return
    _subscribe(found, member.member_id, topics)
    _assign(found, member.member_id, partitions)


def consumer_rows(answer: Any, coordinator: int) -> Described:
    """From one group of ConsumerGroupDescribe: group epoch as generation, the server's assignor as
    protocol, and what members have now (their target is not yet theirs)."""
    return _epoch_rows(answer, coordinator, CONSUMER)


def share_rows(answer: Any, coordinator: int) -> Described:
    """From one group of ShareGroupDescribe, as `consumer_rows`; several members may have one partition."""
    return _epoch_rows(answer, coordinator, SHARE)


def _epoch_rows(answer: Any, coordinator: int, kind: str) -> Described:
    name = answer.group_id
    found = Described(group=_epoch_group(answer, coordinator, kind, answer.assignor_name))
    for member in sorted(answer.members, key=lambda member: str(member.member_id)):
        speaks = _MEMBER_TYPES.get(int(getattr(member, "member_type", -1)))
        epoch, instance_id = int(member.member_epoch), getattr(member, "instance_id", None)
        found.members.append(_member(name, member, instance_id, member_epoch=epoch, member_type=speaks))
        expression = getattr(member, "subscribed_topic_regex", None)
        topics = {*member.subscribed_topic_names, *([f"~{expression}"] if expression else ())}
        _subscribe(found, member.member_id, sorted(topics))
        assigned = member.assignment.topic_partitions
        _assign(
            found,
            member.member_id,
            sorted((each.topic_name, int(number)) for each in assigned for number in each.partitions),
        )
    return found


def _epoch_group(answer: Any, coordinator: int, kind: str, protocol: str | None = None) -> GroupRow:
    return GroupRow(
        group=answer.group_id,
        type=kind,
        state=answer.group_state,
        protocol_type=kind,
        protocol=protocol,
        generation=int(answer.group_epoch),
        assignment_epoch=int(answer.assignment_epoch),
        coordinator=coordinator,
    )


def streams_rows(answer: Any, coordinator: int) -> Described:
    """From one group of StreamsGroupDescribe (KIP-1071): every member consumes all source and repartition
    topics of the topology; its active task ``p`` of a part of it has partition ``p`` of each topic of that
    part (of those with fewer partitions none: `within_logs`). Standby and warm-up tasks read changelogs."""
    name = answer.group_id
    found = Described(group=_epoch_group(answer, coordinator, STREAMS))
    parts = answer.topology.subtopologies or () if answer.topology else ()
    sources = {part.subtopology_id: _sources(part) for part in parts}
    topics = sorted({topic for named in sources.values() for topic in named})
    for member in sorted(answer.members, key=lambda member: str(member.member_id)):
        epoch, speaks = int(member.member_epoch), CLASSIC if member.is_classic else STREAMS
        found.members.append(
            _member(name, member, member.instance_id, member_epoch=epoch, member_type=speaks)
        )
        _subscribe(found, member.member_id, topics)
        active = {
            (topic, int(number))
            for task in member.assignment.active_tasks
            for topic in sources.get(task.subtopology_id, ())
            for number in task.partitions
        }
        _assign(found, member.member_id, sorted(active))
    return found


def _sources(part: Any) -> tuple[str, ...]:
    return (*part.source_topics, *(each.name for each in part.repartition_source_topics))


def within_logs(rows: Iterable[AssignmentRow], ends: Iterable[LogEndRow]) -> list[AssignmentRow]:
    """The assignments without partitions that a topic, whose log ends are known, does not have: a streams
    task names the partition of the largest of its topics."""
    known = {(end.topic, end.partition) for end in ends}
    topics = {topic for topic, _ in known}
    return [row for row in rows if row.topic not in topics or (row.topic, row.partition) in known]


def _member(group: str, member: Any, instance_id: str | None, **more: Any) -> MemberRow:
    return MemberRow(
        group=group,
        member_id=member.member_id,
        client_id=member.client_id,
        instance_id=instance_id,
        host=member.client_host.lstrip("/"),
        **more,
    )


def _subscribe(found: Described, member_id: str, topics: Iterable[str]) -> None:
    group = found.group.group
    found.subscriptions += [
        SubscriptionRow(group=group, member_id=member_id, topic=topic) for topic in topics
    ]


def _assign(found: Described, member_id: str, partitions: Iterable[tuple[str, int]]) -> None:
    group = found.group.group
    found.assignments += [
        AssignmentRow(group=group, member_id=member_id, topic=topic, partition=number)
        for topic, number in partitions
    ]


def offset_rows(group: str, topics: Any) -> tuple[list[OffsetRow], list[tuple[str, int, int]]]:
    """Rows of the partitions with a committed offset, and (topic, partition, error code) of those that the
    coordinator does not answer. -1 is no committed offset."""
    rows: list[OffsetRow] = []
    failed: list[tuple[str, int, int]] = []
    for topic in topics:
        name = str(topic.name)
        for each in topic.partitions:
            if each.error_code:
                failed.append((name, each.partition_index, int(each.error_code)))
            elif each.committed_offset >= 0:
                epoch = getattr(each, "committed_leader_epoch", _NO_EPOCH)
                rows.append(
                    OffsetRow(
                        group=group,
                        topic=name,
                        partition=each.partition_index,
                        offset=each.committed_offset,
                        leader_epoch=None if epoch == _NO_EPOCH else epoch,
                        metadata=each.metadata,
                    )
                )
    rows.sort(key=attrgetter("topic", "partition"))
    return rows, failed


_SPEAKS: Mapping[int, Protocol] = {0: Protocol.CLASSIC, 1: Protocol.CONSUMER}
_HEX = 2


def kind_of(listed: Any) -> Kind:
    """The kind of a group in an answer to ListGroups; unknown below version 5, and for types to come."""
    told = getattr(listed, "group_type", "").lower()
    return Kind(told) if told in set(Kind) - {Kind.ABSENT} else Kind.UNKNOWN


def classic_group(told: Any, coordinator: int) -> KafkaGroup:
    """From one group of DescribeGroups. Bytes of members are read of consumers only: Connect and others
    put their own there."""
    consumers = told.protocol_type == CONSUMERS
    members = (_classic_member(member, consumers=consumers) for member in told.members)
    return KafkaGroup(
        group=told.group_id,
        kind=Kind.CLASSIC,
        state=told.group_state,
        protocol_type=told.protocol_type,
        protocol=told.protocol_data,
        coordinator=coordinator,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def consumer_group(told: Any, coordinator: int) -> KafkaGroup:
    """From one group of ConsumerGroupDescribe; from version 1 on (4.0) it names each member's protocol."""
    members = (
        KafkaMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            instance_id=member.instance_id,
            speaks=_SPEAKS.get(int(getattr(member, "member_type", -1))),
            epoch=int(member.member_epoch),
            topics=tuple(sorted(member.subscribed_topic_names)),
            assigned=_assigned(member.assignment.topic_partitions),
        )
        for member in told.members
    )
    return KafkaGroup(
        group=told.group_id,
        kind=Kind.CONSUMER,
        state=told.group_state,
        protocol_type=CONSUMERS,
        protocol=told.assignor_name,
        epoch=int(told.group_epoch),
        assignment_epoch=int(told.assignment_epoch),
        coordinator=coordinator,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _assigned(topics: Any) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, int(number)) for topic in topics for number in topic.partitions
    )


def _classic_member(member: Any, *, consumers: bool) -> KafkaMember:
    found = KafkaMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.lstrip("/"),
        instance_id=getattr(member, "group_instance_id", None),
        speaks=Protocol.CLASSIC,
    )
    return _with_blobs(found, member) if consumers else found


def _with_blobs(found: KafkaMember, member: Any) -> KafkaMember:

    subscription = read_blob(SUBSCRIPTION, bytes(member.member_metadata))
    assignment = read_blob(ASSIGNMENT, bytes(member.member_assignment))
    given = assignment.get("assignedPartitions") or ()
    return replace(
        found,
        topics=tuple(sorted(subscription.get("topics") or ())),
        assigned=frozenset(
            TopicPartition(each["topic"], number) for each in given for number in each["partitions"]
        ),
        user_data=len(assignment.get("userData") or "") // _HEX,
        unreadable=str(subscription.get("problem") or assignment.get("problem") or ""),
    )


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics, sorted; empty bytes (a member still joining) give none. Raises ValueError."""
    if not metadata:
        return ()
    reader = _Reader(metadata)
    return tuple(sorted(reader.name() for _ in range(reader.count())))


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions; empty bytes (a member still joining) give none. Raises ValueError."""
    if not assignment:
        return frozenset()
    reader, found = _Reader(assignment), set()
    for _ in range(reader.count()):
        topic = reader.name()
        found |= {TopicPartition(topic, reader.number()) for _ in range(reader.number())}
    return frozenset(found)


class _Reader:
    """Reads one after the other what follows the version."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2

    def _unpack(self, form: str) -> int:
        try:
            (number,) = struct.unpack_from(form, self._data, self._at)
        except struct.error as short:
            raise ValueError(f"{len(self._data)} bytes end too early") from short
        self._at += struct.calcsize(form)
        return int(number)

    def number(self) -> int:
        """An int32."""
        return self._unpack(">i")

    count = number

    def name(self) -> str:
        """A topic's name."""
        start = self._at
        size = self._unpack(">h")
        name = self._data[self._at : self._at + size] if size > 0 else b""
        if not name or len(name) != size:
            raise ValueError(f"topic name of {size} bytes at byte {start}")
        self._at += size
        return name.decode()
