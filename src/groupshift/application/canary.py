"""Watching the canary: looks are journaled while it is watched, and judged when its time is over."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.records import Migration
from groupshift.domain import rules_canary
from groupshift.domain.canary import Look, look_of
from groupshift.domain.facts import Facts
from groupshift.domain.judgement import StageStatus
from groupshift.domain.plan import Stage, StageName
from groupshift.domain.rules_canary import CanaryLimits
from groupshift.domain.step import ReplaceMembers
from groupshift.domain.verdict import Finding
from groupshift.ports.journal import Entry, EventKind
from groupshift.settings import Thresholds


def is_watched(found: Migration, name: StageName) -> bool:
    """Whether this stage is a canary that the plan wants watched."""
    return name is StageName.CANARY and found.plan.canary.watch_s > 0


def series(found: Migration) -> tuple[Look, ...]:
    """The looks journaled so far, in order."""
    return tuple(Look.from_data(event.body) for event in found.events if event.kind is EventKind.OBSERVED)


def watched(env: Environment, found: Migration, stage: Stage, seen: Facts) -> StageStatus:
    """One more look, unless the last one was just now; settled once the watch is over.

    The time runs from the first look, which is taken once the canary has settled; whoever looks rarely
    (Airflow's sensor) goes on until there are as many looks as a judgement needs."""
    looks = series(found)
    now = seen.view.taken_at_ms
    if not looks or now - looks[-1].at_ms >= env.thresholds.canary_every_s * 1000:
        slots = stage.step.slots if isinstance(stage.step, ReplaceMembers) else ()
        looks = (*looks, look_of(seen, slots))
        _journal(env, found, looks[-1])
    watch_s, wanted = found.plan.canary.watch_s, env.thresholds.canary_looks
    left = watch_s - (now - looks[0].at_ms) // 1000
    if left > 0:
        return StageStatus(settled=False, detail=f"the canary is watched: {left} of {watch_s} s left")
    if len(looks) < wanted:
        return StageStatus(settled=False, detail=f"the canary is watched: {len(looks)} of {wanted} looks")
    return StageStatus(settled=True, detail=f"the canary was watched for {watch_s} s")


def judged(env: Environment, found: Migration) -> tuple[Finding, ...]:
    """What the looks say of the canary beside the old members."""
    return rules_canary.judged(series(found), limits(env.thresholds))


def limits(thresholds: Thresholds) -> CanaryLimits:
    """The numbers that decide, from the settings."""
    return CanaryLimits(
        looks=thresholds.canary_looks,
        records=thresholds.canary_records,
        lag_growth_pct=thresholds.canary_lag_growth_pct,
        commit_rate_pct=thresholds.canary_commit_rate_pct,
        errors=thresholds.canary_errors,
        rebalances=thresholds.canary_rebalances,
        commit_interval_ms=thresholds.commit_interval_ms,
        every_s=thresholds.canary_every_s,
    )


def _journal(env: Environment, found: Migration, look: Look) -> None:
    env.append(
        Entry(
            migration=found.id,
            at_ms=env.clock.now_ms(),
            kind=EventKind.OBSERVED,
            stage=StageName.CANARY,
            body=look.to_data(),
        )
    )
