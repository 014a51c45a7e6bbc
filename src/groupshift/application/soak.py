"""Soak: keep judging for a while after the last act."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.observe import patient
from groupshift.application.records import Migration, findings_data, load
from groupshift.domain.judgement import Judgement, StageStatus
from groupshift.domain.plan import StageName
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Entry, EventKind


def soak(env: Environment, migration: str) -> StageStatus:
    """See `App.soak`. The time runs from the first look."""
    found = load(env, migration)
    stage = found.plan.stage(StageName.SOAK)
    if stage is None or found.latest(EventKind.SOAK_FAILED):
        return StageStatus(settled=True, detail="the soak is over")
    started = found.latest(EventKind.SOAK_STARTED)
    since = started.at_ms if started else _start(env, found)
    wanted = found.wanted(StageName.SOAK)
    _, judged = patient(env, found.record.group, found.plan.driver, stage.after, wanted)
    if judged.verdict is Verdict.FAIL:
        _fail(env, found, judged)
        return StageStatus(settled=True, detail=f"failed during the soak: {judged.reasons[0]}")
    left = found.plan.soak_s - (env.clock.now_ms() - since) // 1000
    if left > 0:
        return StageStatus(settled=False, detail=f"{left} s left")
    return StageStatus(settled=True, detail=f"soaked for {found.plan.soak_s} s")


def _start(env: Environment, found: Migration) -> int:
    now = env.clock.now_ms()
    env.append(Entry(migration=found.id, at_ms=now, kind=EventKind.SOAK_STARTED, stage=StageName.SOAK))
    return now


def _fail(env: Environment, found: Migration, judged: Judgement) -> None:
    bad = [finding for finding in judged.findings if finding.verdict is not Verdict.PASS]
    env.append(
        Entry(
            migration=found.id,
            at_ms=env.clock.now_ms(),
            kind=EventKind.SOAK_FAILED,
            stage=StageName.SOAK,
            body={"findings": findings_data(bad)},
        )
    )
