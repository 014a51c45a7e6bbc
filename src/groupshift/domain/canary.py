"""A canary: which members it replaces, looks at the group while it is watched beside the old members, what a
series of them measures, and the numbered rules that judge it (K…, ``canary_rules.toml``). Pure.

Two sides share the group: the canary's members and the old ones. What is compared is what both sides
show to anybody who looks: owner nodes, offsets in both stores, log ends, who is registered. Too little data
is never a pass: K01 is then inconclusive and the comparing rules are not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import ceil
from statistics import linear_regression, median

from groupshift.domain.facts import Facts, Slot, sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind
from groupshift.domain.old_members import Held, held_now, shares
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rules import Rules, Says, some
from groupshift.domain.verdict import Finding, Verdict

INTERVALS = 4
"""A watch is at least so many commit intervals: a lag that saws by one interval must not look like a
trend."""


def canary_places(view: GroupView, old: Sequence[Slot], *, count: int, share: float) -> list[Slot]:
    """Return those of the old places that are replaced first, by name: so many, or (``share`` above 0) the
    fewest that hold this share of the partitions.

    A member's share is what the group's assignor gives to its streams; all old places where even they do
    not hold so much."""
    if not share:
        return list(old[:count])
    due = shares(view)
    wanted, chosen = ceil(share * len(view.partitions)), list[Slot]()
    for place in sorted(old, key=lambda each: (-due.get(each.member_id or "", 0), each.name)):
        if chosen and sum(due.get(each.member_id or "", 0) for each in chosen) >= wanted:
            break
        chosen.append(place)
    return sorted(chosen, key=lambda place: place.name)


class Side(StrEnum):
    """Who is compared with whom."""

    CANARY = "canary"
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The group at ``at_ms``: members of either side, places of the canary that are down, ``ids_pzxid``
    (every coming and going changes it), owned partitions and those that nobody owned.

    The journal keeps `dataclasses.asdict` of it; `groupshift.domain.plain.from_plain` reads that."""

    at_ms: int
    ids_pzxid: int
    canary: tuple[str, ...]
    old: tuple[str, ...]
    down: tuple[str, ...]
    unowned: tuple[str, ...]
    held: tuple[Held, ...]


