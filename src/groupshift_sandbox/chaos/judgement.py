"""What the ledgers and ZooKeeper's log say about a run with faults. Pure.

Three things are counted apart, each with its evidence: records of the one call that was in flight when a
member was stopped (docs/reference/zookeeper-coordination.md §8.10: paused between check and delivery); flaws
of the old member itself (§4.5, §6.6): it delivers without a fence and commits what it has not processed; and
what is delivered, while nobody owns the partition, in the milliseconds between the end of a session that this
run closed at the server and the word of it (a server does not end a session that it hears from).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from groupshift.audit.ownership import Ended, History, Interval
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift_sandbox.ledger import Delivery, lost

_TOLD_MS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A member was stopped from ``stopped_ms`` to ``resumed_ms`` (epoch)."""

    member: str
    stopped_ms: int
    resumed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What is known after a run: ``ends`` the log ends, ``old`` the ids of the old members, ``calm_ms``
    the moment (epoch) at which the last fault was over."""

    history: History
    deliveries: Sequence[Delivery]
    ends: Mapping[TopicPartition, int]
    old: Collection[str]
    pauses: Sequence[Pause]
    calm_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """``outside``: deliveries of ours while another member, or nobody, owned the partition. The lists
    that end in ``_old``, ``in_flight``, ``untold`` are counted apart. ``owned_s``: from the last fault
    until every partition was owned for good, infinite when one is not. ``written``: records in the log."""

    lost: tuple[tuple[TopicPartition, int], ...]
    lost_old: tuple[tuple[TopicPartition, int], ...]
    outside: tuple[Delivery, ...]
    in_flight: tuple[Delivery, ...]
    untold: tuple[Delivery, ...]
    outside_old: tuple[Delivery, ...]
    owned_s: float
    written: int
    records: int
    repeated: int


def judge(ran: Ran) -> Judged:
    """Everything that is asked of a run."""
    missing = lost(ran.deliveries, ran.ends)
    theirs = {each for each in missing if _taken_by_old(ran, *each)}
    strangers = _outside(ran)
    held = [each for each in strangers if each.member not in ran.old]
    late = {id(each) for each in _in_flight(ran, held)}
    untold = {id(each) for each in held if id(each) not in late and _untold(ran, each)}
    distinct = len({(each.partition, each.offset) for each in ran.deliveries})
    return Judged(
        lost=tuple(each for each in missing if each not in theirs),
        lost_old=tuple(sorted(theirs)),
        outside=tuple(each for each in held if id(each) not in late | untold),
        in_flight=tuple(each for each in held if id(each) in late),
        untold=tuple(each for each in held if id(each) in untold),
        outside_old=tuple(each for each in strangers if each.member in ran.old),
        owned_s=_owned_s(ran),
        written=sum(ran.ends.values()),
        records=len(ran.deliveries),
        repeated=len(ran.deliveries) - distinct,
    )


def _outside(ran: Ran) -> list[Delivery]:
    """Deliveries to a member that did not own the partition at that millisecond."""
    owned = grouped(((each.partition, each.member_id), each) for each in ran.history.intervals)
    starts = {key: [each.start_ms for each in intervals] for key, intervals in owned.items()}
    outside = []
    for delivery in ran.deliveries:
        key = (delivery.partition, delivery.member)
        at = bisect_right(starts.get(key, []), delivery.at_ms) - 1
        interval = owned[key][at] if at >= 0 else None
        if interval is None or (interval.end_ms is not None and delivery.at_ms > interval.end_ms):
            outside.append(delivery)
    return outside


def _in_flight(ran: Ran, strangers: Iterable[Delivery]) -> list[Delivery]:
    """Those that bear the first stamp their member made after a pause: one call, begun before it.

    All records of one call bear one stamp, made when it had returned."""
    stamps = grouped((delivery.member, delivery.at_ms) for delivery in ran.deliveries)
    first = {
        (pause.member, min(later))
        for pause in ran.pauses
        if (later := [at for at in stamps.get(pause.member, ()) if at >= pause.resumed_ms])
    }
    return [each for each in strangers if (each.member, each.at_ms) in first]


def _untold(ran: Ran, delivery: Delivery) -> bool:
    """Its owner's session had just been closed under it, and nobody had taken the partition yet."""
    every = [each for each in ran.history.intervals if each.partition == delivery.partition]
    if any(each.start_ms <= delivery.at_ms <= (each.end_ms or delivery.at_ms) for each in every):
        return False
    return any(
        each.member_id == delivery.member
        and each.ended is Ended.SESSION
        and 0 <= delivery.at_ms - (each.end_ms or 0) <= _TOLD_MS
        for each in every
    )


def _taken_by_old(ran: Ran, partition: TopicPartition, offset: int) -> bool:
    """The commit that passed over this record was made by an old member: it had been handed the record
    and died, or was cut off, before it printed it (§6.6)."""
    passed = [w for w in ran.history.offset_writes if w.partition == partition and w.offset > offset]
    if not passed:
        return False
    first = min(passed, key=lambda write: write.zxid)
    owners = [
        each for each in ran.history.intervals if each.session == first.session and each.member_id in ran.old
    ]
    return bool(owners)


def _owned_s(ran: Ran) -> float:
    """By the last interval of every partition."""
    last: dict[TopicPartition, Interval] = {}
    for each in ran.history.intervals:
        last[each.partition] = each
    if set(last) < set(ran.ends) or any(_given_up(each, ran) for each in last.values()):
        return float("inf")
    return max(0.0, *((each.start_ms - ran.calm_ms) / 1000 for each in last.values()))


def _given_up(interval: Interval, ran: Ran) -> bool:
    return interval.end_ms is not None and interval.end_ms < ran.calm_ms


def evidence(judged: Judged) -> Iterator[str]:
    """What is wrong and what was counted apart, one line for each member and partition."""
    for name in ("outside", "in_flight", "untold", "outside_old"):
        groups = grouped(((each.member, each.partition), each) for each in getattr(judged, name))
        for (member, partition), group in sorted(groups.items()):
            offsets, times = [each.offset for each in group], [each.at_ms for each in group]
            yield (
                f"{name}: {member} {partition} {len(group)} of offsets {min(offsets)} to {max(offsets)}, "
                f"delivered {min(times)} to {max(times)}"
            )
    for name in ("lost", "lost_old"):
        for partition, offsets in sorted(grouped(getattr(judged, name)).items()):
            yield f"{name}: {partition} {len(offsets)} records, offsets {min(offsets)} to {max(offsets)}"
