"""Runs that change a whole cluster, driven: one step after the other, each intended, done and read back in
the journal, so that any instruction may be the last of a process. Whatever the move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from groupshift.application.run_demands import demand_cluster, demand_held
from groupshift.application.run_work import (
    STOPPED,
    AnyPlan,
    Handler,
    Look,
    RunTerms,
    RunTools,
    RunWork,
    asked_before,
)
from groupshift.domain.step import AFTER, Doing, Journaled, Next, RunAct, RunStep, Seen, Stand, ends, next_of
from groupshift.errors import Conflict, GroupshiftError, Rejected, Transient
from groupshift.ports.clock import CrashPoint
from groupshift.ports.evidence import SEALED
from groupshift.ports.journal import ClusterRun, ClusterRuns, RunState, RunStepRecord, StepState

W = TypeVar("W", bound=RunWork)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Generic[W]):
    """A kind of run: ``name`` begins the id of each and is its verb, ``handlers`` do its steps, ``read``
    makes the plan of its JSON and ``write`` the JSON of a plan, ``undo`` gives what undoes the steps with
    these keys, ``stands`` how far each step is, ``work`` is made of one claim, ``asked`` gives the options of
    the verb that a plan was made for, and ``may_turn_back`` raises `Rejected` where only the way forward is
    left."""

    name: str
    handlers: Mapping[RunAct, Handler[W]]
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    undo: Callable[[Any, Iterable[str]], tuple[RunStep, ...]]
    stands: Callable[[W], dict[str, Journaled]]
    work: Callable[..., W]
    asked: Callable[[Any], str]
    may_turn_back: Callable[[Any, ClusterRun], None] = lambda _tools, _run: None


class Ended(StrEnum):
    """Why a process that drove a run stopped."""

    DONE = "done"
    TAKEN_BACK = "taken back"
    WAITING = "waiting"
    """For a person, or longer than this process waits."""
    PAUSED = "paused"
    """Before a step that this process does not do."""
    DECLINED = "declined"
    FAILED = "failed"


_REACHED = {RunState.DONE: Ended.DONE, RunState.TAKEN_BACK: Ended.TAKEN_BACK}
_DETAIL = 2_000
_ENDS = {
    Seen.PERSON: Ended.WAITING,
    Seen.NOT_YET: Ended.WAITING,
    Seen.REFUSED: Ended.DECLINED,
    Seen.FAILED: Ended.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """Where a run stopped, at which step, and why; ``undo`` names what the way back would undo;
    ``hopeless``: only taking it back helps."""

    run: str
    ended: Ended
    step: str = ""
    detail: str = ""
    undo: tuple[str, ...] = ()
    hopeless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """A step and how far it is."""

    step: RunStep
    stand: Stand
    at_ms: int = 0
    result: Mapping[str, Any] | None = None


def begin(move: Move[W], tools: RunTools, plan: AnyPlan) -> ClusterRun:
    """Journal a run of this plan. Raises `Conflict` when the cluster has an open one, `Rejected` for a key
    that could not sign its evidence."""
    tools.may_seal()
    now = tools.clock.now_ms()
    run = ClusterRun(
        run=f"{move.name}-{plan.cluster_id}-{now}",
        cluster_id=plan.cluster_id,
        state=RunState.OPEN,
        plan_hash=plan.hash,
        plan=move.write(plan),
        created_at_ms=now,
        updated_at_ms=now,
    )
    tools.runs.create(run)
    return run


def go_on(move: Move[W], tools: RunTools, terms: RunTerms, run: ClusterRun) -> RunOutcome:
    """Drive a run from where its journal says it stands, as far as it goes; one that reached its end is left
    alone, for the process that brought it there may have died before it could say so.

    Raises `Fenced` when another process claimed it, `Conflict` when it was turned since ``run`` was read, or
    an approval is void, `Transient` when something does not answer (run again), `Rejected` when a broker or
    the driver refuses, or another cluster's brokers answer."""
    demand_cluster(tools, run)
    if run.state in _REACHED:
        return RunOutcome(run=run.run, ended=_REACHED[run.state])
    if not terms.taking:
        demand_held(tools.runs, run.run, terms.holder)
    token = tools.runs.claim(run.run, terms.holder or terms.who, tools.clock.now_ms())
    now = tools.runs.find(run.run).state
    if now is not run.state:
        raise Conflict(
            f"run {run.run} was {run.state} and is {now} by another process since: nothing was changed here; "
            f"look at it with: groupshift {move.name} status"
        )
    steps, plan = steps_of(move, tools.runs, run), move.read(run.plan)
    work = move.work(tools=tools, terms=terms, plan=plan, run=run.run, token=token, steps=steps)
    while following := next_of(steps, move.stands(work), token):
        if following.step.act not in terms.acts:
            return RunOutcome(run=run.run, ended=Ended.PAUSED, step=following.step.key)
        try:
            stopped = _advance(work, following, move.handlers[following.step.act])
        except GroupshiftError as why:
            failed = Seen.NOT_YET if isinstance(why, Transient) else Seen.FAILED
            look = Look(seen=failed, detail=str(why))
            with suppress(GroupshiftError):  # an earlier one, where the step found that it has to be redone
                _note(work, (next_of(steps, move.stands(work), token) or following).step, look)
            raise
        if stopped is not None:
            _note(work, following.step, stopped)
            return _stopped(move, work, following.step, stopped)
    end = RunState.TAKEN_BACK if run.state is RunState.GOING_BACK else RunState.DONE
    _end(work, run, end)
    return RunOutcome(run=run.run, ended=_REACHED[end])


