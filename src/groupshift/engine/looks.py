"""One look at a step, and what the reaction table makes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from groupshift.domain.reactions import Choice, OnFail, Reaction, Response, Situation, back, forward
from groupshift.domain.run import (
    APPROVE,
    JUDGE,
    Checked,
    OnDifference,
    Outcome,
    RunState,
    Step,
    StepRecord,
    StepState,
    canonical,
    findings_data,
)
from groupshift.domain.verdict import Verdict
from groupshift.engine.gates import answer_of, current, question_of
from groupshift.engine.move import Run, checked_data, handler_of, worst_verdict
from groupshift.engine.progress import Asks, Moved, Progress, Waits
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.transitions import leave_out, looked_event, make_act, redo, stop
from groupshift.errors import Rejected, Transient
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, NewEvent

P = TypeVar("P")
_MAY_HEAL = frozenset({Outcome.FAIL, Outcome.ERROR})


def asked(ask: Callable[[], Checked], unmeasured: Outcome) -> Checked:
    """What a handler says; `Transient` is an outcome, too."""
    try:
        return ask()
    except Transient as why:
        return Checked(outcome=unmeasured, detail=str(why))


def look(run: Run[P], step: Step, record: StepRecord) -> Progress:
    """Look once and react. `Transient` counts as not settled."""
    checked = asked(lambda: handler_of(run.move, step).check(run, step, record), Outcome.WAIT)
    if checked.heals and checked.outcome in _MAY_HEAL and run.patient(step, "healed"):
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
    if checked.outcome is not Outcome.FAIL or checked.only_rollback_helps:
        return checked
    if step.on_difference is OnDifference.STOP:
        return checked
    if who := run.accepted(step, checked.sentences):
        verdict = {
            "verdict": worst_verdict(checked.findings).value,
            "findings": findings_data(checked.findings),
        }
        run.words = [
            replace(each, body={**each.body, **verdict}) if each.step == step.key else each
            for each in run.words
        ]
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
    needs_word = step.kind == APPROVE or step.key in run.asked
    if outcome is Outcome.PERSON and run.options.waits_for_people and not needs_word:
        outcome = Outcome.WAIT
    retried = outcome is Outcome.ERROR and _errors(run, step) > 0
    late = step.when_late if outcome is Outcome.WAIT and not run.patient(step, "settled") else None
    met = Situation(
        outcome=outcome,
        state=run.record.state,
        retried=retried,
        late=late,
        on_fail=run.move.on_fail,
        stop_frees=run.move.stop_frees,
    )
    return back(met) if run.going_back else forward(met)


def _errors(run: Run[P], step: Step) -> int:
    """How often this claim could not measure a step since it last stopped there."""
    found = 0
    for event in run.events(step.key):
        if event.kind is EventKind.STOPPED:
            found = 0
        elif event.kind in {EventKind.CHECKED, EventKind.JUDGED} and event.token == run.token:
            found += event.body["outcome"] == Outcome.ERROR.value
    return found


def _pass(run: Run[P], step: Step, record: StepRecord, checked: Checked, *events: NewEvent) -> Moved:
    done = run.put(step, StepState.DONE, record.intent, {**record.result, **checked.result})
    body = checked_data(checked)
    if step.kind == JUDGE and run.plan.gate_of(step) is not None:
        body["parts"] = {name: dict(items) for name, items in current(run).items()}
    words, run.words = tuple(run.words), []
    run.asked.pop(step.key, None)
    approved = step.kind == APPROVE and run.record.state is RunState.PLANNED
    kind = EventKind.JUDGED if step.kind == JUDGE else EventKind.CHECKED
    looked = NewEvent(kind=kind, step=step.key, body=body)
    run.write(looked, *events, *words, steps=(done,), state=RunState.APPROVED if approved else None)
    return Moved(step=step)


def _poll(run: Run[P], step: Step, record: StepRecord | None, checked: Checked) -> Waits:
    if record is not None:
        merged = _merged(run, step, record, checked)
        if checked.act_again:
            make_act(run, step, merged, keep=merged.result)
        elif merged.result != record.result:
            run.write(steps=(merged,))
    return Waits(step=step, checked=checked)


def _retry(run: Run[P], step: Step, record: StepRecord | None, checked: Checked) -> Progress:
    if checked.redo_from:
        return redo(run, step, checked)
    again = () if record is None else (run.put(step, StepState.INTENDED, record.intent, record.result),)
    run.write(looked_event(step, checked), steps=again)
    return Moved(step=step)


def _review(
    run: Run[P], step: Step, record: StepRecord | None, checked: Checked, answers: tuple[Choice, ...]
) -> Progress:
    """Ask somebody about what a look came to; an answer counts for exactly that."""
    shown = canonical({"outcome": checked.outcome.value, "said": list(checked.sentences)})
    fingerprint = hashlib.sha256(shown.encode()).hexdigest()
    given = answer_of(run, step.key)
    if given is not None and given.body["fingerprint"] == fingerprint:
        choice, who = Choice(given.body["choice"]), str(given.body["who"])
        if choice is Choice.GO_ON and record is not None:
            body = {"who": who, "sha256": fingerprint, "verdict": Verdict.INCONCLUSIVE.value}
            accepted = NewEvent(kind=EventKind.ACCEPTED, step=step.key, body=body)
            return _pass(run, step, record, checked, accepted)
        if choice is Choice.ROLL_BACK:
            return _turn(run, step, checked, f"{who} chose to roll back at step {step.key}")
        if given.token == run.token:
            stopped = replace(
                checked, outcome=Outcome.DECLINED, detail=f"stopped by {who} at step {step.key}"
            )
            return stop(run, step, stopped, _response(run, step, stopped))
    offered = [each.value for each in answers]
    shows_now: dict[str, Any] = {"fingerprint": fingerprint, "answers": offered, "review": True}
    asked = [e for e in run.events(step.key) if e.kind is EventKind.GATE_SHOWN and e.token == run.token]
    if not asked or asked[-1].body["fingerprint"] != fingerprint or given is not None:
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


def _merged(run: Run[P], step: Step, record: StepRecord, checked: Checked) -> StepRecord:
    return run.put(step, StepState.ACTED, record.intent, {**record.result, **checked.result})
