"""A canary watched beside the old members: looks at the group, what a series of them measures, and the
numbered rules that judge it (K…). Pure.

Two sides share the group: the canary's members and the old ones. What is compared is what both sides
show to anybody who looks: owner nodes, offsets in both stores, log ends, who is registered. Too little data
is never a pass: K01 is then inconclusive and the comparing rules are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from math import ceil
from statistics import linear_regression, median
from typing import Any

from groupshift.domain.facts import Facts, sentence_list
from groupshift.domain.modes import MemberKind
from groupshift.domain.old_members import Held, held_now
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Finding, Verdict

INTERVALS = 4
"""A watch is at least so many commit intervals: a lag that saws by one interval must not look like a
trend."""


class Side(StrEnum):
    """Who is compared with whom."""

    CANARY = "canary"
    OLD = "old"


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
    return Look(
        at_ms=view.taken_at_ms,
        ids_pzxid=view.ids_pzxid,
        canary=canary,
        old=tuple(member.member_id for member in view.of_kind(MemberKind.OLD)),
        down=tuple(p.name for p in places if not p.running or p.member_id not in {*present, None}),
        unowned=tuple(str(at) for at, owners in view.owners_of().items() if not owners),
        held=held_now(view),
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
    """Return the change of y by unit of x, by least squares; 0 when all x are equal."""
    x, y = [each for each, _ in points], [each for _, each in points]
    return linear_regression(x, y).slope if len(set(x)) > 1 else 0.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryLimits:
    """Numbers that decide (`groupshift.settings.Thresholds` documents them); ``commit_interval_ms`` is
    the longest auto commit interval of the members, ``every_s`` the time from one look to the next."""

    looks: int
    records: int
    lag_growth_pct: int
    commit_rate_pct: int
    errors: int
    rebalances: int
    commit_interval_ms: int
    every_s: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Everything the rules look at."""

    looks: Sequence[Look]
    found: tuple[Trend, ...]
    canary: Measure
    old: Measure
    limits: CanaryLimits


def judged(looks: Sequence[Look], limits: CanaryLimits) -> tuple[Finding, ...]:
    """K01 enough was seen · K02 lag slope · K03 commit rate · K04 errors · K05 rebalances · K06 commits
    in both stores. Compared rules are left out where K01 is inconclusive."""
    found = trends(looks)
    sides = {side: measure(looks, found, side) for side in Side}
    series = _Series(looks=looks, found=found, canary=sides[Side.CANARY], old=sides[Side.OLD], limits=limits)
    lacking = list(_lacking(series))
    findings = [_errors(series), _rebalances(series)]
    if lacking:
        return (_enough(series, lacking), *findings)
    return (_enough(series, ()), _lag_slope(series), _commit_rate(series), *findings, _both_stores(series))


def _span_s(series: _Series) -> float:
    return (series.looks[-1].at_ms - series.looks[0].at_ms) / 1000 if series.looks else 0.0


def _lacking(series: _Series) -> Iterator[str]:
    limits, span_s = series.limits, _span_s(series)
    if len(series.looks) < limits.looks:
        yield f"{len(series.looks)} looks, at least {limits.looks} are needed"
    if span_s * 1000 < INTERVALS * limits.commit_interval_ms:
        yield f"{span_s:.0f} s are less than {INTERVALS} commit intervals of {limits.commit_interval_ms} ms"
    for name, side in (("canary", series.canary), ("old members", series.old)):
        if not side.partitions:
            yield f"the {name} held no partition over two looks"
        elif side.arrived < limits.records:
            yield (f"{side.arrived} records arrived for the {name}, at least {limits.records} are needed")
    if series.old.partitions and series.old.commits < 2:  # noqa: PLR2004 - two make an interval
        yield f"the old members committed {series.old.commits:g} times a partition: there is no rate"


def _enough(series: _Series, lacking: Sequence[str]) -> Finding:
    seen = (
        f"{len(series.looks)} looks over {_span_s(series):.0f} s; canary: {series.canary.members} members, "
        f"{series.canary.partitions} partitions, {series.canary.arrived} records; old members: "
        f"{series.old.members}, {series.old.partitions} partitions, {series.old.arrived} records"
    )
    if not lacking:
        return Finding(rule="K01", verdict=Verdict.PASS, reason=f"enough was seen: {seen}")
    return Finding(
        rule="K01",
        verdict=Verdict.INCONCLUSIVE,
        reason=f"the canary cannot be compared: {'; '.join(lacking)} ({seen})",
        hint="watch it longer (canary_watch_s), while records arrive for both sides",
    )


def _lag_slope(series: _Series) -> Finding:
    canary, old = _pct(series.canary.growth), _pct(series.old.growth)
    said = (
        f"the canary's lag grows by {canary} % of what arrives (median of its partitions), the old "
        f"members' by {old} %; {series.limits.lag_growth_pct} points more are allowed"
    )
    bad = canary - max(0, old) > series.limits.lag_growth_pct
    return _finding("K02", said, "look at the canary's processing time and its log", bad=bad)


def _commit_rate(series: _Series) -> Finding:
    canary, old = _pct(series.canary.progress), _pct(series.old.progress)
    wanted = min(100, old) * series.limits.commit_rate_pct // 100
    said = (
        f"the canary committed {canary} % of what arrived (median of its partitions), the old members "
        f"{old} %; at least {wanted} % are wanted"
    )
    return _finding("K03", said, "look at the canary's commits and its log", bad=canary < wanted)


def _errors(series: _Series) -> Finding:
    records = series.limits.records
    canary, old = (errors(series.looks, series.found, side, records) for side in (Side.CANARY, Side.OLD))
    share = ceil(len(old) * series.canary.members / series.old.members) if series.old.members else 0
    allowed = series.limits.errors + share
    said = f"{len(canary)} errors of the canary, {len(old)} of the old members, {allowed} are allowed"
    named = f": {sentence_list(list(canary))}" if canary else ""
    return _finding("K04", f"{said}{named}", "look at the canary's log", bad=len(canary) > allowed)


def _rebalances(series: _Series) -> Finding:
    met, allowed = unrest(series.looks), series.limits.rebalances
    said = (
        f"{met.total} rebalances, {allowed} are allowed: {met.canary} because the canary came or went, "
        f"{met.old} because old members did, {met.contention} although nobody did"
    )
    hint = "look why members come and go; where nobody did, compare the members' assignors (C25)"
    if met.total > allowed and met.canary + met.contention <= allowed:
        return Finding(rule="K05", verdict=Verdict.INCONCLUSIVE, reason=said, hint=hint)
    return _finding("K05", said, hint, bad=met.total > allowed)


def _both_stores(series: _Series) -> Finding:
    behind = [str(t.at) for t in series.found if t.side is Side.CANARY and not t.kafka_follows]
    said = "the canary's commits reach Kafka too"
    if behind:
        said = f"the canary commits {sentence_list(behind)} to ZooKeeper only: Kafka's offset stands still"
    return _finding(
        "K06", said, "look at the canary's Kafka side; the toggle will ask for it (O8)", bad=bool(behind)
    )


def _pct(share: float | None) -> int:
    return round(100 * (share or 0.0))


def _finding(rule: str, said: str, hint: str, *, bad: bool) -> Finding:
    return Finding(
        rule=rule, verdict=Verdict.FAIL if bad else Verdict.PASS, reason=said, hint=hint if bad else ""
    )
