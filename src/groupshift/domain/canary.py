"""A canary watched beside the old members: looks at the group, and what a series of them measures.

Two sides share the group: the canary's members and the old ones. What is compared is what both sides
show to anybody who looks: owner nodes, offsets in both stores, log ends, who is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from groupshift.domain.facts import Facts, OffsetTable
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition

NEVER = -1
"""Stands for an offset that is absent."""


class Side(StrEnum):
    """Who is compared with whom."""

    CANARY = "canary"
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One owned partition at one moment: ``czxid`` tells this tenure from the owner's next one; the
    offsets in both stores are `NEVER` when absent, ``end`` is the log end."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The group at ``at_ms``: members of either side, places of the canary that are down, ``ids_pzxid``
    (every coming and going changes it), owned partitions and those that nobody owned."""

    at_ms: int
    ids_pzxid: int
    canary: tuple[str, ...]
    old: tuple[str, ...]
    down: tuple[str, ...]
    unowned: tuple[str, ...]
    held: tuple[Held, ...]

    def to_data(self) -> dict[str, Any]:
        """Plain values for the journal; partitions as lists, for there may be many."""
        return {**asdict(self), "held": [list(asdict(each).values()) for each in self.held]}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Look:
        """The inverse of `to_data`."""
        names = tuple(Held.__dataclass_fields__)
        fields = {name: tuple(data[name]) for name in ("canary", "old", "down", "unowned")}
        held = tuple(Held(**dict(zip(names, each, strict=True))) for each in data["held"])
        return cls(at_ms=int(data["at_ms"]), ids_pzxid=int(data["ids_pzxid"]), held=held, **fields)

    def side_of(self, member_id: str) -> Side | None:
        """Which side a member is on; None for one that is on neither."""
        if member_id in self.canary:
            return Side.CANARY
        return Side.OLD if member_id in self.old else None


