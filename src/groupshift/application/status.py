"""Status: what the journal says about migrations."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.application.environment import Environment
from groupshift.application.proof import REPORT_FILE, folder
from groupshift.application.records import Migration, load
from groupshift.domain.evidence import Moment
from groupshift.domain.plan import Phase, Stage, StageName, Until
from groupshift.domain.secrets import without_login
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Event, EventKind, StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationStatus:
    """One judged moment: its verdict and the path of its report."""

    moment: Moment
    verdict: Verdict
    report: str
    judged_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """One stage: how far its act is (None: not begun), when it began, and what was judged. ``waits``: a
    person was asked to act, and nothing was seen of it yet."""

    stage: Stage
    step: StepState | None
    began_at_ms: int | None
    validations: tuple[ValidationStatus, ...]
    passed: bool
    waits: bool = False

    @property
    def act(self) -> str:
        """How far the act is, in words; empty where it is not begun."""
        if self.step is None:
            return ""
        return "waits for a person" if self.waits else self.step.value

    def verdict(self, moment: Moment) -> Verdict | None:
        """The verdict on a moment, None when it was not judged."""
        return next((each.verdict for each in self.validations if each.moment is moment), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStatus:
    """One migration: ``stages`` are the plan's, followed by those of the way back begun last."""

    migration: str
    group: str
    phase: Phase
    until: Until
    plan_hash: str
    created_at_ms: int
    updated_at_ms: int
    stages: tuple[StageProgress, ...]
    verdict: Verdict | None
    reason: str
    events: tuple[Event, ...]

    def stage(self, name: StageName) -> StageProgress | None:
        """The progress of one stage."""
        return next((each for each in self.stages if each.stage.name is name), None)


RECENT = 20
"""How many migrations a list shows."""


def status(env: Environment, migration: str | None) -> tuple[MigrationStatus, ...]:
    """See `App.status`."""
    if migration is not None:
        return (_status(env, load(env, migration)),)
    return tuple(_status(env, load(env, record.migration)) for record in env.journal.recent(RECENT))


def has_stage(env: Environment, migration: str, stage: StageName) -> bool:
    """See `App.has_stage`."""
    return load(env, migration).stage(stage) is not None


def _status(env: Environment, found: Migration) -> MigrationStatus:
    closed = next((e for e in reversed(found.events) if e.kind in {EventKind.CLOSED, EventKind.KEPT}), None)
    return MigrationStatus(
        migration=found.id,
        group=found.record.group,
        phase=found.phase,
        until=found.plan.until,
        plan_hash=found.record.plan_hash,
        created_at_ms=found.record.created_at_ms,
        updated_at_ms=found.record.updated_at_ms,
        stages=tuple(_progress(env, found, stage) for stage in (*found.plan.stages, *found.undo)),
        verdict=Verdict(closed.body["verdict"]) if closed else None,
        reason=str(closed.body["reason"]) if closed else "",
        events=found.events,
    )


def _progress(env: Environment, found: Migration, stage: Stage) -> StageProgress:
    step = found.steps.get(stage.name)
    asked = step is not None and bool(step.result.get("instruction"))
    waits = asked and found.verdict(stage.name, Moment.AFTER) is None
    begun = [event.at_ms for event in found.events if event.stage is stage.name]
    return StageProgress(
        stage=stage,
        step=StepState.INTENDED if waits else step.state if step else None,
        waits=waits,
        began_at_ms=begun[0] if begun else None,
        validations=tuple(
            validation
            for moment in Moment
            if (validation := _validation(env, found, stage.name, moment)) is not None
        ),
        passed=found.passed(stage.name),
    )


def _validation(
    env: Environment, found: Migration, stage: StageName, moment: Moment
) -> ValidationStatus | None:
    verdict = found.verdict(stage, moment)
    if verdict is None:
        return None
    at_ms = max(
        event.at_ms
        for event in found.events
        if event.kind is EventKind.JUDGED and event.stage is stage and event.body["moment"] == moment.value
    )
    report = without_login(env.evidence.path(found.id, stage.value, folder(moment), REPORT_FILE))
    return ValidationStatus(moment=moment, verdict=verdict, report=report, judged_at_ms=at_ms)
