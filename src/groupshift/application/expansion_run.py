"""An expansion that acts: what is planned, and the move that `groupshift.application.run_engine` drives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupshift.application import (
    expansion_brokers,
    expansion_fence,
    expansion_groups,
    expansion_proof,
    expansion_restore,
    run_engine,
    run_snapshots,
)
from groupshift.application import expansion_plan as plans
from groupshift.application.expansion_counts import still_placed
from groupshift.application.expansion_fence import fence_of
from groupshift.application.expansion_plan import ExpansionPlan
from groupshift.application.expansion_work import Expanding, ExpansionTools, journaled
from groupshift.application.records import findings_data
from groupshift.application.run_demands import demand_move
from groupshift.application.run_engine import Move, RunOutcome, StepStatus
from groupshift.application.run_work import RunTerms
from groupshift.domain.step import RunAct, RunStep, asked_with
from groupshift.domain.verdict import Finding
from groupshift.errors import Rejected, Transient
from groupshift.moves.expansion.assess import PlannedExpansion, plan_expansion
from groupshift.ports.journal import ClusterRun, ClusterRuns
from groupshift.ports.log import LogProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """What was looked at, what would be done, and the findings for which nothing may begin."""

    planned: PlannedExpansion
    plan: ExpansionPlan
    against: tuple[Finding, ...]

    @property
    def possible(self) -> bool:
        """Whether a run may begin."""
        return not self.against

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What every rule said."""
        return self.planned.judgement.findings


def may_turn_back(tools: ExpansionTools, run: ClusterRun) -> None:
    """Raises `Rejected` once brokers may count the new partitions: from then on what was committed at the
    former coordinators would be lost, and every step forward can be repeated. Raises `Transient` while
    brokers tell different counts."""
    plan, begun = plans.from_json(run.plan), tools.runs.steps(run.run)
    restarted = [each.subject for each in plan.steps if each.act is RunAct.RESTART and each.key in begun]
    making = any(each.act is RunAct.CREATE_PARTITIONS and each.key in begun for each in plan.steps)
    view = tools.views.look()
    if view.differing:
        raise Transient("brokers tell different counts of the offsets topic now; run it again")
    count = view.count
    if restarted or (making and count == plan.to != plan.partitions):
        why = f"broker {restarted[0]} may count {plan.to} already" if restarted else f"there are {count}"
        raise Rejected(
            f"the way back is closed: partitions never become fewer, and {why}; go on with: "
            "groupshift expansion run --execute"
        )


MOVE: Move[Expanding] = Move(
    name=plans.MOVE,
    handlers={
        **run_snapshots.HANDLERS,
        RunAct.COMPARE: still_placed(run_snapshots.HANDLERS[RunAct.COMPARE]),
        **expansion_groups.HANDLERS,
        **expansion_restore.HANDLERS,
        **expansion_brokers.HANDLERS,
        **expansion_proof.HANDLERS,
        **expansion_fence.HANDLERS,
    },
    read=plans.from_json,
    write=plans.to_json,
    undo=plans.way_back,
    stands=journaled,
    work=Expanding,
    asked=plans.asked_for,
    may_turn_back=may_turn_back,
)


def plan_run(tools: ExpansionTools, to: int, told: LogProgress | None = None) -> PlannedRun:
    """Look, and plan; nothing is changed. Raises as `plan_expansion`."""
    found = plan_expansion(tools.views, tools.log, to, told)
    plan = plans.run_plan(found.facts, to, fenced=fence_of(tools.nodes) is not None)
    steps = asked_with(plan.steps, checks=findings_data(found.judgement.findings))
    return PlannedRun(
        planned=found,
        plan=replace(plan, steps=steps),
        against=plans.against(found.judgement.findings),
    )


def begin(tools: ExpansionTools, planned: PlannedRun) -> ClusterRun:
    """Journal a run of this plan. Raises `Rejected` when it may not begin, `Conflict` when the cluster has an
    open one."""
    if not planned.possible:
        said = "; ".join(each.with_remedy for each in planned.against)
        raise Rejected(f"the expansion may not begin, nothing was changed: {said}")
    return run_engine.begin(MOVE, tools, planned.plan)


def demand_same(run: ClusterRun, to: int | None) -> None:
    """An open run goes on by its own plan. Raises `Conflict` for a run of another move, `Rejected` where
    another count is asked for."""
    demand_move(run, MOVE.name)
    plan = plans.from_json(run.plan)
    if to not in {None, plan.to}:
        raise Rejected(
            f"--to {to} was asked for, and run {run.run} to {plan.to} partitions is open: go on with it, or "
            "take it back with: groupshift expansion back --execute; nothing was changed"
        )


def go_on(tools: ExpansionTools, terms: RunTerms, run: ClusterRun) -> RunOutcome:
    """See `run_engine.go_on`."""
    return run_engine.go_on(MOVE, tools, terms, run)


def turn_back(tools: ExpansionTools, terms: RunTerms, run: ClusterRun) -> ClusterRun:
    """See `run_engine.turn_back`, and `may_turn_back`."""
    return run_engine.turn_back(MOVE, tools, terms, run)


def undoing(runs: ClusterRuns, run: ClusterRun) -> tuple[RunStep, ...]:
    """See `run_engine.undoing`."""
    return run_engine.undoing(MOVE, runs, run)


def statuses(runs: ClusterRuns, run: ClusterRun) -> tuple[StepStatus, ...]:
    """See `run_engine.statuses`."""
    return run_engine.statuses(MOVE, runs, run)
