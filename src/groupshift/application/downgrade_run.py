"""A downgrade that acts: plan, then one step after the other, each intended, done and read back in the
journal, so that any instruction may be the last of a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from groupshift.application import downgrade_groups, downgrade_nodes, downgrade_replace
from groupshift.application.downgrade import DowngradeRequest, look_at
from groupshift.application.downgrade_demands import demand_cluster
from groupshift.application.downgrade_stands import journaled
from groupshift.application.downgrade_work import DowngradeTools, Handler, Look, RunTerms, Work
from groupshift.domain.downgrade import preflight
from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.progress import AFTER, Doing, Next, Seen, Stand, next_of, obstacles
from groupshift.domain.downgrade.run_plan import RunAct, RunPlan, RunStep, from_json, run_plan, to_json
from groupshift.domain.downgrade.undoing import way_back
from groupshift.domain.judgement import Judgement
from groupshift.domain.verdict import Finding
from groupshift.errors import Conflict, Rejected
from groupshift.ports.cluster_runs import ClusterRun, ClusterRuns, RunState, RunStepRecord
from groupshift.ports.crash import CrashPoint
from groupshift.ports.journal import StepState
from groupshift.ports.run_sealing import SEALED

RUN_PREFIX = "downgrade-"
"""What the id of every run begins with."""
_HANDLERS: Mapping[RunAct, Handler] = {
    **downgrade_groups.HANDLERS,
    **downgrade_nodes.HANDLERS,
    **downgrade_replace.HANDLERS,
}


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
_ENDS = {
    Seen.PERSON: Ended.WAITING,
    Seen.NOT_YET: Ended.WAITING,
    Seen.REFUSED: Ended.DECLINED,
    Seen.FAILED: Ended.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """What would be done, every finding, and those that no step answers (then nothing may begin)."""

    facts: DowngradeFacts
    plan: RunPlan
    judgement: Judgement
    against: tuple[Finding, ...]

    @property
    def possible(self) -> bool:
        """Whether a run may begin."""
        return bool(self.plan.steps) and not self.against


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """Where a run stopped, at which step, and why; ``undo`` names what the way back would undo."""

    run: str
    ended: Ended
    step: str = ""
    detail: str = ""
    undo: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """A step and how far it is."""

    step: RunStep
    stand: Stand
    at_ms: int = 0
    result: Mapping[str, Any] | None = None


def plan_run(tools: DowngradeTools, asked: DowngradeRequest, *, live: bool = False) -> PlannedRun:
    """Look, and plan; nothing is changed. Raises as `assess_downgrade`, and `Rejected` without the release
    that runs now: the way back needs it."""
    if asked.said is None:
        raise Rejected("say what the brokers run with --from, such as --from 4.3.1: the way back needs it")
    facts = look_at(tools.views, tools.log, asked)
    findings = preflight.ask(facts)
    return PlannedRun(
        facts=facts,
        plan=run_plan(facts, live=live),
        judgement=Judgement(findings=findings),
        against=obstacles(facts, findings),
    )


def begin(tools: DowngradeTools, planned: PlannedRun) -> ClusterRun:
    """Journal a run of this plan. Raises `Rejected` when it may not begin, `Conflict` when the cluster has an
    open one."""
    if not planned.possible:
        said = "; ".join(_with_remedy(each) for each in planned.against) or "there is no way"
        raise Rejected(f"the downgrade may not begin, nothing was changed: {said}")
    now = tools.clock.now_ms()
    run = ClusterRun(
        run=f"{RUN_PREFIX}{planned.plan.cluster_id}-{now}",
        cluster_id=planned.plan.cluster_id,
        state=RunState.OPEN,
        plan_hash=planned.plan.hash,
        plan=to_json(planned.plan),
        created_at_ms=now,
        updated_at_ms=now,
    )
    tools.runs.create(run)
    return run


def _with_remedy(finding: Finding) -> str:
    said = f"{finding.rule}: {finding.reason}"
    return f"{said} ({finding.hint})" if finding.hint else said


def go_on(tools: DowngradeTools, terms: RunTerms, run: ClusterRun) -> RunOutcome:
    """Drive a run from where its journal says it stands, as far as it goes; one that reached its end is left
    alone, for the process that brought it there may have died before it could say so.

    Raises `Conflict` when another process claimed it or turned it since ``run`` was read, or an approval is
    void, `Transient` when something does not answer (run again), `Rejected` when a broker or the driver
    refuses, or another cluster's brokers answer."""
    demand_cluster(tools, run)
    if run.state in _REACHED:
        return RunOutcome(run=run.run, ended=_REACHED[run.state])
    token = tools.runs.claim(run.run, terms.who, tools.clock.now_ms())
    now = tools.runs.find(run.run).state
    if now is not run.state:
        raise Conflict(
            f"run {run.run} was {run.state} and is {now} by another process since: nothing was changed here; "
            "look at it with: groupshift downgrade status"
        )
    steps = steps_of(tools.runs, run)
    work = Work(tools=tools, terms=terms, plan=from_json(run.plan), run=run.run, token=token, steps=steps)
    while following := next_of(steps, journaled(work), token):
        if following.step.act not in terms.acts:
            return RunOutcome(run=run.run, ended=Ended.PAUSED, step=following.step.key)
        stopped = _advance(work, following)
        if stopped is not None:
            return _stopped(work, following.step, stopped)
    end = RunState.TAKEN_BACK if run.state is RunState.GOING_BACK else RunState.DONE
    _end(work, run, end)
    return RunOutcome(run=run.run, ended=_REACHED[end])


