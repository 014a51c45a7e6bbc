"""Plan: from a ready group to a journaled plan."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from datetime import UTC, datetime

from groupshift.application.assess import assess_patiently
from groupshift.application.environment import Environment
from groupshift.application.observe import facts
from groupshift.application.records import canonical, load
from groupshift.domain.books import BOOKS
from groupshift.domain.foreign_text import path_name
from groupshift.domain.group import GroupView
from groupshift.domain.judgement import Assessment, Planned
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import MoveName, MoveRequest, Phase, Plan, StageName, to_json
from groupshift.domain.rules_canary import INTERVALS
from groupshift.domain.rules_offsets import leftovers, resets
from groupshift.domain.step import ReplaceMembers
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Rejected
from groupshift.ports.journal import Entry, EventKind, MigrationRecord


def plan(env: Environment, request: MoveRequest) -> Planned:
    """See `App.plan`."""
    known = env.journal.of_run(request.run)
    if known:
        return planned(env, known.migration)
    _refuse_second(env, request)
    assessment, reasons = assess_patiently(env, request)
    if not assessment.ready:
        raise Rejected(_not_ready(request, assessment, reasons))
    seen = facts(env, request.group, request.driver)
    made = BOOKS[request.move].make_plan(request, assessment.view, seen.places)
    made = replace(made, notes=(*leftovers(assessment.view), *resets(assessment.view)))
    _refuse_unusable(env, request, assessment, made)
    return _journal(env, request, made)


def planned(env: Environment, migration: str) -> Planned:
    """The journaled plan of a migration. Raises `Rejected` for an unknown one."""
    found = load(env, migration)
    return Planned(migration=found.id, plan=found.plan, plan_hash=found.record.plan_hash)


def _refuse_second(env: Environment, request: MoveRequest) -> None:
    other = env.journal.open_of(request.group)
    if other and request.execute:
        raise Rejected(
            f"group {request.group} has the open migration {other.migration} ({other.phase}); "
            f"finish it or take it back with: groupshift roll-back {other.migration} --execute"
        )


def _not_ready(request: MoveRequest, assessment: Assessment, reasons: tuple[str, ...]) -> str:
    bad = [f for f in assessment.findings if f.verdict in {Verdict.FAIL, Verdict.ERROR}]
    first = max(bad, key=lambda finding: finding.verdict.rank)
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    hint = f"; {first.hint}" if first.hint else ""
    return f"group {request.group} is {assessment.readiness}: {first.rule}: {first.reason}{more}{hint}"


def _refuse_unusable(env: Environment, request: MoveRequest, assessment: Assessment, made: Plan) -> None:
    if env.signer is not None:
        env.signer.sign(b"")  # a key that cannot be used is found before anything begins
    members = len(assessment.view.members)
    if request.canary > members and made.stage(StageName.CANARY) is not None:
        raise Rejected(f"canary {request.canary} is more than the {members} members of group {request.group}")
    _refuse_unwatchable(env, assessment, made)
    if all(stage.name in _NO_ACT for stage in made.stages):
        raise Rejected(f"group {request.group} has nothing to move {_nothing_left(request, assessment.view)}")


def _nothing_left(request: MoveRequest, view: GroupView) -> str:
    if request.move is MoveName.PROTOCOL:
        return (
            f"to the {request.to} protocol: all its {len(view.members)} members speak it; roll back to undo"
        )
    old = len(view.of_kind(MemberKind.OLD))
    return (
        f"until {request.until} ({old} old members, {view.effective_mode} mode); "
        "choose a later until, or roll back to undo"
    )


def _refuse_unwatchable(env: Environment, assessment: Assessment, made: Plan) -> None:
    """A canary that could never be judged is refused before it is begun."""
    watch_s, stage = made.canary.watch_s, made.stage(StageName.CANARY)
    if not watch_s or stage is None or not isinstance(stage.step, ReplaceMembers):
        return
    interval_ms = env.thresholds.commit_interval_ms
    if watch_s * 1000 < INTERVALS * interval_ms:
        raise Rejected(
            f"canary_watch_s {watch_s} is less than {INTERVALS} commit intervals "
            f"(thresholds.commit_interval_ms {interval_ms}): nothing could be compared; "
            f"choose at least {-(-INTERVALS * interval_ms // 1000)}, or 0 to watch nothing"
        )
    if len(stage.step.slots) >= len(assessment.view.of_kind(MemberKind.OLD)):
        raise Rejected(
            f"the canary replaces all old members of group {made.group} ({', '.join(stage.step.slots)}): "
            "none is left to compare it with; choose a smaller canary, or canary_watch_s 0"
        )


_NO_ACT = frozenset({"soak", "finalise"})


def _journal(env: Environment, request: MoveRequest, made: Plan) -> Planned:
    now = env.clock.now_ms()
    run = request.run or f"{request.actor}-{now}"
    record = MigrationRecord(
        migration=migration_id(request.group, run, now),
        group=request.group,
        run=run,
        phase=Phase.PLANNED if request.execute else Phase.PREVIEW,
        plan_hash=made.hash,
        plan=to_json(made),
        request=canonical(asdict(request)),
        created_at_ms=now,
        updated_at_ms=now,
    )
    try:
        env.journal.create(record)
    except Conflict as taken:
        raise Rejected(str(taken)) from taken
    body = {"plan_hash": made.hash, "actor": request.actor, "stages": [s.name.value for s in made.stages]}
    env.append(Entry(migration=record.migration, at_ms=now, kind=EventKind.PLANNED, body=body))
    return Planned(migration=record.migration, plan=made, plan_hash=made.hash)


def migration_id(group: str, run: str, now_ms: int) -> str:
    """``<group>-<UTC time>-<4 hex>``: sorts by time, says what it is, safe as a folder name, in a URL and a
    shell (the group by `path_name`)."""
    stamp = datetime.fromtimestamp(now_ms / 1000, tz=UTC).strftime("%Y%m%dT%H%M%S")
    return f"{path_name(group)}-{stamp}-{hashlib.sha256(f'{run}/{now_ms}'.encode()).hexdigest()[:4]}"
