"""Finalise, or keep the way back open: the two good ends of a forward run."""

from __future__ import annotations

from groupshift.application.act import act
from groupshift.application.environment import Environment
from groupshift.application.observe import patient
from groupshift.application.records import Migration, load
from groupshift.domain.judgement import Closing
from groupshift.domain.plan import Phase, StageName, Until
from groupshift.domain.rulebook import BEFORE
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Entry, EventKind, StepState


def keep(env: Environment, migration: str, token: int) -> Closing:
    """See `App.keep`."""
    found = load(env, migration)
    reason = f"{found.book.reached(found.plan)}; the way back is open"
    return _moved(env, found, token, reason)


def finalise(env: Environment, migration: str, token: int) -> Closing:
    """See `App.finalise`."""
    found = load(env, migration)
    if found.phase is Phase.FINALISED:
        return Closing(phase=found.phase, verdict=Verdict.PASS, reason="the mode node is gone")
    if found.plan.until is not Until.RETIRE or found.plan.stage(StageName.FINALISE) is None:
        reason = f"{found.book.reached(found.plan)}; the mode node is kept because its members need it"
        return _moved(env, found, token, reason)
    if not _made(env, found):
        _, judged = patient(env, found.record.group, found.plan.driver, BEFORE[StageName.FINALISE])
        if judged.verdict is not Verdict.PASS:
            return _moved(env, found, token, f"moved, the mode node is kept: {judged.reasons[0]}")
    act(env, migration, StageName.FINALISE, token)
    reason = "the group is coordinated by Kafka alone; the mode node is gone"
    _write(env, found, token, (EventKind.CLOSED, Phase.FINALISED, reason))
    return Closing(phase=Phase.FINALISED, verdict=Verdict.PASS, reason=reason)


def _made(env: Environment, found: Migration) -> bool:
    """Whether the node was deleted already; an intent alone does not count."""
    step = found.steps.get(StageName.FINALISE)
    if step is None:
        return False
    return step.state is not StepState.INTENDED or env.mode.read(found.record.group).data is None


def _moved(env: Environment, found: Migration, token: int, reason: str) -> Closing:
    _write(env, found, token, (EventKind.KEPT, Phase.MOVED, reason))
    return Closing(phase=Phase.MOVED, verdict=Verdict.PASS, reason=reason)


def _write(env: Environment, found: Migration, token: int, what: tuple[EventKind, Phase, str]) -> None:
    kind, phase, reason = what
    env.append(
        Entry(
            migration=found.id,
            at_ms=env.clock.now_ms(),
            kind=kind,
            body={"reason": reason, "verdict": Verdict.PASS.value},
            token=token,
            phase=phase,
        )
    )
