"""The transitions that a run makes at a step, each one transaction of the journal; one look at a step, and
what the reaction table makes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from groupshift.domain.reactions_to_verdicts import (
    Choice,
    OnFail,
    Reaction,
    Response,
    Situation,
    back,
    forward,
)
from groupshift.domain.run import (
    APPROVE,
    JUDGE,
    Checked,
    Instruction,
    Json,
    OnDifference,
    Outcome,
    RunState,
    SparkJob,
    Step,
    StepRecord,
    StepState,
    canonical,
    findings_data,
)
from groupshift.domain.verdict import Verdict
from groupshift.engine.gates import answer_of, fingerprint_parts, question_of
from groupshift.engine.handlers import INSTRUCTION, JOB, MAY_HEAL
from groupshift.engine.move import P, Run, changes, checked_data, handler_of, worst_verdict
from groupshift.engine.progress import Asks, Moved, Progress, Stopped, Waits
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run_end import end, seal
from groupshift.errors import Broken, Rejected, Transient
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, NewEvent


def make_act(run: Run[P], step: Step, record: StepRecord, *, keep: Json | None = None) -> Moved:
    """Act with the journaled intent, under the fence; ``keep`` stays in the result beside what it returns.
    What was accepted for the act is journaled with it: its look may stop the process."""
    run.write(steps=(run.put(step, StepState.INTENDED, record),))
    run.words = []
    made = handler_of(run.move, step).act(run, step, record.intent)
    run.tools.crash.reached(step.key, CrashPoint.AFTER_ACT)
    outcome_data: Json
    match made:
        case Instruction():
            outcome_data = {INSTRUCTION: made.text}
        case SparkJob():
            outcome_data = {**made.beside, JOB: made.as_json()}
        case _:
            outcome_data = made
    result = {**(keep or {}), **outcome_data}
    acted = run.put(step, StepState.ACTED, record, result=result)
    words, run.words = run.words, []
    run.write(NewEvent(kind=EventKind.ACTED, step=step.key, body=result), *words, steps=(acted,))
    if isinstance(made, Instruction):
        (run.options.instruct or run.options.tell)(step, made.text)
    return Moved(step=step, work=made if isinstance(made, Instruction | SparkJob) else None)


def leave_out(run: Run[P], step: Step, why: str) -> Moved:
    """Count a step as done that is not done, with the reason. A change that was made before it was to be made
    again stands: a rollback undoes it."""
    known, acted = run.records.get(step.key), run.events(step.key, EventKind.ACTED)
    if known is not None and acted and changes(run.move, step):
        record = run.put(step, StepState.DONE, known, result=acted[-1].body)
    else:
        record = run.put(step, StepState.DONE, result={"left_out": why or "left out"})
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
    reopened = [
        run.put(each, StepState.REOPENED, records[each.key], **({} if each is first else {"result": {}}))
        for each in run.plan.steps[keys.index(first.key) :]
        if each.key in records
    ]
    body = {"to": first.key, "why": checked.detail, "steps": [each.key for each in reopened]}
    redone = NewEvent(kind=EventKind.REDO, step=step.key, body=body)
    run.write(looked_event(step, checked), redone, steps=reversed(reopened))
    return Moved(step=first)


def stop(run: Run[P], step: Step, checked: Checked, response: Response) -> Stopped:
    """End this process at a step. What was acted is intended again: the next process acts anew. What somebody
    may accept counts as shown from here on. The evidence of a rollback that failed is sealed, although the
    run stays open: somebody will look at it."""
    record = run.records.get(step.key)
    again: tuple[StepRecord, ...] = ()
    if record is not None and record.state is StepState.ACTED:
        result = {**record.result, **checked.result}
        again = (run.put(step, StepState.INTENDED, record, result=result),)
    events, shown = [looked_event(step, checked)], list[NewEvent]()
    if (digest := run.to_show.pop(step.key, None)) is not None:
        shown.append(NewEvent(kind=EventKind.SHOWN, step=step.key, body={"sha256": digest}))
    reason = "; ".join(checked.sentences)
    if response.ends is not None:
        closing = end(run, response.ends, reason, events=(*events, *shown), steps=again)
        return Stopped(step=step, checked=checked, waits=False, closing=closing)
    if run.going_back and response.reaction is Reaction.STOP and run.tools.seal is not None:
        state = run.refresh().state.value
        run.write(*events, steps=again)
        body = {"verdict": Verdict.FAIL.value, "reason": reason, "next": "", "state": state}
        events, again = list(seal(run, body)), ()
    run.write(*events, *shown, stopped_event(step, checked), steps=again)
    waits = response.reaction is Reaction.PARK
    return Stopped(step=step, checked=checked, waits=waits, answers=response.answers)


def stopped_event(step: Step, checked: Checked) -> NewEvent:
    """Return the last word of a process that stops by itself at a step."""
    return NewEvent(kind=EventKind.STOPPED, step=step.key, body=checked_data(checked))


def looked_event(step: Step, checked: Checked) -> NewEvent:
    """Return what a look came to, for the history."""
    kind = EventKind.JUDGED if step.kind == JUDGE else EventKind.CHECKED
    return NewEvent(kind=kind, step=step.key, body=checked_data(checked))


def checked_by(ask: Callable[[], Checked], unmeasured: Outcome) -> Checked:
    """What a handler says; `Transient` is an outcome, too."""
    try:
        return ask()
    except Transient as why:
        return Checked(outcome=unmeasured, detail=str(why))


def look(run: Run[P], step: Step, record: StepRecord) -> Progress:
    """Look once and react. `Transient` counts as not settled."""
    checked = checked_by(lambda: handler_of(run.move, step).check(run, step, record), Outcome.WAIT)
    if checked.heals and checked.outcome in MAY_HEAL and run.patient(step, "healed"):
        return _poll(run, step, record, replace(checked, outcome=Outcome.WAIT))
    checked = _weighed(run, step, checked)
    if checked.outcome is not Outcome.WAIT or not run.patient(step, "settled"):
        run.tools.crash.reached(step.key, CrashPoint.AFTER_READ_BACK)
    if checked.detail:
        run.options.tell(step, checked.detail)
    if checked.redo_from and checked.outcome is not Outcome.ERROR:
        return redo(run, step, checked)
    return react(run, step, record, checked)


def _weighed(run: Run[P], step: Step, checked: Checked) -> Checked:
    """What the plan makes of a difference: evidence only, or what somebody may accept."""
    if step.on_difference is OnDifference.EVIDENCE and checked.outcome not in {Outcome.WAIT, Outcome.PERSON}:
        return replace(checked, outcome=Outcome.PASS, redo_from="")
    settled = checked.outcome is not Outcome.FAIL or checked.only_rollback_helps
    if settled or step.on_difference is OnDifference.STOP:
        return checked
    if who := run.accepted(step, checked.sentences, verdict=worst_verdict(checked.findings)):
        verdict_data = {"findings": findings_data(checked.findings)}
        own = (replace(e, body={**e.body, **verdict_data}) for e in run.words if e.step == step.key)
        run.words = [*(each for each in run.words if each.step != step.key), *own]
        return replace(checked, outcome=Outcome.PASS, result={**checked.result, "accepted_by": who})
    said = "; ".join(checked.sentences)
    accepting = f"groupshift continue {run.name} --accept '{step.key}' --execute"
    detail = f"{said}; correct that, or accept it with: {accepting}"
    if step.on_difference in {OnDifference.ACCEPTABLE, OnDifference.ASKED}:
        stops = run.move.on_fail is OnFail.STOP or run.going_back
        waits = not stops or step.on_difference is OnDifference.ASKED
        return replace(checked, outcome=Outcome.PERSON if waits else checked.outcome, detail=detail)
    return replace(checked, only_rollback_helps=True, detail=detail)


def react(run: Run[P], step: Step, record: StepRecord | None, checked: Checked) -> Progress:
    """Do what the table says."""
    response = _response(run, step, checked)
    made: Progress
    match response.reaction:
        case Reaction.NEXT if record is not None:
            made = _pass(run, step, record, checked)
        case Reaction.NEXT:  # it was never made: that it is late settles nothing
            made = stop(run, step, checked, Response(reaction=Reaction.PARK))
        case Reaction.POLL:
            made = _poll(run, step, record, checked)
        case Reaction.RETRY:
            made = _retry(run, step, record, checked)
        case Reaction.ASK:
            made = _review(run, step, record, checked, response.answers)
        case Reaction.ROLL_BACK:
            made = _turn(run, step, checked, "; ".join(checked.sentences) or checked.outcome.value)
        case Reaction.PARK if step.kind == APPROVE and record is not None:
            made = Asks(step=step, question=question_of(run, step, checked))
        case Reaction.STOP if checked.outcome is Outcome.DECLINED and step.optional:
            made = leave_out(run, step, checked.detail)
        case Reaction.PARK | Reaction.STOP:
            made = stop(run, step, checked, response)
    return made


def _response(run: Run[P], step: Step, checked: Checked) -> Response:
    outcome = checked.outcome
    needs_word = step.kind == APPROVE or step.key in run.to_show
    if outcome is Outcome.PERSON and run.options.waits_for_people and not needs_word:
        outcome = Outcome.WAIT
    # how this claim looked at the step since it last stopped there
    history = run.events(step.key, EventKind.STOPPED, EventKind.CHECKED, EventKind.JUDGED)
    looks = takewhile(lambda event: event.kind is not EventKind.STOPPED, reversed(history))
    failed = any(e.token == run.token and e.body["outcome"] == Outcome.ERROR.value for e in looks)
    late = step.when_late if outcome is Outcome.WAIT and not run.patient(step, "settled") else None
    met = Situation(
        outcome=outcome,
        state=run.record.state,
        retried=outcome is Outcome.ERROR and failed,
        late=late,
        on_fail=run.move.on_fail,
        stop_frees=run.move.stop_frees,
    )
    return back(met) if run.going_back else forward(met)


def _pass(run: Run[P], step: Step, record: StepRecord, checked: Checked, *events: NewEvent) -> Moved:
    done = run.put(step, StepState.DONE, record, result={**record.result, **checked.result})
    body = checked_data(checked)
    if step.kind == JUDGE and run.plan.gate_of(step) is not None:
        body["parts"] = fingerprint_parts(run)
    words, run.words = tuple(run.words), []
    run.to_show.pop(step.key, None)
    approved = step.kind == APPROVE and run.record.state is RunState.PLANNED
    looked = replace(looked_event(step, checked), body=body)
    run.write(looked, *events, *words, steps=(done,), state=RunState.APPROVED if approved else None)
    return Moved(step=step)


def _poll(run: Run[P], step: Step, record: StepRecord | None, checked: Checked) -> Waits:
    if record is not None:
        merged = run.put(step, StepState.ACTED, record, result={**record.result, **checked.result})
        if checked.act_again:
            make_act(run, step, merged, keep=merged.result)
        elif merged.result != record.result:
            run.write(steps=(merged,))
    return Waits(step=step, checked=checked)


def _retry(run: Run[P], step: Step, record: StepRecord | None, checked: Checked) -> Moved:
    if checked.redo_from:
        return redo(run, step, checked)
    again = () if record is None else (run.put(step, StepState.INTENDED, record),)
    run.write(looked_event(step, checked), steps=again)
    return Moved(step=step)


def _review(
    run: Run[P], step: Step, record: StepRecord | None, checked: Checked, answers: tuple[Choice, ...]
) -> Progress:
    """Ask somebody about what a look came to; an answer counts for exactly that."""
    shown = canonical({"outcome": checked.outcome.value, "said": list(checked.sentences)})
    fingerprint = hashlib.sha256(shown.encode()).hexdigest()
    reply = answer_of(run, step.key)
    if reply is not None and reply.body["fingerprint"] == fingerprint:
        choice, who = Choice(reply.body["choice"]), str(reply.body["who"])
        if choice is Choice.GO_ON and record is not None:
            body = {"who": who, "sha256": fingerprint, "verdict": Verdict.INCONCLUSIVE.value}
            accepted = NewEvent(kind=EventKind.ACCEPTED, step=step.key, body=body)
            return _pass(run, step, record, checked, accepted)
        if choice is Choice.ROLL_BACK:
            return _turn(run, step, checked, f"{who} chose to roll back at step {step.key}")
        if reply.token == run.token:
            why = f"stopped by {who} at step {step.key}"
            stopped = replace(checked, outcome=Outcome.DECLINED, detail=why)
            return stop(run, step, stopped, _response(run, step, stopped))
    before = [e for e in run.events(step.key, EventKind.GATE_SHOWN) if e.token == run.token]
    if not before or before[-1].body["fingerprint"] != fingerprint or reply is not None:
        offered = [each.value for each in answers]
        shows_now: Json = {"fingerprint": fingerprint, "answers": offered, "review": True}
        shows = NewEvent(kind=EventKind.GATE_SHOWN, step=step.key, body=shows_now)
        run.write(looked_event(step, checked), shows)
    return Asks(step=step, question=question_of(run, step, checked))


def _turn(run: Run[P], step: Step, checked: Checked, because: str) -> Progress:
    """Begin the rollback; where it is closed the run stops here."""
    run.write(looked_event(step, checked))
    try:
        begin_roll_back(run, run.move.falls_back_to(run), because)
    except Rejected as closed:
        said = replace(checked, detail=f"{because}; {closed}")
        return stop(run, step, said, Response(reaction=Reaction.STOP))
    return Moved(step=step)
