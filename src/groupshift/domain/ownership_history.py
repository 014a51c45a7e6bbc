"""What is known of a group over the time of a run: who owned which partition when, and the lag.

Three sources, from the sharpest: the audit (ZooKeeper's transaction log, to the millisecond), the members'
ledgers (first to last delivery of a run), and what was seen in snapshots and while a canary was watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from groupshift.domain.partitions import TopicPartition, grouped


class KnownBy(StrEnum):
    """How sharp the times of an interval are."""

    LOG = "ZooKeeper's transaction log"
    DELIVERIES = "the members' ledgers"
    OBSERVATIONS = "snapshots and looks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A partition at one moment: committed offset in the store that counts (None: none), log end."""

    committed: int | None
    end: int

    @property
    def lag(self) -> int | None:
        """Records not committed yet; None without a committed offset."""
        return None if self.committed is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The group as it was seen at ``at_ms`` (epoch). ``owners`` holds every partition that was looked at;
    an empty tuple is a partition without owner."""

    at_ms: int
    what: str
    owners: Mapping[TopicPartition, tuple[str, ...]]
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipInterval:
    """One member owns one partition from ``start_ms`` to ``end_ms``. ``unowned_ms`` is the time without
    owner right before it, None where that is not known (first interval, or seen only now and then)."""

    partition: TopicPartition
    member: str
    start_ms: int
    end_ms: int
    unowned_ms: int | None = None
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The group's lag at one moment: in all, and of the partition that lags most."""

    at_ms: int
    what: str
    total: int
    worst: int
    worst_at: TopicPartition
    unknown: int


def intervals_from(observations: Sequence[Observation]) -> tuple[OwnershipInterval, ...]:
    """Intervals as far as observations show them: from the first to the last look at the same owner.

    Between two looks with different owners nothing is said, so nothing is drawn there."""
    intervals: list[OwnershipInterval] = []
    for partition in sorted({each for one in observations for each in one.owners}):
        looks = [(s.at_ms, s.owners[partition]) for s in observations if partition in s.owners]
        since, owners = looks[0]
        last = since
        for at_ms, now in [*looks[1:], (looks[-1][0], None)]:
            if now != owners:
                intervals += [
                    OwnershipInterval(partition=partition, member=o, start_ms=since, end_ms=last)
                    for o in owners
                ]
                since, owners = at_ms, now or ()
            last = at_ms
    return tuple(intervals)


def audited(
    hand_overs: Iterable[Mapping[str, Any]], from_ms: int, to_ms: int
) -> tuple[OwnershipInterval, ...]:
    """Intervals of ownership from the ``hand_overs`` of ``audit.json``, clipped to a stretch of time.

    The first owner of a partition is the giver of its first hand-over."""
    ordered = sorted(hand_overs, key=lambda each: each["taken_ms"] or 0)
    of = grouped((TopicPartition(each["topic"], each["partition"]), each) for each in ordered)
    intervals: list[OwnershipInterval] = []
    for partition, changes in sorted(of.items()):
        ends = [*(each["released_ms"] or 0 for each in changes), to_ms]
        starts = [from_ms, *(each["taken_ms"] or 0 for each in changes)]
        members = [changes[0]["from"], *(each["to"] for each in changes)]
        gaps = [None, *(each["unowned_ms"] or 0 for each in changes)]
        for start, end, member, gap in zip(starts, ends, members, gaps, strict=True):
            last = max(start, end)
            if last >= from_ms and start <= to_ms:
                intervals.append(
                    OwnershipInterval(
                        partition=partition, member=member, start_ms=start, end_ms=last, unowned_ms=gap
                    )
                )
    return tuple(intervals)


def lags(observations: Iterable[Observation]) -> tuple[Lag, ...]:
    """The lag at each observation that knows positions."""
    series: list[Lag] = []
    for each in observations:
        known = {at: position.lag for at, position in each.positions.items() if position.lag is not None}
        if known:
            worst = max(known, key=lambda at: (known[at], at))
            series.append(
                Lag(
                    at_ms=each.at_ms,
                    what=each.what,
                    total=sum(known.values()),
                    worst=known[worst],
                    worst_at=worst,
                    unknown=len(each.positions) - len(known),
                )
            )
    return tuple(series)


def hand_overs(intervals: Iterable[OwnershipInterval]) -> dict[TopicPartition, int]:
    """How often each partition went from one member to another, in the order of partitions."""
    ordered = sorted(intervals, key=lambda each: (each.partition, each.start_ms))
    counts = {interval.partition: 0 for interval in ordered}
    for before, after in pairwise(ordered):
        if before.partition == after.partition:
            counts[after.partition] += before.member != after.member
    return counts
