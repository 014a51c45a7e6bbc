"""Finalise: make the optional steps after all that a run left out at its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from groupshift.domain.run import APPROVE, RunState, Step, StepState
from groupshift.engine.move import Run
from groupshift.engine.roll_back import acted_later
from groupshift.errors import Rejected
from groupshift.ports.runs import EventKind, NewEvent

P = TypeVar("P")


def left_out(run: Run[P]) -> tuple[Step, ...]:
    """Return the steps of the way there that were left out, in their order: the optional ones, and what a
    gate covers that was declined."""
    records = run.records
    return tuple(each for each in run.there.steps if each.key in records and records[each.key].left_out)


def require_finalisable(run: Run[P]) -> tuple[Step, ...]:
    """Return the steps that finalising would make; none for an open run that comes to them by itself.

    Raises `Rejected` when the run has no such step, or may not make it any more."""
    state = run.record.state
    if state is RunState.FINALISED:
        raise Rejected(f"run {run.name} is finalised already; see: groupshift report {run.name}")
    if state not in {RunState.MOVED, RunState.PLANNED, RunState.APPROVED, RunState.RUNNING}:
        raise Rejected(
            f"run {run.name} is {state} and cannot be finalised; see: groupshift status {run.name}"
        )
    if not any(each.optional for each in run.there.steps):
        raise Rejected(
            f"the plan of run {run.name} has nothing to finalise; see: groupshift report {run.name}"
        )
    if state is not RunState.MOVED:
        return ()
    later = acted_later(run)
    if later:
        raise Rejected(
            f"run {run.name} was followed by {later[0].run} on the same {run.record.target}: only the last "
            f"one may be finalised; see: groupshift status {later[0].run}"
        )
    steps = left_out(run)
    if not steps:
        raise Rejected(
            f"run {run.name} left nothing out that could be finalised; see: groupshift report {run.name}"
        )
    return steps


def begin_finalise(run: Run[P]) -> bool:
    """Let a run that moved make what it left out; its gates are asked again. Returns False for an open run:
    it only has to go on. Raises as `require_finalisable`; `Conflict` when another run is in the way."""
    run.refresh()
    steps = require_finalisable(run)
    if not steps:
        return False
    records, now = run.records, run.now()
    gates = (run.there.gate_of(each) for each in steps if each.kind != APPROVE)
    asking = {each.key for each in gates if each is not None}
    again = [each for each in run.there.steps if each in steps or each.key in asking]
    reopened = [
        replace(records[each.key], state=StepState.REOPENED, token=run.token, at_ms=now, result={})
        for each in again
    ]
    voids = [each for each in again if each.kind == APPROVE]
    voided = [NewEvent(kind=EventKind.VOIDED, step=each.key, body={"changes": []}) for each in voids]
    body = {"to": again[0].key, "why": "finalise", "steps": [each.key for each in again]}
    redo = NewEvent(kind=EventKind.REDO, step=again[0].key, body=body)
    run.write(redo, *voided, steps=reopened, state=RunState.RUNNING)
    return True
