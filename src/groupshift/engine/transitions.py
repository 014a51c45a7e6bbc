"""The transitions that a run makes at a step, each one transaction of the journal."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from groupshift.domain.reactions import Reaction, Response
from groupshift.domain.run import JUDGE, Checked, Instruction, Json, SparkJob, Step, StepRecord, StepState
from groupshift.domain.verdict import Verdict
from groupshift.engine.closing import end, seal
from groupshift.engine.handlers import act_data
from groupshift.engine.move import Run, changes, checked_data, handler_of
from groupshift.engine.progress import Moved, Stopped
from groupshift.errors import Broken
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, NewEvent

P = TypeVar("P")


def make_act(run: Run[P], step: Step, record: StepRecord, *, keep: Json | None = None) -> Moved:
    """Act with the journaled intent, under the fence; ``keep`` stays in the result beside what it returns.
    What was accepted for the act is journaled with it: its look may stop the process."""
    run.write(steps=(run.put(step, StepState.INTENDED, record.intent, record.result),))
    run.words = []
    made = handler_of(run.move, step).act(run, step, record.intent)
    run.tools.crash.reached(step.key, CrashPoint.AFTER_ACT)
    result = {**(keep or {}), **act_data(made)}
    acted = run.put(step, StepState.ACTED, record.intent, result)
    words, run.words = run.words, []
    run.write(NewEvent(kind=EventKind.ACTED, step=step.key, body=result), *words, steps=(acted,))
    if isinstance(made, Instruction):
        (run.options.instruct or run.options.tell)(step, made.text)
    return Moved(step=step, work=made if isinstance(made, Instruction | SparkJob) else None)


def leave_out(run: Run[P], step: Step, why: str) -> Moved:
    """Count a step as done that is not done, with the reason. A change that was made before it was to be made
    again stands: a rollback undoes it."""
    known = run.records.get(step.key)
    acted = [each for each in run.events(step.key) if each.kind is EventKind.ACTED]
    if known is not None and acted and changes(run.move, step):
        record = run.put(step, StepState.DONE, known.intent, acted[-1].body)
    else:
        record = run.put(step, StepState.DONE, {}, {"left_out": why or "left out"})
    run.write(NewEvent(kind=EventKind.KEPT, step=step.key, body={"why": why}), steps=(record,))
    return Moved(step=step)


def redo(run: Run[P], step: Step, checked: Checked) -> Moved:
    """Reopen the named step and all after it, up to this one, in one transaction. The named one keeps its
    result; all keep their intents."""
    keys = [each.key for each in run.plan.steps]
    first = run.plan.step(checked.redo_from)
    if first is None or keys.index(first.key) > keys.index(step.key):
        raise Broken(f"step {step.key} wants {checked.redo_from!r} done again, which is no step before it")
    records = run.records
    found = [records[key] for key in keys[keys.index(first.key) :] if key in records]
    reopened = [
        replace(
            each,
            state=StepState.REOPENED,
            token=run.token,
            at_ms=run.now(),
            result=each.result if each.key == first.key else {},
        )
        for each in found
    ]
    body = {"to": first.key, "why": checked.detail, "steps": [each.key for each in reopened]}
    redo = NewEvent(kind=EventKind.REDO, step=step.key, body=body)
    run.write(looked_event(step, checked), redo, steps=reversed(reopened))
    return Moved(step=first)


def stop(run: Run[P], step: Step, checked: Checked, response: Response) -> Stopped:
    """End this process at a step. What was acted is intended again: the next process acts anew. What somebody
    may accept counts as shown from here on. The evidence of a rollback that failed is sealed, although the
    run stays open: somebody will look at it."""
    record = run.records.get(step.key)
    again: tuple[StepRecord, ...] = ()
    if record is not None and record.state is StepState.ACTED:
        again = (run.put(step, StepState.INTENDED, record.intent, {**record.result, **checked.result}),)
    events = [looked_event(step, checked)]
    shown: list[NewEvent] = []
    if step.key in run.asked:
        shown.append(NewEvent(kind=EventKind.SHOWN, step=step.key, body={"sha256": run.asked.pop(step.key)}))
    waits = response.reaction is Reaction.PARK
    if response.ends is not None:
        told = (*events, *shown)
        closing = end(run, response.ends, "; ".join(checked.sentences), events=told, steps=again)
        return Stopped(step=step, checked=checked, waits=False, closing=closing)
    if run.going_back and response.reaction is Reaction.STOP and run.tools.seal is not None:
        state = run.refresh().state.value
        run.write(*events, steps=again)
        reason = "; ".join(checked.sentences)
        body = {"verdict": Verdict.FAIL.value, "reason": reason, "next": "", "state": state}
        events, again = list(seal(run, body)), ()
    run.write(*events, *shown, stopped_event(step, checked), steps=again)
    return Stopped(step=step, checked=checked, waits=waits, answers=response.answers)


def stopped_event(step: Step, checked: Checked) -> NewEvent:
    """Return the last word of a process that stops by itself at a step."""
    return NewEvent(kind=EventKind.STOPPED, step=step.key, body=checked_data(checked))


def looked_event(step: Step, checked: Checked) -> NewEvent:
    """Return what a look came to, for the history."""
    kind = EventKind.JUDGED if step.kind == JUDGE else EventKind.CHECKED
    return NewEvent(kind=kind, step=step.key, body=checked_data(checked))
