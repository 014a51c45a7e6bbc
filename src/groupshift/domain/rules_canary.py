"""The numbered rules that judge a canary against the old members next to it. Pure: a series in, findings out.

Too little data is never a pass: K01 is then inconclusive and the comparing rules are not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from groupshift.domain.canary import Look, Measure, Side, Trend, errors, measure, trends, unrest
from groupshift.domain.facts import sentence_list
from groupshift.domain.verdict import Finding, Verdict

INTERVALS = 4
"""A watch is at least so many commit intervals: a lag that saws by one interval must not look like a
trend."""


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