def _end(work: Work, run: ClusterRun, state: RunState) -> None:
    """Seal the evidence, journal the manifest's hash, and close: nothing is journaled of a closed run."""
    tools, now = work.tools, work.tools.clock.now_ms()
    sealed = tools.seal(replace(run, state=state, updated_at_ms=now), tools.runs.steps(run.run))
    if sealed:
        done = RunStepRecord(step=SEALED, state=StepState.DONE, token=work.token, at_ms=now, result=sealed)
        tools.runs.put(run.run, done)
    tools.runs.move(run.run, work.token, state, now)


def turn_back(tools: DowngradeTools, terms: RunTerms, run: ClusterRun) -> ClusterRun:
    """Let an open run go back; one that does so already is left alone. Raises `Rejected` for a closed one,
    and when another cluster's brokers answer."""
    if run.state is RunState.GOING_BACK:
        return run
    if not run.open:
        raise Rejected(f"run {run.run} is {run.state}: there is nothing to take back; plan a new one")
    demand_cluster(tools, run)
    now = tools.clock.now_ms()
    tools.runs.move(run.run, tools.runs.claim(run.run, terms.who, now), RunState.GOING_BACK, now)
    return tools.runs.find(run.run)


def steps_of(runs: ClusterRuns, run: ClusterRun) -> tuple[RunStep, ...]:
    """The steps that a run walks now: those of its plan, or what undoes them."""
    going_back = run.state in {RunState.GOING_BACK, RunState.TAKEN_BACK}
    return undoing(runs, run) if going_back else from_json(run.plan).steps


def undoing(runs: ClusterRuns, run: ClusterRun) -> tuple[RunStep, ...]:
    """What would undo what a run has begun."""
    return way_back(from_json(run.plan), runs.steps(run.run))


def statuses(runs: ClusterRuns, run: ClusterRun) -> tuple[StepStatus, ...]:
    """Every step of a run and how far it is."""
    records = runs.steps(run.run)
    found = []
    for step in steps_of(runs, run):
        record = records.get(step.key)
        if record is None:
            found.append(StepStatus(step=step, stand=Stand.UNTOUCHED))
        else:
            stand = Stand(record.state.value)
            found.append(StepStatus(step=step, stand=stand, at_ms=record.at_ms, result=record.result))
    return tuple(found)


def _advance(work: Work, following: Next) -> Look | None:
    """One transition; a look when the run stops there."""
    step, handler, crash = following.step, _HANDLERS[following.step.act], work.tools.crash
    record = work.tools.runs.steps(work.run).get(step.key)
    match following.doing:
        case Doing.INTEND:
            work.terms.told(step, "begins")
            intent = handler.intend(work, step)
            crash.reached(step.key, CrashPoint.BEFORE_JOURNAL)
            _put(work, step, StepState.INTENDED, (intent, {}))
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
            look = _awaited(work, step, record)
            crash.reached(step.key, CrashPoint.AFTER_READ_BACK)
            stand = StepState(AFTER[look.seen].value)
            _put(work, step, stand, (record.intent, {**record.result, **look.result}))
            return None if look.seen is Seen.HOLDS else look


def _begun(step: RunStep, record: RunStepRecord | None) -> RunStepRecord:
    if record is None:
        raise Rejected(f"step {step.key} is not in the journal; run it again")
    return record


def _awaited(work: Work, step: RunStep, record: RunStepRecord) -> Look:
    """Read back until it is decided, for at most the patience of this process."""
    clock = work.tools.clock
    end = clock.now_ms() + work.terms.patience_s * 1000
    while True:
        look = _HANDLERS[step.act].read_back(work, step, record)
        if look.detail:
            work.terms.told(step, look.detail)
        if look.seen is not Seen.NOT_YET or clock.now_ms() >= end:
            return look
        clock.sleep(work.terms.every_s)


def _put(
    work: Work, step: RunStep, state: StepState, body: tuple[Mapping[str, Any], Mapping[str, Any]]
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


def _stopped(work: Work, step: RunStep, look: Look) -> RunOutcome:
    undo = way_back(work.plan, work.tools.runs.steps(work.run))
    if look.seen is Seen.REFUSED and step.subject == "plan":
        work.tools.runs.move(work.run, work.token, RunState.ENDED, work.tools.clock.now_ms())
    return RunOutcome(
        run=work.run,
        ended=_ENDS[look.seen],
        step=step.key,
        detail=look.detail,
        undo=tuple(each.does for each in undo[1:]),
    )
