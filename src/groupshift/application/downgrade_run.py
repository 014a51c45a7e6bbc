"""A downgrade that acts: what is planned, and the move that `groupshift.application.run_engine` drives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupshift.application import (
    downgrade_groups,
    downgrade_nodes,
    downgrade_replace,
    run_engine,
    run_snapshots,
)
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_plan import RunPlan, asked_for, from_json, run_plan, to_json, way_back
from groupshift.application.downgrade_stands import journaled
from groupshift.application.downgrade_work import DowngradeTools, Work
from groupshift.application.records import findings_data
from groupshift.application.run_engine import Move, RunOutcome, StepStatus
from groupshift.application.run_work import RunTerms
from groupshift.domain.judgement import Judgement
from groupshift.domain.step import RunStep, asked_with
from groupshift.domain.verdict import Finding
from groupshift.errors import Rejected
from groupshift.moves.downgrade.facts import DowngradeFacts
from groupshift.moves.downgrade.rules import ask, obstacles
from groupshift.moves.downgrade.views import look_at
from groupshift.ports.journal import ClusterRun, ClusterRuns

MOVE: Move[Work] = Move(
    name="downgrade",
    handlers={
        **run_snapshots.HANDLERS,
        **downgrade_groups.HANDLERS,
        **downgrade_nodes.HANDLERS,
        **downgrade_replace.HANDLERS,
    },
    read=from_json,
    write=to_json,
    undo=way_back,
    stands=journaled,
    work=Work,
    asked=asked_for,
)


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

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What every rule said."""
        return self.judgement.findings


def plan_run(tools: DowngradeTools, asked: DowngradeRequest, *, live: bool = False) -> PlannedRun:
    """Look, and plan; nothing is changed. Raises as `assess_downgrade`, and `Rejected` without the release
    that runs now: the way back needs it."""
    if asked.said is None:
        raise Rejected("say what the brokers run with --from, such as --from 4.3.1: the way back needs it")
    facts = look_at(tools.views, tools.log, asked)
    findings = ask(facts)
    plan = run_plan(facts, live=live)
    steps = asked_with(plan.steps, checks=findings_data(findings), live=live)
    return PlannedRun(
        facts=facts,
        plan=replace(plan, steps=steps),
        judgement=Judgement(findings=findings),
        against=obstacles(facts, findings),
    )


def begin(tools: DowngradeTools, planned: PlannedRun) -> ClusterRun:
    """Journal a run of this plan. Raises `Rejected` when it may not begin, `Conflict` when the cluster has an
    open one."""
    if not planned.possible:
        said = "; ".join(each.with_remedy for each in planned.against) or "there is no way"
        raise Rejected(f"the downgrade may not begin, nothing was changed: {said}")
    return run_engine.begin(MOVE, tools, planned.plan)


def go_on(tools: DowngradeTools, terms: RunTerms, run: ClusterRun) -> RunOutcome:
    """See `run_engine.go_on`."""
    return run_engine.go_on(MOVE, tools, terms, run)


def turn_back(tools: DowngradeTools, terms: RunTerms, run: ClusterRun) -> ClusterRun:
    """See `run_engine.turn_back`."""
    return run_engine.turn_back(MOVE, tools, terms, run)


def steps_of(runs: ClusterRuns, run: ClusterRun) -> tuple[RunStep, ...]:
    """See `run_engine.steps_of`."""
    return run_engine.steps_of(MOVE, runs, run)


def undoing(runs: ClusterRuns, run: ClusterRun) -> tuple[RunStep, ...]:
    """See `run_engine.undoing`."""
    return run_engine.undoing(MOVE, runs, run)


def statuses(runs: ClusterRuns, run: ClusterRun) -> tuple[StepStatus, ...]:
    """See `run_engine.statuses`."""
    return run_engine.statuses(MOVE, runs, run)
