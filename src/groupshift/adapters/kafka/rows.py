"""Groups from what their coordinators answer, of every kind, and the rows of a cluster snapshot from them.

Bytes of classic members are read here: their subscription and what their leader assigned to them.
Source: Apache Kafka, "ConsumerProtocolSubscription.json" (int16 version, array of topic names, nullable
bytes) and "ConsumerProtocolAssignment.json" (int16 version, array of topic name with an array of int32,
nullable bytes); later versions only append.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
from groupshift.log.decode import read_blob, without_null
from groupshift.log.schema import ASSIGNMENT, SUBSCRIPTION

_SPEAKS = {0: Protocol.CLASSIC, 1: Protocol.CONSUMER}
_NO_EPOCH = -1
_BLOBS = {
    "subscription": (SUBSCRIPTION, "member_metadata", "topics"),
    "assignment": (ASSIGNMENT, "member_assignment", "assignedPartitions"),
}
"""What bytes of a classic member are: their schema, the field of the answer, and what is read of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """A group as its coordinator describes it. ``unread`` says why the ``subscription`` or ``assignment`` of
    a member (by its id) tells no topics or partitions; ``patterns`` are regular expressions of members."""

    group: KafkaGroup
    unread: Mapping[tuple[str, str], str] = field(default_factory=dict)
    patterns: Mapping[str, str] = field(default_factory=dict)


def group_answer(kind: Kind, answer: Any, coordinator: int | None) -> GroupAnswer:
    """From one group in the answer to the request for groups of its kind (`DESCRIBED`).

    What members have now is told, not their target, which is not yet theirs; several members of a share group
    may have one partition. Of classic groups the bytes of consumers only are read: Connect and others put
    their own there."""
    unread: dict[tuple[str, str], str] = {}
    classic, consumers = kind is Kind.CLASSIC, getattr(answer, "protocol_type", "") == CONSUMERS
    members: Iterable[KafkaMember]
    if classic:
        members = (_consumer(each, unread) if consumers else _member(each) for each in answer.members)
    else:
        members = _streams(answer) if kind is Kind.STREAMS else map(_native, answer.members)
    group = KafkaGroup(
        group=answer.group_id,
        kind=kind,
        state=answer.group_state,
        protocol_type=answer.protocol_type if classic else kind.value,
        protocol=answer.protocol_data if classic else getattr(answer, "assignor_name", ""),
        epoch=None if classic else int(answer.group_epoch),
        assignment_epoch=None if classic else int(answer.assignment_epoch),
        coordinator=coordinator,
        members=tuple(sorted(members, key=lambda member: str(member.member_id))),
    )
    patterns = {
        str(member.member_id): str(member.subscribed_topic_regex)
        for member in answer.members
        if getattr(member, "subscribed_topic_regex", None)
    }
    return GroupAnswer(group=group, unread=unread, patterns=patterns)


def _consumer(member: Any, unread: dict[tuple[str, str], str]) -> KafkaMember:
    """A classic consumer; notes which of its bytes do not tell what they are for."""
    read: dict[str, dict[str, Any]] = {}
    for what, (schema, source, name) in _BLOBS.items():
        blob = bytes(getattr(member, source))
        read[what] = fields = read_blob(schema, without_null(blob))
        if blob and name not in fields:  # empty bytes are of a member that is still joining
            unread[member.member_id, what] = fields.get("problem", f"{len(blob)} bytes end too early")
        elif "" in (each if isinstance(each, str) else each["topic"] for each in fields.get(name, ())):
            unread[member.member_id, what] = "a topic has no name"
            del fields[name]
    subscription, assignment = read["subscription"], read["assignment"]
    assigned = assignment.get("assignedPartitions") or ()
    return _member(
        member,
        topics=tuple(sorted(subscription.get("topics") or ())),
        assigned=_partitions((each["topic"], each["partitions"]) for each in assigned),
        user_data=len(assignment.get("userData") or "") // 2,
        unreadable=str(subscription.get("problem") or assignment.get("problem") or ""),
    )


def _native(member: Any) -> KafkaMember:
    """A member of a group of type consumer or share; from version 1 on (4.0) its protocol is named."""
    assigned = member.assignment.topic_partitions
    return _member(
        member,
        speaks=_SPEAKS.get(int(getattr(member, "member_type", -1))),
        epoch=int(member.member_epoch),
        topics=tuple(sorted(member.subscribed_topic_names)),
        assigned=_partitions((each.topic_name, each.partitions) for each in assigned),
    )


