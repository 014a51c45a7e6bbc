"""From what a coordinator answers about one group to the group of a protocol move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from groupshift.domain.group_protocol import CONSUMERS, Kind, Protocol, ProtocolGroup, ProtocolMember
from groupshift.domain.partitions import TopicPartition
from groupshift.log.decode import ASSIGNMENT, SUBSCRIPTION, read_blob

_SPEAKS: Mapping[int, Protocol] = {0: Protocol.CLASSIC, 1: Protocol.CONSUMER}
_HEX = 2


def kind_of(listed: Any) -> Kind:
    """The kind of a group in an answer to ListGroups; unknown below version 5, and for types to come."""
    told = getattr(listed, "group_type", "").lower()
    return Kind(told) if told in set(Kind) - {Kind.ABSENT} else Kind.UNKNOWN


def classic_group(told: Any, coordinator: int) -> ProtocolGroup:
    """From one group of DescribeGroups. Bytes of members are read of consumers only: Connect and others
    put their own there."""
    consumers = told.protocol_type == CONSUMERS
    members = (_classic_member(member, consumers=consumers) for member in told.members)
    return ProtocolGroup(
        group=told.group_id,
        kind=Kind.CLASSIC,
        state=told.group_state,
        protocol_type=told.protocol_type,
        protocol=told.protocol_data,
        coordinator=coordinator,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def consumer_group(told: Any, coordinator: int) -> ProtocolGroup:
    """From one group of ConsumerGroupDescribe; from version 1 on (4.0) it names each member's protocol."""
    members = (
        ProtocolMember(
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
    return ProtocolGroup(
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


def _classic_member(member: Any, *, consumers: bool) -> ProtocolMember:
    found = ProtocolMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.lstrip("/"),
        instance_id=getattr(member, "group_instance_id", None),
        speaks=Protocol.CLASSIC,
    )
    return _with_blobs(found, member) if consumers else found


def _with_blobs(found: ProtocolMember, member: Any) -> ProtocolMember:

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
