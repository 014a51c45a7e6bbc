"""Finalise, or keep the way back open: the two good ends of a forward run."""

from __future__ import annotations

from groupshift.application.act import act
from groupshift.application.environment import Environment
from groupshift.application.observe import patient
from groupshift.application.records import Migration, load
from groupshift.domain.judgement import Closing
from groupshift.domain.moves import StageName, Until
from groupshift.domain.phases import Phase
from groupshift.domain.rulebook import BEFORE
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Entry, EventKind, StepState

_REACHED = {
    Until.CANARY: "moved as far as the canary, still in zookeeper mode",
    Until.ROLL: "all members are migration-aware, still in zookeeper mode",
    Until.TOGGLE: "moved, still on MigratingConsumer",
    Until.RETIRE: "moved to plain Kafka consumers",
}


def keep(env: Environment, migration: str, token: int) -> Closing:
    """See `App.keep`."""
    found = load(env, migration)
    reason = f"{_REACHED[found.plan.until]}; the way back is open"
    return _moved(env, found, token, reason)


def finalise(env: Environment, migration: str, token: int) -> Closing:
    """See `App.finalise`."""
    found = load(env, migration)
    if found.phase is Phase.FINALISED:
        return Closing(phase=found.phase, verdict=Verdict.PASS, reason="the mode node is gone")
    if found.plan.until is not Until.RETIRE or found.plan.stage(StageName.FINALISE) is None:
        reason = f"{_REACHED[found.plan.until]}; the mode node is kept because its members need it"
        return _moved(env, found, token, reason)
    if not _begun(found):
        _, judged = patient(env, found.record.group, found.plan.driver, BEFORE[StageName.FINALISE])
        if judged.verdict is not Verdict.PASS:
            return _moved(env, found, token, f"moved, the mode node is kept: {judged.reasons[0]}")
    act(env, migration, StageName.FINALISE, token)
    reason = "the group is coordinated by Kafka alone; the mode node is gone"
    _write(env, found, token, (EventKind.CLOSED, Phase.FINALISED, reason))
    return Closing(phase=Phase.FINALISED, verdict=Verdict.PASS, reason=reason)


def _begun(found: Migration) -> bool:
    step = found.steps.get(StageName.FINALISE)
    return step is not None and step.state in {StepState.INTENDED, StepState.ACTED, StepState.DONE}


def _moved(env: Environment, found: Migration, token: int, reason: str) -> Closing:
    _write(env, found, token, (EventKind.KEPT, Phase.MOVED, reason))
    return Closing(phase=Phase.MOVED, verdict=Verdict.PASS, reason=reason)


def _write(env: Environment, found: Migration, token: int, what: tuple[EventKind, Phase, str]) -> None:
    kind, phase, reason = what
    env.journal.append(
        Entry(
            migration=found.id,
            at_ms=env.clock.now_ms(),
            kind=kind,
            body={"reason": reason, "verdict": Verdict.PASS.value},
            token=token,
            phase=phase,
        )
    )
