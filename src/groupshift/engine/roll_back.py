"""Roll back, from any step before the point of no return, as far back as asked; or finalise: make the
optional steps after all that a run left out at its end."""

from __future__ import annotations

import json
from typing import Any

from groupshift.domain.run import APPROVE, IRREVERSIBLE, Plan, RunState, Step, StepState
from groupshift.domain.verdict import Verdict
from groupshift.engine.move import P, Run, Standing, handler_of
from groupshift.engine.run_end import reject
from groupshift.errors import Rejected, Transient
from groupshift.ports.run_claims import require_free
from groupshift.ports.runs import EventKind, NewEvent, RunRecord

NOTHING_DONE = frozenset({RunState.PREVIEW, RunState.PLANNED, RunState.APPROVED, RunState.REJECTED})
"""States of a run that has changed nothing."""


def rollback_of(run: Run[P], to: str) -> Plan | None:
    """Return the plan that a rollback would walk, made from the begun steps and the facts of now; None where
    nothing was begun, or the run walks that rollback already. Nothing is changed.

    Raises:
        Rejected: the move does not go back there, the rollback is closed, or a later run of the same target
            acted.
        Transient: nobody can say now whether it is closed.
    """
    if to not in run.move.back_to:
        known = ", ".join(run.move.back_to)
        raise Rejected(f"move {run.move.name} does not go back to {to!r}; it goes back to {known}")
    state = run.record.state
    if state in NOTHING_DONE:
        return None
    last = run.rollbacks()[-1:]
    if state is RunState.ROLLING_BACK and last and last[0].body["to"] == to:
        return None
    later = acted_later(run)
    if later:
        raise Rejected(
            f"run {run.name} was followed by {later[0].run} on the same {run.record.target}; roll that one "
            f"back: groupshift roll-back {later[0].run} --execute"
        )
    if state is RunState.FINALISED:
        raise Rejected(f"run {run.name} is finalised: there is no rollback any more; plan a new run")
    facts = run.move.look_back(run.ports, run.request)
    _require_open(run, facts)
    return run.move.roll_back_plan(run, run.begun, facts, to)


def require_begun(record: RunRecord) -> None:
    """Raise `Rejected` for a run that was rejected or only planned: there is nothing to roll back."""
    if record.state in {RunState.REJECTED, RunState.PREVIEW}:
        raise Rejected(
            f"run {record.run} is {record.state}: there is nothing to roll back; plan a new one with: "
            f"groupshift {record.move} run --execute"
        )


def begin_roll_back(run: Run[P], to: str, because: str = "") -> bool:
    """Let the run go back; ``because`` says why where nobody asked for it. Returns False where nothing was
    begun. Beginning the same rollback again begins nothing new. Its plan is made of what is met behind the
    fence: what a former process still started is in it. Raises as `rollback_of`, `Fenced`, and `Conflict`
    when another open run is in the way: its members and nodes are not fenced off."""
    run.refresh()
    if rollback_of(run, to) is None:
        return run.record.state is RunState.ROLLING_BACK
    target = run.record.target
    require_free(target, (each for each in run.tools.runs.in_the_way(target) if each.run != run.name))
    run.move.fence(run, "rolling_back")
    run.refresh()
    facts = run.move.look_back(run.ports, run.request)
    _require_open(run, facts)
    plan = run.move.roll_back_plan(run, run.begun, facts, to)
    number, walked = len(run.rollbacks()) + 1, json.loads(plan.text)
    body = {"number": number, "to": to, "because": because, "plan": walked}
    run.write(NewEvent(kind=EventKind.ROLLBACK_BEGUN, body=body), state=RunState.ROLLING_BACK)
    return True


def take_back(run: Run[P], to: str) -> bool:
    """Begin the rollback that somebody asks for, as `begin_roll_back`; a run that changed nothing is closed
    as rejected, and its target is free."""
    if begin_roll_back(run, to):
        return True
    if run.record.state in {RunState.PLANNED, RunState.APPROVED}:
        reject(run, "taken back before anything was changed")
    return False


