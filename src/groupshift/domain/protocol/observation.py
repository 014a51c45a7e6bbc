"""A look at a group's brokers and a live snapshot of it become one `GroupView`."""

from __future__ import annotations

from groupshift.domain.cluster_rows import ClusterState
from groupshift.domain.coordination import ABSENT_MODE, MemberKind
from groupshift.domain.group import CommittedOffset, GroupView, KafkaGroup, KafkaMember, LogEnd, Member
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.protocol.model import Kind, Protocol, ProtocolMember
from groupshift.domain.protocol.view import ProtocolView


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
