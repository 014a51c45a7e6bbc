"""Drive a run: `advance` makes one act or one look and never sleeps; `drive` is the loop of a process.

Each step is intended, acted and looked at, and each of the three is journaled, so that any instruction may be
the last one of a process. The plan says which steps there are; the engine adds none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from groupshift.domain.reactions_to_verdicts import Reaction, Response
from groupshift.domain.run import (
    APPROVE,
    IRREVERSIBLE,
    Checked,
    Outcome,
    RunState,
    SparkJob,
    Step,
    StepRecord,
    StepState,
)
from groupshift.engine.gates import answer, outdated, void
from groupshift.engine.move import P, Run, Standing, changes, checked_data, handler_of
from groupshift.engine.progress import Asks, Ended, Moved, Paused, Progress, Stopped, Waits
from groupshift.engine.run_end import closing_of, end
from groupshift.engine.step_transitions import (
    checked_by,
    leave_out,
    look,
    make_act,
    react,
    redo,
    stop,
    stopped_event,
)
from groupshift.errors import Conflict, Fenced, GroupshiftError, Rejected, Transient, Void
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind, NewEvent

_ASKED_AGAIN = 3
"""How many approvals may become void while one process asks, before it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Next:
    """The step whose turn it is. ``standing`` None: it is begun, or begun anew, or looked at (``looks``)."""

    step: Step
    record: StepRecord | None
    standing: Standing | None = None
    looks: bool = False


def drive(run: Run[P]) -> Progress:
    """Advance until the run ends, stops, pauses, or asks what nobody answers here.

    Raises as `advance`."""
    voids = 0
    while True:
        progress = advance(run)
        match progress:
            case Moved(step=step, work=SparkJob() as job) if run.options.submit is not None:
                run.submit(step, job)
            case Moved(work=SparkJob()) | Ended() | Stopped():
                return progress
            case Waits(step=step, checked=checked):
                run.options.tell(step, checked.detail or "; ".join(checked.sentences) or "waits")
                run.tools.clock.sleep(run.options.every_s)
            case Paused(step=step):
                run.write(stopped_event(step, Checked(outcome=Outcome.WAIT, detail="paused")))
                return progress
            case Asks(step=step, question=question):
                if (reply := run.options.decide(question)) is None:
                    detail = f"gate {step.key} waits for an answer"
                    doubts = () if step.kind == APPROVE else question.findings  # with their remedies
                    checked = Checked(outcome=Outcome.PERSON, findings=doubts, detail=detail)
                    return stop(run, step, checked, Response(reaction=Reaction.PARK))
                try:
                    answer(run, question.gate, reply)
                except Void:  # what was shown changed meanwhile: it is asked again
                    voids += 1
                    if voids == _ASKED_AGAIN:
                        raise


def leave(run: Run[P], why: str) -> None:
    """Journal that this process stops by itself although the run is not over: the next one goes on without
    taking it over. Raises `Fenced` when another claim has the run."""
    if not run.refresh().state.is_open:
        return
    steps = [each.step for each in run.events() if each.step and each.token == run.token]
    body = checked_data(Checked(outcome=Outcome.WAIT, detail=why))
    run.write(NewEvent(kind=EventKind.STOPPED, step=steps[-1] if steps else "", body=body))


def give_up(run: Run[P], why: str) -> None:
    """Leave a run whose process ends by an error, unless it said so already or has lost the run. Never
    raises."""
    with suppress(GroupshiftError):
        held = run.tools.runs.held(run.name)
        if held is not None and not held.stopped:
            leave(run, why)


def advance(run: Run[P]) -> Progress:
    """Make one act or one look. Never sleeps.

    Raises:
        Fenced: another claim has the run.
        Conflict: the run goes the other way than asked for, or somebody changed what was met.
        Rejected: a step is not allowed, as long as its patience lasted; nothing was changed.
        Transient: something did not answer; run it again.
        Broken: a promise was violated; a person must look.
    """
    state = run.refresh().state
    if run.options.direction and (run.options.direction == "back") is not state.goes_back:
        how = "is being rolled back, or was" if state.goes_back else "is on its way there"
        raise Conflict(f"run {run.name} {how}; go on with: groupshift continue {run.name} --execute")
    if not state.is_open:
        return Ended(closing=closing_of(run))
    following: _Next | None = None
    try:
        following = _following(run)
        if following is None:
            return Ended(closing=end(run, _end_state(run)))
        if run.options.phases is not None and following.step.phase not in run.options.phases:
            return Paused(step=following.step)
        if following.looks and following.record is not None:
            return look(run, following.step, following.record)
        return _begin(run, following)
    except Fenced:
        raise
    except GroupshiftError as why:
        if following is not None:
            outcome = Outcome.ERROR if isinstance(why, Transient) else Outcome.FAIL
            with suppress(GroupshiftError):
                run.write(stopped_event(following.step, Checked(outcome=outcome, detail=str(why))))
        raise


