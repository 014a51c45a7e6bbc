"""Where old members keep their offsets, and how they assign: what only their deeds tell.

Neither ``offsets.storage`` nor ``partition.assignment.strategy`` is in a registration. The first shows
between two looks, the second in the owner nodes.
Source: docs/reference/zookeeper-coordination.md §§5, 6.1, 6.2, 9.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from groupshift.domain.assignment import SCHEMES, Assignment, assign, consumer_of, threads_by_topic
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.errors import Rejected

NEVER = -1
"""Stands for an offset that is absent."""


class Held(NamedTuple):
    """One owned partition at one moment: ``czxid`` tells this interval from the owner's next one; the
    offsets in both stores are `NEVER` when absent, as is ``end``, the log end."""

    topic: str
    partition: int
    member_id: str
    czxid: int
    znode: int
    kafka: int
    end: int

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def held_now(view: GroupView, members: Collection[str] | None = None) -> tuple[Held, ...]:
    """Return every partition that has an owner node, sorted; with ``members``, what these own."""
    znode, kafka = view.stores.values()
    return tuple(
        Held(
            topic=owner.partition.topic,
            partition=owner.partition.partition,
            member_id=owner.member_id,
            czxid=owner.czxid,
            znode=znode.get(owner.partition, NEVER),
            kafka=kafka.get(owner.partition, NEVER),
            end=view.ends[owner.partition].log_end if owner.partition in view.ends else NEVER,
        )
        for owner in sorted(view.owners, key=lambda owner: owner.partition)
        if members is None or owner.member_id in members
    )


def held_by_old(view: GroupView) -> tuple[Held, ...]:
    """Return what old members own, sorted."""
    old = {member.member_id for member in view.of_kind(MemberKind.ZOOKEEPER)}
    return held_now(view, old) if old else ()


def worth_a_second_look(held: Iterable[Held]) -> bool:
    """Whether a partition under an old owner has an offset in Kafka that is not behind ZooKeeper's.

    Old members that commit to ZooKeeper leave none, or one that an earlier move left behind."""
    return any(each.kafka >= max(each.znode, 0) for each in held)


def commits_to_kafka(then: Iterable[Held], now: Iterable[Held]) -> dict[str, tuple[TopicPartition, ...]]:
    """Old members whose partitions' offset in Kafka advanced between two looks, beyond what either
    store had held, while they owned them all the time."""
    return _between(then, now, lambda before, after: after.kafka > max(before.kafka, before.znode))


def stands_still(then: Iterable[Held], now: Iterable[Held]) -> dict[str, tuple[TopicPartition, ...]]:
    """Old members whose offset node stood still behind Kafka's offset although records arrived."""
    return _between(
        then,
        now,
        lambda before, after: after.znode == before.znode < after.kafka and after.end > before.end,
    )


def _between(
    then: Iterable[Held], now: Iterable[Held], says: Callable[[Held, Held], bool]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Per old member the partitions of an uninterrupted interval of which ``says`` is true."""
    before, moved = {held.at: held for held in then}, dict[str, tuple[TopicPartition, ...]]()
    for after in now:
        met = before.get(after.at)
        if met and (met.member_id, met.czxid) == (after.member_id, after.czxid) and says(met, after):
            moved[after.member_id] = (*moved.get(after.member_id, ()), after.at)
    return moved


def assignments(view: GroupView) -> dict[str, Assignment]:
    """What each assignor would give to the members in ZooKeeper, by its name for people.

    Patterns are expanded over the topics of the group. Empty when a pattern cannot be evaluated."""
    numbers = grouped(view.partitions)
    try:
        wanted = {member.member_id: member.topics(numbers) for member in view.of_zookeeper}
        threads = threads_by_topic(
            {
                member: {topic: count for topic, count in topics.items() if topic in numbers}
                for member, topics in wanted.items()
            }
        )
    except Rejected:
        return {}
    return {name: assign(by.assignor, threads, numbers, by.form) for name, by in SCHEMES.items()}


def fitting(view: GroupView) -> tuple[str, ...]:
    """The assignors that the owner nodes fit exactly, by name."""
    owned = {owner.partition: owner.thread_id for owner in view.owners}
    return tuple(name for name, computed in assignments(view).items() if computed == owned)


def shares(view: GroupView) -> dict[str, int]:
    """Partitions that each member in ZooKeeper is due, by the assignor that the owner nodes fit; by
    range where they fit none."""
    fits = (*fitting(view), "range")
    return {member: len(held) for member, held in _shares(assignments(view).get(fits[0], {})).items()}


def fits_of_each(view: GroupView) -> dict[str, tuple[str, ...]]:
    """Member → the assignors that give it exactly the partitions that it owns."""
    owned = _shares({owner.partition: owner.thread_id for owner in view.owners})
    computed = {name: _shares(assignment) for name, assignment in assignments(view).items()}
    members = [member.member_id for member in view.of_zookeeper]
    return {
        member: tuple(name for name, share in computed.items() if share.get(member) == owned.get(member))
        for member in members
    }


def _shares(assignment: Assignment) -> dict[str, set[TopicPartition]]:
    partitions_of = grouped((consumer_of(thread), at) for at, thread in assignment.items())
    return {member: set(held) for member, held in partitions_of.items()}