def _note(work: RunWork, step: RunStep, stopped: Look) -> None:
    """Write down why this process stopped, for whoever reads the journal; nothing decides by it. Nothing is
    written when that fails, too, or another process has the run."""
    result = {
        "step": step.key,
        "seen": stopped.seen.value,
        "detail": stopped.detail[:_DETAIL],
        "hopeless": stopped.hopeless,
    }
    now = work.tools.clock.now_ms()
    with suppress(GroupshiftError):
        record = RunStepRecord(step=STOPPED, state=StepState.DONE, token=work.token, at_ms=now, result=result)
        work.tools.runs.put(work.run, record)


def _end(work: RunWork, run: ClusterRun, state: RunState) -> None:
    """Seal the evidence, journal the manifest's hash, and close: nothing is journaled of a closed run, and
    nobody seals what another process drives."""
    work.demand_token()
    tools, now = work.tools, work.tools.clock.now_ms()
    sealed = tools.seal(replace(run, state=state, updated_at_ms=now), tools.runs.steps(run.run))
    if sealed:
        done = RunStepRecord(step=SEALED, state=StepState.DONE, token=work.token, at_ms=now, result=sealed)
        tools.runs.put(run.run, done)
    tools.runs.move(run.run, work.token, state, now)


def turn_back(move: Move[W], tools: RunTools, terms: RunTerms, run: ClusterRun) -> ClusterRun:
    """Let an open run go back; one that does so already is left alone. Raises `Rejected` for a closed one,
    when another cluster's brokers answer, and where only the way forward is left."""
    if run.state is RunState.GOING_BACK:
        return run
    if not run.open:
        raise Rejected(f"run {run.run} is {run.state}: there is nothing to take back; plan a new one")
    demand_cluster(tools, run)
    move.may_turn_back(tools, run)
    now = tools.clock.now_ms()
    tools.runs.move(run.run, tools.runs.claim(run.run, terms.who, now), RunState.GOING_BACK, now)
    return tools.runs.find(run.run)


