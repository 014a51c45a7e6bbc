"""What one scan keeps of a group for the rules that need two looks: the last scan is the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from groupshift.domain.facts import OffsetTable
from groupshift.domain.group import CommittedOffset, GroupView, LogEnd, Member, Owner
from groupshift.domain.modes import ABSENT_MODE, MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rules_storage import worth_a_second_look


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """A partition of an old member: its owner node, the offset in either store (None: none), the log end."""

    partition: TopicPartition
    thread_id: str
    czxid: int
    session_id: int
    zookeeper: int | None
    kafka: int | None
    end: int | None


def look_at(view: GroupView) -> tuple[HeldPartition, ...]:
    """What the next scan needs of this one; nothing unless a second look is worth it."""
    if not worth_a_second_look(view):
        return ()
    old = {member.member_id for member in view.of_kind(MemberKind.OLD)}
    zookeeper, kafka = (OffsetTable.of(s).by_partition for s in (view.zookeeper_offsets, view.kafka_offsets))
    ends = {end.partition: end.end for end in view.log_ends}
    return tuple(
        HeldPartition(
            partition=owner.partition,
            thread_id=owner.thread_id,
            czxid=owner.czxid,
            session_id=owner.session_id,
            zookeeper=zookeeper.get(owner.partition),
            kafka=kafka.get(owner.partition),
            end=ends.get(owner.partition),
        )
        for owner in view.owners
        if owner.member_id in old
    )


def earlier_view(group: str, taken_at_ms: int, held: tuple[HeldPartition, ...]) -> GroupView | None:
    """The group as the last scan saw it, as far as it was kept; None when nothing was."""
    if not held:
        return None
    owners = tuple(
        Owner(partition=h.partition, thread_id=h.thread_id, czxid=h.czxid, session_id=h.session_id)
        for h in held
    )
    return GroupView(
        group=group,
        taken_at_ms=taken_at_ms,
        exists=True,
        mode=ABSENT_MODE,
        members=tuple(
            Member(member_id=name, kind=MemberKind.OLD) for name in sorted({o.member_id for o in owners})
        ),
        owners=owners,
        zookeeper_offsets=_offsets((h.partition, h.zookeeper) for h in held),
        kafka_offsets=_offsets((h.partition, h.kafka) for h in held),
        log_ends=tuple(LogEnd(partition=h.partition, start=0, end=h.end) for h in held if h.end is not None),
    )


def _offsets(found: Iterable[tuple[TopicPartition, int | None]]) -> tuple[CommittedOffset, ...]:
    return tuple(CommittedOffset(partition=at, offset=offset) for at, offset in found if offset is not None)