def look_of(facts: Facts, slots: Collection[str]) -> Look:
    """What is seen now. ``slots`` are the canary's places; where the driver cannot know who is in them,
    every migration-aware member is the canary's."""
    view = facts.view
    places = [place for place in facts.places if place.name in slots]
    known = {place.member_id for place in places if place.member_id}
    aware = [member.member_id for member in view.of_kind(MemberKind.AWARE)]
    canary = tuple(member for member in aware if not places or member in known)
    present = {*aware, *(member.member_id for member in view.members)}
    znode = OffsetTable.of(view.zookeeper_offsets).by_partition
    kafka = OffsetTable.of(view.kafka_offsets).by_partition
    ends = {end.partition: end.end for end in view.log_ends}
    return Look(
        at_ms=view.taken_at_ms,
        ids_pzxid=view.ids_pzxid,
        canary=canary,
        old=tuple(member.member_id for member in view.of_kind(MemberKind.OLD)),
        down=tuple(p.name for p in places if not p.running or p.member_id not in {*present, None}),
        unowned=tuple(str(at) for at, owners in view.owners_of().items() if not owners),
        held=tuple(
            Held(
                topic=owner.partition.topic,
                partition=owner.partition.partition,
                member_id=owner.member_id,
                czxid=owner.czxid,
                znode=znode.get(owner.partition, NEVER),
                kafka=kafka.get(owner.partition, NEVER),
                end=ends.get(owner.partition, NEVER),
            )
            for owner in sorted(view.owners, key=lambda owner: owner.partition)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One partition over its longest tenure: ``growth`` is the slope of its lag as a share of what
    arrives (1: nothing is committed, 0: the lag stands), ``progress`` committed records by arrived ones;
    both None when nothing arrived. ``commits`` counts the looks that saw the offset node advance."""

    at: TopicPartition
    side: Side
    arrived: int
    growth: float | None
    progress: float | None
    commits: int
    kafka_follows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One side: medians over its partitions with arrivals; the medians are None without any."""

    members: int
    partitions: int
    arrived: int
    growth: float | None
    progress: float | None
    commits: float


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares: change of y by unit of x; 0 when all x are equal."""
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def trends(series: Sequence[Look]) -> tuple[Trend, ...]:
    """Every partition that one member of either side held over at least two looks, sorted."""
    tenures: dict[TopicPartition, dict[tuple[str, int, Side], list[tuple[int, Held]]]] = {}
    for look in series:
        for held in look.held:
            side = look.side_of(held.member_id)
            if side is not None:
                key = (held.member_id, held.czxid, side)
                tenures.setdefault(held.at, {}).setdefault(key, []).append((look.at_ms, held))
    longest = {at: max(each.items(), key=lambda item: len(item[1])) for at, each in sorted(tenures.items())}
    return tuple(_trend(at, key[2], seen) for at, (key, seen) in longest.items() if seen[-1][0] > seen[0][0])


def _trend(at: TopicPartition, side: Side, seen: Sequence[tuple[int, Held]]) -> Trend:
    first, last = seen[0][1], seen[-1][1]
    seconds = (seen[-1][0] - seen[0][0]) / 1000
    arrived = last.end - first.end
    lags = [(at_ms / 1000, float(held.end - max(held.znode, 0))) for at_ms, held in seen]
    steps = [(before.znode, after.znode) for (_, before), (_, after) in pairwise(seen)]
    return Trend(
        at=at,
        side=side,
        arrived=arrived,
        growth=slope(lags) / (arrived / seconds) if arrived > 0 else None,
        progress=(last.znode - first.znode) / arrived if arrived > 0 else None,
        commits=sum(1 for before, after in steps if after > before),
        kafka_follows=last.znode == first.znode or last.kafka > min(first.kafka, first.znode),
    )


def measure(series: Sequence[Look], found: Iterable[Trend], side: Side) -> Measure:
    """One side of a series; ``found`` are the trends of both."""
    own = [trend for trend in found if trend.side is side]
    names = {name for look in series for name in (look.canary if side is Side.CANARY else look.old)}
    busy = [trend for trend in own if trend.arrived > 0]
    return Measure(
        members=len(names),
        partitions=len(own),
        arrived=sum(trend.arrived for trend in busy),
        growth=_median(trend.growth for trend in busy),
        progress=_median(trend.progress for trend in busy),
        commits=_median(float(trend.commits) for trend in busy) or 0.0,
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def errors(series: Sequence[Look], found: Iterable[Trend], side: Side, records: int) -> tuple[str, ...]:
    """What went wrong on one side, one clause each: a member that left, a place that was down, a
    partition that lost its owner, a committed offset that went back, a partition that stood still
    although at least ``records`` arrived."""
    clauses = [
        f"{trend.at} was not committed although {trend.arrived} records arrived"
        for trend in found
        if trend.side is side and trend.arrived >= max(1, records) and not trend.commits
    ]
    for before, after in pairwise(series):
        clauses += _between(before, after, side)
    return tuple(dict.fromkeys(clauses))


def _between(before: Look, after: Look, side: Side) -> list[str]:
    own = before.canary if side is Side.CANARY else before.old
    now = {held.at: held for held in after.held}
    was = [held for held in before.held if held.member_id in own]
    down = set(after.down) - set(before.down) if side is Side.CANARY else set()
    return [
        *(f"{member} left the group" for member in sorted({*own} - {*after.canary, *after.old})),
        *(f"place {name} was down" for name in sorted(down)),
        *(f"{held.at} lost its owner {held.member_id}" for held in was if str(held.at) in after.unowned),
        *(
            f"the offset of {held.at} went back from {held.znode} to {now[held.at].znode}"
            for held in was
            if held.at in now and now[held.at].znode < held.znode
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrest:
    """Rebalances in a series: ``canary`` and ``old`` count looks that saw members of that side come or
    go, ``contention`` those that saw owner nodes change although nobody came or went."""

    canary: int
    old: int
    contention: int

    @property
    def total(self) -> int:
        """Looks at which anything had changed."""
        return self.canary + self.old + self.contention


def unrest(series: Sequence[Look]) -> Unrest:
    """How often the group was not at rest between two looks, and because of whom."""
    pairs = list(pairwise(series))
    came_or_went = [pair for pair in pairs if _changed(pair, lambda look: (look.canary, look.old))]
    canary = [pair for pair in came_or_went if _changed(pair, lambda look: look.canary)]
    restarted = [
        pair for pair in pairs if pair not in came_or_went and _changed(pair, lambda look: look.ids_pzxid)
    ]
    moved = [
        pair
        for pair in pairs
        if pair not in came_or_went
        and pair not in restarted
        and _changed(pair, lambda look: {(held.at, held.czxid) for held in look.held})
    ]
    return Unrest(
        canary=len(canary), old=len(came_or_went) - len(canary) + len(restarted), contention=len(moved)
    )


def _changed(pair: tuple[Look, Look], part: Callable[[Look], object]) -> bool:
    return part(pair[0]) != part(pair[1])