def _streams(answer: Any) -> Iterator[KafkaMember]:
    """Every member consumes all source and repartition topics of the topology (KIP-1071); its active task
    ``p`` of a part of it has partition ``p`` of each topic of that part (of those with fewer partitions none:
    `within_logs`). Standby and warm-up tasks read changelogs."""
    parts = answer.topology.subtopologies or () if answer.topology else ()
    sources = {
        part.subtopology_id: (*part.source_topics, *(each.name for each in part.repartition_source_topics))
        for part in parts
    }
    topics = tuple(sorted({topic for named in sources.values() for topic in named}))
    for member in answer.members:
        tasks = member.assignment.active_tasks
        active = (
            (topic, task.partitions) for task in tasks for topic in sources.get(task.subtopology_id, ())
        )
        yield _member(
            member,
            speaks=Protocol.CLASSIC if member.is_classic else None,
            epoch=int(member.member_epoch),
            topics=topics,
            assigned=_partitions(active),
        )


def _member(member: Any, *, speaks: Protocol | None = Protocol.CLASSIC, **more: Any) -> KafkaMember:
    name = "group_instance_id" if hasattr(member, "member_metadata") else "instance_id"
    return KafkaMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.lstrip("/"),
        instance_id=getattr(member, name, None),
        speaks=speaks,
        **more,
    )


def _partitions(topics: Iterable[tuple[str, Iterable[int]]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(str(name), int(number)) for name, numbers in topics for number in numbers)


def kind_of(listed: Any) -> Kind:
    """The kind of a group in an answer to ListGroups; unknown below version 5, and for types to come."""
    group_type = getattr(listed, "group_type", "").lower()
    return Kind(group_type) if group_type in set(Kind) - {Kind.ABSENT} else Kind.UNKNOWN


@dataclass(slots=True, kw_only=True)
class Described:
    """The rows of a description; ``unread`` are sentences about bytes of members that cannot be read."""

    group: GroupRow
    members: list[MemberRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    assignments: list[AssignmentRow] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def described(answer: GroupAnswer) -> Described:
    """The rows of one group; a regular expression is a subscription to ``~expression``."""
    group = answer.group
    row = GroupRow(
        group=group.group,
        type=group.kind.value,
        state=group.state,
        protocol_type=group.protocol_type,
        protocol=None if group.kind is Kind.STREAMS else group.protocol,
        generation=group.epoch,
        assignment_epoch=group.assignment_epoch,
        coordinator=group.coordinator,
    )
    rows = Described(group=row)
    for member in group.members:
        at = {"group": group.group, "member_id": member.member_id}
        native = group.kind is Kind.STREAMS or (group.kind is not Kind.CLASSIC and member.speaks)
        rows.members.append(
            MemberRow(
                **at,
                client_id=member.client_id,
                instance_id=member.instance_id,
                host=member.host,
                member_epoch=member.epoch,
                member_type=(member.speaks or Kind.STREAMS).value if native else None,
            )
        )
        why = next((why for (each, _), why in answer.unread.items() if each == member.member_id), "")
        if why:
            rows.unread.append(
                f"what Kafka member {member.member_id!r} of group {group.group!r} consumes cannot be read "
                f"({why}): check what client it runs"
            )
            continue
        pattern = answer.patterns.get(member.member_id)
        topics = {*member.topics, *([f"~{pattern}"] if pattern else ())}
        rows.subscriptions += [SubscriptionRow(**at, topic=topic) for topic in sorted(topics)]
        rows.assignments += [
            AssignmentRow(**at, topic=topic, partition=number) for topic, number in sorted(member.assigned)
        ]
    return rows


def within_logs(rows: Iterable[AssignmentRow], ends: Iterable[LogEndRow]) -> list[AssignmentRow]:
    """The assignments without partitions that a topic, whose log ends are known, does not have: a streams
    task names the partition of the largest of its topics."""
    known = {(end.topic, end.partition) for end in ends}
    topics = {topic for topic, _ in known}
    return [row for row in rows if row.topic not in topics or (row.topic, row.partition) in known]


def offset_rows(group: str, topics: Any) -> tuple[list[OffsetRow], list[tuple[str, int, int]]]:
    """Rows of the partitions with a committed offset, and (topic, partition, error code) of those that the
    coordinator does not answer. -1 is no committed offset."""
    rows: list[OffsetRow] = []
    failed: list[tuple[str, int, int]] = []
    for topic in topics or ():
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
