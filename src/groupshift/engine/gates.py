"""Gates: what an approval was given for, what a gate shows, and what becomes of an answer.

An approval is bound to the plan's hash, to the fingerprint of the target and to the evidence. What changed
since makes it void, and it is asked again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import (
    APPROVE,
    CHECKS,
    Checked,
    RunState,
    Step,
    StepState,
    canonical,
    findings_from,
)
from groupshift.engine.move import Aspects, P, Run, changes, handler_of
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.run_end import end
from groupshift.errors import Conflict, GroupshiftError, Rejected, Void
from groupshift.ports.runs import Event, EventKind, NewEvent

EVIDENCE = "evidence"
_SAID = 5
_ABSENT = "absent"
_YES = frozenset({Choice.APPROVE.value, Choice.GO_ON.value})
_UNCHANGED = frozenset({RunState.PLANNED, RunState.APPROVED})


def fingerprint_parts(run: Run[P]) -> dict[str, dict[str, str]]:
    """Return what an approval would be given for now: the plan, the evidence, and on the way there the
    move's aspects; the plan of a rollback was made of the facts of now."""
    records, evidence = run.records, dict[str, str]()
    for step in (*run.there.steps, *(run.plan.steps if run.going_back else ())):
        record = records.get(step.key)
        if record is not None and record.state is StepState.DONE and not record.left_out:
            evidence.update(handler_of(run.move, step).evidence(run, step, record))
    own = {"plan": {"hash": run.plan.hash}, EVIDENCE: evidence}
    if run.going_back:
        return own
    keys = run.begun
    begun = frozenset(each.name for each in run.there.steps if each.key in keys)
    aspects = run.move.fingerprint(run.move.glance(run.ports, run.request, begun), begun)
    return {**{name: dict(items) for name, items in aspects.items()}, **own}


def differences(then: Aspects, now: Aspects) -> tuple[str, ...]:
    """Return what differs, one clause each, of the aspects that both have. Evidence may grow."""
    clauses = []
    for aspect in sorted(then.keys() & now.keys()):
        before, after = then[aspect], now[aspect]
        items = before.keys() if aspect == EVIDENCE else before.keys() | after.keys()
        clauses += [
            f"{aspect} {item}: {before.get(item, _ABSENT)} is now {after.get(item, _ABSENT)}"
            for item in sorted(items)
            if before.get(item) != after.get(item)
        ]
    return tuple(clauses)


