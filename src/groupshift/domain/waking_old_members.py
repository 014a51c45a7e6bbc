"""Old members that contend or have given up: which assignor they seem to use, and when to wake them (F9).

Every member computes the group's assignment alone and nothing is negotiated
(docs/reference/zookeeper-coordination.md §§5, 5.2): with another assignor, or another text form of
round-robin, members contend until old ones give up. The setting of another member is written nowhere; only
what becomes of the partitions shows it.

The old consumer tries four times to get its share, then waits for the next trigger and owns nothing
(docs/reference/zookeeper-coordination.md §4.6). A registration that comes and goes is such a trigger; it
changes no assignment. One member alone gives it: the first aware one. Times are seconds of one monotonic
clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from groupshift.domain.assignment import SCHEMES, Assignment, Scheme, consumer_of, java_order
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Member, group_assignment


def schemes_of_keepers(
    member: Member, view: CoordinationView, kept: Collection[TopicPartition]
) -> tuple[Scheme, ...]:
    """By which schemes none of ``kept`` is ``member``'s: partitions that others keep although by its own
    scheme they are due to it."""
    return tuple(
        scheme
        for scheme, assignment, _ in _others(member, view)
        if all(consumer_of(assignment[each]) != member.consumer_id for each in kept if each in assignment)
    )


def schemes_of_losers(
    member: Member, view: CoordinationView, neglected: Mapping[TopicPartition, str]
) -> tuple[Scheme, ...]:
    """By which schemes those who do not take their share (partition → thread id) want something else, too,
    find it owned, and give all of it up (§4.4, step 10)."""
    losers = {consumer_of(thread) for thread in neglected.values()}
    return tuple(
        scheme
        for scheme, assignment, own in _others(member, view)
        if all(_share(assignment, loser) - _share(own, loser) for loser in losers)
    )


def scheme_advice(member: Member, schemes: Collection[Scheme]) -> str:
    """What people have to look at; ``schemes`` are those that explain what is seen, perhaps none."""
    own = Scheme(member.assignor, member.form)
    if not schemes:
        return f"do all members use one partition.assignment.strategy and roundrobin.text.form? Here: {own}"
    others = " or ".join(map(str, schemes))
    return f"this member has {own}, the others seem to have {others}: configure all of them alike"


def _others(member: Member, view: CoordinationView) -> Iterator[tuple[Scheme, Assignment, Assignment]]:
    """All schemes by which the group's assignment is not that of the member's own, with both; none while
    something in the group cannot be read."""
    if view.problems:
        return
    own = group_assignment(member, view)
    for scheme in SCHEMES.values():
        computed = group_assignment(replace(member, assignor=scheme.assignor, form=scheme.form), view)
        if computed != own:
            yield scheme, computed, own


def _share(assignment: Assignment, consumer_id: str) -> set[TopicPartition]:
    return {each for each, thread in assignment.items() if consumer_of(thread) == consumer_id}


PATIENCE_S = 10.0
"""An old member gets its share within 8 s, or gives up."""
NEGLECT_S = 20.0
"""After that, people are told; where nobody is woken, already after ``PATIENCE_S``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vigil:
    """Partition → the old member's thread it belongs to, and since when it was seen without an owner."""

    free: Mapping[TopicPartition, tuple[str, float]] = field(default_factory=dict)
    woken_at: float = float("-inf")


def responsible(member: Member, view: CoordinationView, acting: Mode | None) -> bool:
    """Whether it falls to ``member`` to wake: the first aware one of a group with old members.

    In Kafka mode nobody does: a partition without owner node may be a plain consumer's (D11)."""
    if acting is not Mode.ZOOKEEPER or view.problems or not _old(view):
        return False
    return min(set(view.migration_ids) & set(view.ids), key=java_order, default="") == member.consumer_id


def entrusted(member: Member, view: CoordinationView) -> dict[TopicPartition, str]:
    """What §5 gives to old members: partition → thread id."""
    old = _old(view)
    return {
        each: thread for each, thread in group_assignment(member, view).items() if consumer_of(thread) in old
    }


def watch(
    vigil: Vigil, entrusted_now: Mapping[TopicPartition, str], unowned: Collection[TopicPartition], now: float
) -> Vigil:
    """What is without an owner now; since when, as long as it belongs to the same thread."""
    free = {
        each: known if (known := vigil.free.get(each)) is not None and known[0] == thread else (thread, now)
        for each, thread in entrusted_now.items()
        if each in unowned
    }
    return replace(vigil, free=free)


def due(vigil: Vigil, every_s: float, now: float) -> bool:
    """Whether to wake: something was free for too long, and the last time is ``every_s`` ago, and longer
    than what a woken member needs. 0: never."""
    overdue = any(now - since > PATIENCE_S for _, since in vigil.free.values())
    return every_s > 0 and overdue and now - vigil.woken_at >= max(every_s, PATIENCE_S)


def neglected(vigil: Vigil, every_s: float, now: float) -> dict[TopicPartition, str]:
    """What old members have left without an owner for so long that people must look: partition → thread id,
    sorted."""
    patience_s = NEGLECT_S if every_s > 0 else PATIENCE_S
    return {each: thread for each, (thread, since) in sorted(vigil.free.items()) if now - since > patience_s}


def _old(view: CoordinationView) -> frozenset[str]:
    return frozenset(view.ids) - frozenset(view.migration_ids)