def acted_later(run: Run[P]) -> tuple[RunRecord, ...]:
    """Return the later runs of the same target that changed something, newest first."""
    return tuple(
        each
        for each in run.tools.runs.of_target(run.record.target)
        if each.created_at_ms > run.record.created_at_ms and each.state not in NOTHING_DONE
    )


def _require_open(run: Run[P], facts: Any) -> None:
    """Raise `Rejected` where a rollback is closed, `Transient` where nobody can say. What closes it is
    observed, not only marked: an irreversible step that was only written down closes nothing."""
    finding = run.move.may_roll_back(run, facts)
    for key, record in run.begun.items():
        step = run.there.step(key)
        if step is None or step.undo is not IRREVERSIBLE:
            continue
        unread = record.state in {StepState.INTENDED, StepState.ACTED}
        if not unread or handler_of(run.move, step).stands(run, step, record) is not Standing.AS_MET:
            raise Rejected(
                f"run {run.name} made step {key}, which cannot be undone: there is no rollback any more; go "
                f"on with: groupshift continue {run.name} --execute"
            )
    if finding.verdict is Verdict.FAIL:
        raise Rejected(f"run {run.name} cannot be rolled back: {finding.with_remedy}")
    if finding.verdict is Verdict.ERROR:
        raise Transient(
            f"nobody can say now whether run {run.name} can be rolled back: {finding.with_remedy}"
        )


def left_out(run: Run[P]) -> tuple[Step, ...]:
    """Return the steps of the way there that were left out, in their order: the optional ones, and what a
    gate covers that was declined."""
    records = run.records
    return tuple(each for each in run.there.steps if each.key in records and records[each.key].left_out)


def require_finalisable(run: Run[P]) -> tuple[Step, ...]:
    """Return the steps that finalising would make; none for an open run that comes to them by itself.

    Raises `Rejected` when the run has no such step, or may not make it any more."""
    state, steps, why = run.record.state, left_out(run), ""
    if state is RunState.FINALISED:
        why = "is finalised already"
    elif state not in {RunState.MOVED, RunState.PLANNED, RunState.APPROVED, RunState.RUNNING}:
        why = f"is {state} and cannot be finalised"
    elif not any(each.optional for each in run.there.steps):
        why = "has nothing to finalise in its plan"
    elif state is not RunState.MOVED:
        return ()
    elif later := acted_later(run):
        why = f"was followed by {later[0].run} on the same {run.record.target}: only the last one may be"
    elif not steps:
        why = "left nothing out that could be finalised"
    if why:
        raise Rejected(f"run {run.name} {why}; see: groupshift status {run.name}")
    return steps


def begin_finalise(run: Run[P]) -> bool:
    """Let a run that moved make what it left out; its gates are asked again. Returns False for an open run:
    it only has to go on. Raises as `require_finalisable`; `Conflict` when another run is in the way."""
    run.refresh()
    steps = require_finalisable(run)
    if not steps:
        return False
    records = run.records
    gates = (run.there.gate_of(each) for each in steps if each.kind != APPROVE)
    asking = {each.key for each in gates if each is not None}
    again = [each for each in run.there.steps if each in steps or each.key in asking]
    reopened = [run.put(each, StepState.REOPENED, records[each.key], result={}) for each in again]
    approvals = (each.key for each in again if each.kind == APPROVE)
    voided = [NewEvent(kind=EventKind.VOIDED, step=key, body={"changes": []}) for key in approvals]
    body = {"to": again[0].key, "why": "finalise", "steps": [each.key for each in again]}
    redo = NewEvent(kind=EventKind.REDO, step=again[0].key, body=body)
    run.write(redo, *voided, steps=reopened, state=RunState.RUNNING)
    return True