def fingerprint_of(aspects: Aspects) -> str:
    """Return the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(aspects).encode()).hexdigest()


def show(run: Run[P], gate: Step) -> str:
    """Journal what an approve step shows now; returns its fingerprint."""
    parts = fingerprint_parts(run)
    text, answers = fingerprint_of(parts), [Choice.APPROVE.value, Choice.REJECT.value]
    body = {"fingerprint": text, "parts": parts, "answers": answers, "review": False}
    run.write(NewEvent(kind=EventKind.GATE_SHOWN, step=gate.key, body=body))
    return text


def question_of(run: Run[P], gate: Step, checked: Checked) -> Question:
    """Return what somebody is asked at a gate or review that was shown. Raises `Conflict` when it was not."""
    if not (shown := run.events(gate.key, EventKind.GATE_SHOWN)):
        raise Conflict(f"gate {gate.key} of run {run.name} was never shown; run it again")
    asks, done = gate.kind == APPROVE, {key for key, e in run.records.items() if e.state is StepState.DONE}
    covered = (each for each in run.plan.steps if run.plan.gate_of(each) == gate and each.key not in done)
    ahead = tuple(each for each in covered if each.kind != APPROVE)
    keys = [each.key for each in run.plan.steps]
    later = [e for e in run.plan.steps if e.kind == APPROVE and keys.index(e.key) > keys.index(gate.key)]
    judged = [each for each in run.events("", EventKind.JUDGED) if each.step in keys]
    return Question(
        run=run.name,
        gate=gate.key,
        answers=tuple(Choice(each) for each in shown[-1].body["answers"]),
        fingerprint=str(shown[-1].body["fingerprint"]),
        plan_hash=run.plan.hash,
        ahead=ahead,
        changes=_changed(run, gate, shown),
        findings=checked.findings or findings_from(run.plan.about.get(CHECKS, ()) if asks else ()),
        detail=checked.detail,
        pause=run.move.pause(run.plan, ahead),
        shown=tuple(run.move.shown(run, gate)),
        does=gate.does or gate.name,
        later=(later[0].does or later[0].name) if later else "",
        judged=findings_from(judged[-1].body["findings"]) if judged else (),
        state=run.record.state,
        optional=gate.optional,
        frees=run.move.stop_frees,
    )


def _changed(run: Run[P], gate: Step, shown: Sequence[Event]) -> tuple[str, ...]:
    """What changed since the last yes at a gate that is asked again: what made it void, else what it shows
    otherwise now."""
    lost = run.events(gate.key, EventKind.VOIDED)
    approval = _approval(run, gate)
    if lost and (approval is None or lost[-1].seq > approval.seq):
        return tuple(lost[-1].body["changes"])
    if gate.kind != APPROVE or approval is None:
        return ()
    then = [each for each in shown if each.body["fingerprint"] == approval.body["fingerprint"]]
    return differences(then[-1].body["parts"], shown[-1].body["parts"])


def answer_of(run: Run[P], gate: str) -> Event | None:
    """Return the answer that counts at a gate: given since it was last shown and not void. A no counts for
    the process that stops by it; the next one asks again."""
    counting: Event | None = None
    for event in run.events(gate):
        if event.kind in {EventKind.GATE_SHOWN, EventKind.VOIDED}:
            counting = None
        elif event.kind is EventKind.GATE_ANSWERED:
            counting = event
        elif event.kind is EventKind.STOPPED and counting is not None and counting.body["choice"] not in _YES:
            counting = None
    return counting


def answer(run: Run[P], gate: str, reply: Answer) -> None:
    """Journal an answer. A no is always taken, from anybody; the same answer twice is one.

    Raises:
        Rejected: it does not fit its gate, names nobody, or who answers may not say yes.
        Conflict: the gate is not of the plan that is walked, showed nothing like that, or showed it too long
            ago.
        Void: what was shown changed since. The gate is asked again, or, where the move says so and nothing
            was changed, the run is over.
    """
    try:
        counted = _takes(run, gate, reply)
    except GroupshiftError:
        run.refresh()  # whoever lost the run is told that first
        raise
    run.refresh()  # the fence is read last: comparing takes its time
    if counted:
        return
    body = {"choice": reply.choice.value, "who": reply.who, "fingerprint": reply.fingerprint}
    run.write(NewEvent(kind=EventKind.GATE_ANSWERED, step=gate, body=body))


def _takes(run: Run[P], gate: str, reply: Answer) -> bool:
    """Whether the answer counts already. Raises as `answer` where it may not be taken."""
    step, choice = run.plan.step(gate), reply.choice.value
    if step is None or not run.record.state.is_open:
        raise Conflict(f"run {run.name} is {run.record.state} and has no gate {gate!r}; nothing was changed")
    shown = run.events(gate, EventKind.GATE_SHOWN)
    named = [each for each in shown if each.body["fingerprint"] == reply.fingerprint]
    usual = [Choice.APPROVE.value, Choice.REJECT.value] if step.kind == APPROVE else [Choice.STOP.value]
    fitting = (named or shown)[-1].body["answers"] if shown else usual
    if choice not in fitting:
        raise Rejected(f"answer {choice!r} does not fit gate {step.key}: choose {' or '.join(fitting)}")
    if not reply.who:
        raise Rejected(f"the answer at gate {step.key} names nobody; say who answers")
    last = answer_of(run, gate)
    if last and (last.body["choice"], last.body["fingerprint"]) == (choice, reply.fingerprint):
        return True
    if choice in _YES:
        run.require_approver(gate, reply.who)
        _require_fresh(run, step, named)
    return False


def _require_fresh(run: Run[P], step: Step, named: Sequence[Event]) -> None:
    """Raise `Conflict` where a gate never showed what is answered, or too long ago, and `Void` where that
    changed since."""
    why = f"approval void: gate {step.key} of run {run.name}"
    if not named:
        raise Conflict(f"{why} never showed that fingerprint; open it again")
    age_s, limit_s = (run.now() - named[-1].at_ms) // 1000, run.tools.gate_expiry_s
    if age_s > limit_s:
        raise Conflict(f"{why} was shown {age_s} s ago, longer than {limit_s} s; open it again")
    changed = () if named[-1].body["review"] else differences(named[-1].body["parts"], fingerprint_parts(run))
    if changed:
        void(run, step, changed)
        said = "; ".join(changed[:_SAID])
        raise Void(f"approval void: since gate {step.key} was shown, {said}; nothing was changed")


def void(run: Run[P], gate: Step, changed: tuple[str, ...]) -> None:
    """Journal once that an approval became void; its step is asked again. Where the move says so and nothing
    was changed, the run is over."""
    lost = NewEvent(kind=EventKind.VOIDED, step=gate.key, body={"changes": list(changed)})
    reopened = (run.put(gate, StepState.REOPENED, run.records.get(gate.key), result={}),)
    if run.move.void_ends and run.record.state in _UNCHANGED:
        reason = f"approval void: {'; '.join(changed[:_SAID])}"
        end(run, RunState.REJECTED, reason, events=(lost,), steps=reopened)
    else:
        run.write(lost, steps=reopened)


def outdated(run: Run[P], step: Step) -> tuple[str, ...]:
    """Return what changed since the step was approved; empty while the approval holds, or none is needed.

    The first step that a gate covers compares with what the gate showed; a later one with what the last judge
    that passed met. Raises `Conflict` when the gate was never answered with yes."""
    if (gate := run.plan.gate_of(step)) is None:
        return ()
    yes, records = _approval(run, gate), run.records
    if yes is None:
        raise Conflict(f"gate {gate.key} of run {run.name} is not approved: nothing may be changed yet")
    shown = run.events("", EventKind.GATE_SHOWN)
    then = [each for each in shown if each.body["fingerprint"] == yes.body["fingerprint"]]
    if any(
        each.key in records and changes(run.move, each)
        for each in run.plan.steps
        if each.key != step.key and run.plan.gate_of(each) == gate
    ):
        judged = [e for e in run.events("", EventKind.JUDGED) if e.seq > yes.seq and "parts" in e.body]
        then = judged or then
    return differences(then[-1].body["parts"], fingerprint_parts(run))


def _approval(run: Run[P], gate: Step) -> Event | None:
    """Return the last yes at a gate."""
    answers = run.events(gate.key, EventKind.GATE_ANSWERED)
    return next((e for e in reversed(answers) if e.body["choice"] == Choice.APPROVE.value), None)
