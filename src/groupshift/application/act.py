"""Act: the one change of a stage. Observe, journal the intent, act, journal, read back.

A process may be killed at any instruction; called again it reaches the same end and acts once: fleet
changes carry a change id, mode writes compare with the node that was met when they were intended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from groupshift.application import acts
from groupshift.application.approval import demand_approved, outdated, void, voided
from groupshift.application.brief_text import canary_measured
from groupshift.application.environment import Environment
from groupshift.application.observe import LOOK_AGAIN_S, patient
from groupshift.application.records import Migration, load
from groupshift.domain.judgement import ActOutcome, ActState, Judgement
from groupshift.domain.plan import Gate, Phase, Stage, StageName
from groupshift.domain.step import ReplaceMembers, Soak
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.clock import CrashPoint
from groupshift.ports.journal import Entry, EventKind, StepRecord, StepState


def act(env: Environment, migration: str, name: StageName, token: int) -> ActOutcome:
    """See `App.act`."""
    found = load(env, migration)
    stage = found.stage(name)
    if stage is None or isinstance(stage.step, Soak):
        return ActOutcome(state=ActState.UNCHANGED, detail=f"the plan has no act for {name}")
    step = found.steps.get(name)
    if step is not None and step.state is StepState.DONE:
        return _outcome(found, step, ActState.UNCHANGED)
    _demand_phase(found, name)
    scribe = _Scribe(env, found, stage, token)
    step = _intend(env, found, stage, scribe) if step is None else _resume(env, found, stage, step, scribe)
    return _complete(env, found, stage, step, scribe)


class _Scribe:
    """Journals what happens to one stage under one token; the token is checked by every write."""

    def __init__(self, env: Environment, found: Migration, stage: Stage, token: int) -> None:
        self._env, self._found, self._stage, self.token = env, found, stage, token

    def write(
        self,
        kind: EventKind,
        body: Mapping[str, Any],
        step: StepRecord | None = None,
        phase: Phase | None = None,
    ) -> None:
        """One event, with the step's and the migration's new state, in one transaction."""
        self._env.append(
            Entry(
                migration=self._found.id,
                at_ms=self._env.clock.now_ms(),
                kind=kind,
                stage=self._stage.name,
                body=body,
                token=self.token,
                step=step,
                phase=phase,
            )
        )


def _intend(env: Environment, found: Migration, stage: Stage, scribe: _Scribe) -> StepRecord:
    """Check that the act is allowed, and write down what will be done before it is."""
    _demand_allowed(env, found, stage)
    acts.take_fence(env, found, stage, scribe.token)
    env.crash.reached(stage.name, CrashPoint.BEFORE_JOURNAL)
    intent = acts.intent(env, found, stage)
    step = StepRecord(stage=stage.name, state=StepState.INTENDED, intent=intent)
    forward = not stage.name.undoes and stage.name is not StageName.FINALISE
    scribe.write(EventKind.INTENDED, intent, step, Phase.RUNNING if forward else None)
    env.crash.reached(stage.name, CrashPoint.AFTER_JOURNAL)
    return step


def _resume(
    env: Environment, found: Migration, stage: Stage, step: StepRecord, scribe: _Scribe
) -> StepRecord:
    """Go on with an act that was begun. One that was not made yet is allowed anew first, and where
    somebody else changed what was met it starts over (F7: on a bad version start over).

    Members are replaced as they were approved: who joined or left since the intent makes the approval
    void, unless the fleet has taken the change up. The way back never asks."""
    scribe.write(EventKind.RESUMED, {"from": step.state.value})
    if step.state is not StepState.INTENDED:
        return step
    match acts.standing(env, found, stage, step.intent):
        case acts.Standing.MADE:
            return step
        case acts.Standing.AS_MET:
            _demand_as_approved(env, found, stage, step, scribe)
            _demand_allowed(env, found, stage)
            acts.take_fence(env, found, stage, scribe.token)
            return step
        case acts.Standing.OTHER:
            return _intend(env, found, stage, scribe)


def _complete(
    env: Environment, found: Migration, stage: Stage, step: StepRecord, scribe: _Scribe
) -> ActOutcome:
    """From where the step stands to its end: act, journal, read back, journal."""
    if step.state is StepState.INTENDED:
        result = acts.perform(env, found, stage, step.intent, scribe.token)
        env.crash.reached(stage.name, CrashPoint.AFTER_ACT)
        step = replace(step, state=StepState.ACTED, result=result)
        scribe.write(EventKind.ACTED, result, step)
    seen = acts.read_back(env, found, stage, step.result, step.intent)
    step = replace(step, state=StepState.DONE)
    scribe.write(EventKind.READ_BACK, seen, step)
    env.crash.reached(stage.name, CrashPoint.AFTER_READ_BACK)
    return _outcome(found, step, ActState.DONE)


def _demand_phase(found: Migration, name: StageName) -> None:
    """Acts forward need an approved or running migration, acts back one that is rolling back."""
    allowed = {Phase.ROLLING_BACK} if name.undoes else {Phase.APPROVED, Phase.RUNNING}
    if name is StageName.FINALISE:
        allowed |= {Phase.MOVED}
    if found.phase not in allowed:
        plan_only = "; it is a plan only: run again with execute" if found.phase is Phase.PREVIEW else ""
        raise Conflict(
            f"migration {found.id} is {found.phase}, so stage {name} may not act{plan_only}; "
            f"look at it with: groupshift status {found.id}"
        )


def _demand_as_approved(
    env: Environment, found: Migration, stage: Stage, step: StepRecord, scribe: _Scribe
) -> None:
    """Raise `Void`, and journal it once, when the members are not the approved ones any more; looked at
    again as long as patience lasts."""
    if not isinstance(stage.step, ReplaceMembers) or stage.name.undoes:
        return
    deadline = env.clock.now_ms() + env.thresholds.patience_s * 1000
    while changed := outdated(env, found, stage, step.intent.get("members")):
        known = voided(found)
        if known is None and env.clock.now_ms() < deadline:
            env.clock.sleep(LOOK_AGAIN_S)
            continue
        gate = stage.gate or Gate.PLAN
        if known is None:
            scribe.write(EventKind.VOIDED, {"gate": gate.value, "changes": list(changed)})
        raise void(gate, changed)


def _demand_allowed(env: Environment, found: Migration, stage: Stage) -> None:
    """Approval still true, preconditions true of the live group."""
    if stage.gate is not None:
        demand_approved(env, found, stage.gate)
    if stage.before:
        wanted = found.wanted(stage.name)
        _, judged = patient(env, found.record.group, found.plan.driver, stage.before, wanted)
        _raise_if_bad(found, stage, judged)


def _raise_if_bad(found: Migration, stage: Stage, judged: Judgement) -> None:
    said = "; ".join(judged.reasons[:3])
    what = f"stage {stage.name} of migration {found.id} was not started: {said}"
    if judged.verdict is Verdict.FAIL:
        raise Rejected(f"{what}; correct that and run it again, nothing was changed")
    if judged.verdict is Verdict.ERROR:
        raise Transient(f"{what}; run it again, nothing was changed")


def _outcome(found: Migration, step: StepRecord, state: ActState) -> ActOutcome:
    """With what the canary measured, where a person is asked for the members behind it."""
    instruction = str(step.result.get("instruction", ""))
    measured = "" if step.stage is StageName.CANARY or step.stage.undoes else canary_measured(found)
    return ActOutcome(
        state=ActState.PENDING if instruction else state,
        detail=str(step.result.get("detail", "")),
        instruction=f"{instruction}\n\n{measured}" if instruction and measured else instruction,
        change_id=str(step.intent.get("change_id", "")),
    )