def look_of(facts: Facts, slots: Collection[str]) -> Look:
    """What is seen now. ``slots`` are the canary's places; where the driver cannot know who is in them,
    every migration-aware member is the canary's."""
    view = facts.view
    places = [place for place in facts.places if place.name in slots]
    known = {place.member_id for place in places if place.member_id}
    aware = [member.member_id for member in view.of_kind(MemberKind.AWARE)]
    present = {None, *(member.member_id for member in view.members)}
    return Look(
        at_ms=view.taken_at_ms,
        ids_pzxid=view.ids_pzxid,
        canary=tuple(member for member in aware if not places or member in known),
        old=tuple(member.member_id for member in view.of_kind(MemberKind.ZOOKEEPER)),
        down=tuple(place.name for place in places if not place.running or place.member_id not in present),
        unowned=tuple(str(at) for at, owners in view.owners_by_partition.items() if not owners),
        held=held_now(view),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One partition over its longest interval: ``growth`` is the slope of its lag as a share of what
    arrives (1: nothing is committed, 0: the lag stands), ``progress`` committed records by arrived ones;
    both 0 when nothing arrived. ``commits`` counts the looks that saw the offset node advance."""

    at: TopicPartition
    side: Side
    arrived: int
    growth: float
    progress: float
    commits: int
    kafka_follows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One side: its members, its partitions, and medians over those with arrivals; 0 without any."""

    members: int
    partitions: int
    arrived: int
    growth: float
    progress: float
    commits: float


def trends(series: Sequence[Look]) -> tuple[Trend, ...]:
    """Every partition that one member of either side held over at least two looks, sorted."""
    intervals: dict[TopicPartition, dict[tuple[str, int, Side], list[tuple[int, Held]]]] = {}
    for look in series:
        sides = dict.fromkeys(look.old, Side.OLD) | dict.fromkeys(look.canary, Side.CANARY)
        for held in look.held:
            if held.member_id in sides:
                key = (held.member_id, held.czxid, sides[held.member_id])
                intervals.setdefault(held.at, {}).setdefault(key, []).append((look.at_ms, held))
    longest = {at: max(each.items(), key=lambda item: len(item[1])) for at, each in sorted(intervals.items())}
    return tuple(
        _trend(at, key[2], samples)
        for at, (key, samples) in longest.items()
        if samples[-1][0] > samples[0][0]
    )


def _trend(at: TopicPartition, side: Side, samples: Sequence[tuple[int, Held]]) -> Trend:
    (since, first), (until, last) = samples[0], samples[-1]
    arrived = last.end - first.end
    rate = arrived / (until - since)
    lags = [held.end - max(held.znode, 0) for _, held in samples]
    slope = linear_regression([at_ms for at_ms, _ in samples], lags).slope
    return Trend(
        at=at,
        side=side,
        arrived=arrived,
        growth=slope / rate if arrived > 0 else 0.0,
        progress=(last.znode - first.znode) / arrived if arrived > 0 else 0.0,
        commits=sum(after.znode > before.znode for (_, before), (_, after) in pairwise(samples)),
        kafka_follows=last.znode == first.znode or last.kafka > min(first.kafka, first.znode),
    )


def measure(series: Sequence[Look], all_trends: Iterable[Trend], side: Side) -> Measure:
    """One side of a series; ``all_trends`` are the trends of both."""
    own = [trend for trend in all_trends if trend.side is side]
    busy = [trend for trend in own if trend.arrived > 0]
    return Measure(
        members=len({name for look in series for name in getattr(look, side)}),
        partitions=len(own),
        arrived=sum(trend.arrived for trend in busy),
        growth=median([trend.growth for trend in busy] or [0.0]),
        progress=median([trend.progress for trend in busy] or [0.0]),
        commits=median([float(trend.commits) for trend in busy] or [0.0]),
    )


def errors(series: Sequence[Look], all_trends: Iterable[Trend], side: Side, records: int) -> list[str]:
    """What went wrong on one side, one clause each: a member that left, a place that was down, a
    partition that lost its owner, a committed offset that went back, a partition that stood still
    although at least ``records`` arrived."""
    clauses = [
        f"{trend.at} was not committed although {trend.arrived} records arrived"
        for trend in all_trends
        if trend.side is side and trend.arrived >= max(1, records) and not trend.commits
    ]
    for before, after in pairwise(series):
        own = set(getattr(before, side))
        now = {held.at: held.znode for held in after.held}
        was = [held for held in before.held if held.member_id in own]
        down = set(after.down) - set(before.down) if side is Side.CANARY else set()
        clauses += [f"{member} left the group" for member in sorted(own - {*after.canary, *after.old})]
        clauses += [f"place {name} was down" for name in sorted(down)]
        clauses += [
            f"{each.at} lost its owner {each.member_id}" for each in was if str(each.at) in after.unowned
        ]
        clauses += [
            f"the offset of {each.at} went back from {each.znode} to {now[each.at]}"
            for each in was
            if now.get(each.at, each.znode) < each.znode
        ]
    return list(dict.fromkeys(clauses))


def unrest(series: Sequence[Look]) -> Counter[str]:
    """How many looks saw the group not at rest, by reason: ``canary`` and ``old``, members of that side came
    or went; ``contention``, owner nodes changed although nobody did."""
    counts: Counter[str] = Counter()
    for before, after in pairwise(series):
        if before.canary != after.canary:
            counts[Side.CANARY] += 1
        elif (before.old, before.ids_pzxid) != (after.old, after.ids_pzxid):
            counts[Side.OLD] += 1
        elif {(each.at, each.czxid) for each in before.held} != {
            (each.at, each.czxid) for each in after.held
        }:
            counts["contention"] += 1
    return counts


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
class Series:
    """Everything the rules look at: what was seen, what it measures, and the limits."""

    looks: Sequence[Look]
    trends: tuple[Trend, ...]
    canary: Measure
    old: Measure
    limits: CanaryLimits


RULES: Rules[Series] = Rules("domain/canary_rules.toml")
_rule = RULES.rule


def judged(looks: Sequence[Look], limits: CanaryLimits) -> tuple[Finding, ...]:
    """K01 enough was seen · K02 lag slope · K03 commit rate · K04 errors · K05 rebalances · K06 commits
    in both stores. Compared rules are left out where K01 is inconclusive."""
    all_trends = trends(looks)
    canary, old = (measure(looks, all_trends, side) for side in Side)
    series = Series(looks=looks, trends=all_trends, canary=canary, old=old, limits=limits)
    findings = RULES["K01"].ask(series)
    if findings[0].verdict is Verdict.PASS:
        return RULES.ask(series)
    return (*findings, *RULES.ask(series, ("K04", "K05")))


@_rule("K01")
def _enough(series: Series) -> Iterator[Says]:
    """Looks, time, partitions and records of both sides, and commits of the old members to compare with."""
    looks, limits, old = series.looks, series.limits, series.old
    span_ms = looks[-1].at_ms - looks[0].at_ms if looks else 0
    lacking = []
    if len(looks) < limits.looks:
        lacking.append(f"{len(looks)} looks, at least {limits.looks} are needed")
    if span_ms < INTERVALS * limits.commit_interval_ms:
        wanted = f"{INTERVALS} commit intervals of {limits.commit_interval_ms} ms"
        lacking.append(f"{span_ms / 1000:.0f} s are less than {wanted}")
    for name, side in (("canary", series.canary), ("old members", old)):
        if not side.partitions:
            lacking.append(f"the {name} held no partition over two looks")
        elif side.arrived < limits.records:
            lacking.append(
                f"{side.arrived} records arrived for the {name}, at least {limits.records} are needed"
            )
    if old.partitions and old.commits < 2:  # noqa: PLR2004 - two make an interval
        lacking.append(f"the old members committed {old.commits:g} times a partition: there is no rate")
    amounts = (
        f"{len(looks)} looks over {span_ms / 1000:.0f} s; canary: {series.canary.members} members, "
        f"{series.canary.partitions} partitions, {series.canary.arrived} records; old members: "
        f"{old.members}, {old.partitions} partitions, {old.arrived} records"
    )
    yield (
        Says("too_little", lacking="; ".join(lacking), seen=amounts)
        if lacking
        else Says("enough", seen=amounts)
    )


@_rule("K02")
def _lag_slope(series: Series) -> Iterator[Says]:
    """The canary may be slower than the old members by so many points, however slow they are."""
    canary, old = round(100 * series.canary.growth), round(100 * series.old.growth)
    allowed = series.limits.lag_growth_pct
    verdict = None if canary - max(0, old) > allowed else Verdict.PASS
    yield Says("lag_slope", verdict=verdict, canary=canary, old=old, allowed=allowed)


@_rule("K03")
def _commit_rate(series: Series) -> Iterator[Says]:
    """A share of what the old members commit; who catches up commits more than arrives."""
    canary, old = round(100 * series.canary.progress), round(100 * series.old.progress)
    wanted = min(100, old) * series.limits.commit_rate_pct // 100
    verdict = None if canary < wanted else Verdict.PASS
    yield Says("commit_rate", verdict=verdict, canary=canary, old=old, wanted=wanted)


@_rule("K04")
def _errors(series: Series) -> Iterator[Says]:
    """As many as the old members have, by the number of members."""
    records = series.limits.records
    canary, old = (errors(series.looks, series.trends, side, records) for side in Side)
    share = ceil(len(old) * series.canary.members / series.old.members) if series.old.members else 0
    allowed = series.limits.errors + share
    named = f": {sentence_list(canary)}" if canary else ""
    verdict = None if len(canary) > allowed else Verdict.PASS
    yield Says("errors", verdict=verdict, canary=len(canary), old=len(old), allowed=allowed, named=named)


@_rule("K05")
def _rebalances(series: Series) -> Iterator[Says]:
    """Where the old members alone made them, a person decides."""
    met, allowed = unrest(series.looks), series.limits.rebalances
    canary, old, contention = (met[each] for each in (*Side, "contention"))
    verdict = Verdict.PASS if met.total() <= allowed else Verdict.INCONCLUSIVE
    yield Says(
        "rebalances",
        verdict=None if canary + contention > allowed else verdict,
        met=met.total(),
        allowed=allowed,
        canary=canary,
        old=old,
        contention=contention,
    )


@_rule("K06")
def _both_stores(series: Series) -> Iterator[Says]:
    """A migration-aware member commits to both stores (zookeeper-coordination.md §9)."""
    behind = [each.at for each in series.trends if each.side is Side.CANARY and not each.kafka_follows]
    yield from some("zookeeper_only", partitions=behind)