def steps_of(move: Move[W], runs: ClusterRuns, run: ClusterRun) -> tuple[RunStep, ...]:
    """The steps that a run walks now: those of its plan, or what undoes them."""
    going_back = run.state in {RunState.GOING_BACK, RunState.TAKEN_BACK}
    steps: tuple[RunStep, ...] = undoing(move, runs, run) if going_back else move.read(run.plan).steps
    return steps


def undoing(move: Move[W], runs: ClusterRuns, run: ClusterRun) -> tuple[RunStep, ...]:
    """What would undo what a run has begun."""
    return move.undo(move.read(run.plan), runs.steps(run.run))


def statuses(move: Move[W], runs: ClusterRuns, run: ClusterRun) -> tuple[StepStatus, ...]:
    """Every step of a run and how far it is."""
    records = runs.steps(run.run)
    found = []
    for step in steps_of(move, runs, run):
        record = records.get(step.key)
        if record is None:
            found.append(StepStatus(step=step, stand=Stand.UNTOUCHED))
        else:
            stand = Stand(record.state.value)
            found.append(StepStatus(step=step, stand=stand, at_ms=record.at_ms, result=record.result))
    return tuple(found)


def _advance(work: W, following: Next, handler: Handler[W]) -> Look | None:
    """One transition; a look when the run stops there."""
    work.demand_token()
    step, crash = following.step, work.tools.crash
    record = work.tools.runs.steps(work.run).get(step.key)
    match following.doing:
        case Doing.INTEND:
            work.terms.told(step, "begins")
            intent = handler.intend(work, step)
            crash.reached(step.key, CrashPoint.BEFORE_JOURNAL)
            _put(work, step, StepState.INTENDED, (intent, asked_before(record)))
            crash.reached(step.key, CrashPoint.AFTER_JOURNAL)
            return None
        case Doing.ACT:
            work.hold(_begun(step, record))
            intent = _begun(step, record).intent
            result = handler.act(work, step, intent)
            crash.reached(step.key, CrashPoint.AFTER_ACT)
            _put(work, step, StepState.ACTED, (intent, result))
            return None
        case Doing.READ_BACK:
            record = _begun(step, record)
            look = _awaited(work, step, record, handler)
            crash.reached(step.key, CrashPoint.AFTER_READ_BACK)
            stand = StepState(AFTER[look.seen].value)
            _put(work, step, stand, (record.intent, {**record.result, **look.result}))
            return None if look.seen is Seen.HOLDS else look


def _begun(step: RunStep, record: RunStepRecord | None) -> RunStepRecord:
    if record is None:
        raise Rejected(f"step {step.key} is not in the journal; run it again")
    return record


def _awaited(work: W, step: RunStep, record: RunStepRecord, handler: Handler[W]) -> Look:
    """Read back until it is decided, for at most the patience of this process."""
    clock = work.tools.clock
    end = clock.now_ms() + work.terms.patience_s * 1000
    while True:
        look = handler.read_back(work, step, record)
        if look.detail:
            work.terms.told(step, look.detail)
        if look.seen is not Seen.NOT_YET or clock.now_ms() >= end:
            return look
        clock.sleep(work.terms.every_s)
        work.demand_token()


def _put(
    work: RunWork, step: RunStep, state: StepState, body: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> None:
    intent, result = body
    record = RunStepRecord(
        step=step.key,
        state=state,
        token=work.token,
        at_ms=work.tools.clock.now_ms(),
        intent=intent,
        result=result,
    )
    work.tools.runs.put(work.run, record)


def _stopped(move: Move[W], work: RunWork, step: RunStep, look: Look) -> RunOutcome:
    undo = move.undo(work.plan, work.tools.runs.steps(work.run))
    if ends(step, look.seen):
        work.tools.runs.move(work.run, work.token, RunState.ENDED, work.tools.clock.now_ms())
    return RunOutcome(
        run=work.run,
        ended=_ENDS[look.seen],
        step=step.key,
        detail=look.detail,
        undo=tuple(each.does for each in undo[1:]),
        hopeless=look.hopeless,
    )