def upcoming(run: Run[P]) -> Step | None:
    """Return the step whose turn it is, None where none is left. Looks at what was cut off, changes
    nothing."""
    following = _following(run)
    return following.step if following else None


def _following(run: Run[P]) -> _Next | None:
    """The first step that is not done. What repeats counts as not done when another claim did it, until a
    step behind it that touches was begun."""
    records, standings = run.records, {}
    touched = -1
    for number, step in enumerate(run.plan.steps):
        record, handler = records.get(step.key), handler_of(run.move, step)
        if record is not None and handler.touches and not record.left_out:
            if _unread(run, record):
                standings[step.key] = handler.stands(run, step, record)
            touched = touched if standings.get(step.key) is Standing.AS_MET else number
    for number, step in enumerate(run.plan.steps):
        record = records.get(step.key)
        again = step.repeat and record is not None and record.token != run.token and touched < number
        if record is None or record.state is StepState.REOPENED or again:
            return _Next(step=step, record=record)
        if record.state is StepState.DONE:
            continue
        if not _unread(run, record):
            return _Next(step=step, record=record, looks=True)
        standing = standings.get(step.key) or handler_of(run.move, step).stands(run, step, record)
        return _Next(step=step, record=record, standing=standing)
    return None


def _unread(run: Run[P], record: StepRecord) -> bool:
    """Whether nobody knows how the act of a step stands: it was cut off, or another claim made it."""
    other = record.state is StepState.ACTED and record.token != run.token
    return record.state is StepState.INTENDED or other


def _end_state(run: Run[P]) -> RunState:
    if run.going_back:
        return RunState.ROLLED_BACK
    records = run.records
    made = (each for each in run.there.steps if each.undo is IRREVERSIBLE and not records[each.key].left_out)
    return RunState.FINALISED if any(made) else RunState.MOVED


def _begin(run: Run[P], following: _Next) -> Progress:
    """Intend and act, or go on with an act that was cut off."""
    step, record, standing = following.step, following.record, following.standing
    if standing is not None and record is not None:
        run.write(NewEvent(kind=EventKind.RESUMED, step=step.key, body={"standing": standing.value}))
        if standing is Standing.MADE and record.state is StepState.ACTED:
            taken = run.put(step, record.state, record)
            run.write(steps=(taken,))
            return look(run, step, taken)
    if standing is not Standing.MADE:
        if (blocked := _blocked(run, step)) is not None:
            return blocked
        handler_of(run.move, step).fence(run, step)
    if record is not None and standing in {Standing.AS_MET, Standing.MADE}:
        return make_act(run, step, record)
    run.options.tell(step, "begins")
    intent = handler_of(run.move, step).intend(run, step)
    intended = run.put(step, StepState.INTENDED, record, intent=intent)
    run.tools.crash.reached(step.key, CrashPoint.BEFORE_JOURNAL)
    begins = run.record.state is RunState.APPROVED and changes(run.move, step)
    event = NewEvent(kind=EventKind.INTENDED, step=step.key, body=intent)
    run.write(event, steps=(intended,), state=RunState.RUNNING if begins else None)
    run.tools.crash.reached(step.key, CrashPoint.AFTER_JOURNAL)
    return make_act(run, step, intended)


def _blocked(run: Run[P], step: Step) -> Progress | None:
    """What keeps a step from its act: a gate that was declined, an approval that became void, or what the
    handler does not allow yet. None: it may act."""
    gate = run.plan.gate_of(step)
    if gate is not None and gate.key != step.key:
        answered = run.records.get(gate.key)
        if answered is not None and answered.left_out:
            return leave_out(run, step, answered.left_out)
    if gate is not None and changes(run.move, step) and (changed := outdated(run, step)):
        said = Checked(outcome=Outcome.WAIT, detail=f"not as approved: {'; '.join(changed[:5])}")
        if run.patient(step, "as approved"):
            return Waits(step=step, checked=said)
        void(run, gate, changed)
        return Moved(step=gate)
    checked = checked_by(lambda: handler_of(run.move, step).allowed(run, step), Outcome.ERROR)
    if checked.outcome in {Outcome.PASS, Outcome.INCONCLUSIVE}:
        return None
    return _not_allowed(run, step, checked)


def _not_allowed(run: Run[P], step: Step, checked: Checked) -> Progress | None:
    """Done again from an earlier step, a person's, waited for, left out, or refused. None: it may act as it
    is."""
    if checked.redo_from:
        return redo(run, step, checked)
    if checked.outcome is Outcome.PERSON or checked.only_rollback_helps:
        return react(run, step, None, checked)
    if run.patient(step, "allowed"):
        return Waits(step=step, checked=checked)
    if checked.late_passes:
        return None
    said = "; ".join(checked.sentences) or checked.outcome.value
    if step.optional and checked.outcome is Outcome.FAIL:
        return leave_out(run, step, said)
    what = f"step {step.key} of run {run.name} was not started, nothing was changed by it: {said}"
    raise Rejected(what) if checked.outcome is Outcome.FAIL else Transient(f"{what}; run it again")
