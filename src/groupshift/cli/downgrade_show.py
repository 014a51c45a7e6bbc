"""How the verbs of a downgrade show plans, runs and where a run stopped."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from groupshift.application import downgrade_run
from groupshift.application.downgrade_run import PlannedRun
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.cli import render
from groupshift.domain.cluster_run.progress import Stand
from groupshift.domain.cluster_run.steps import RunStep
from groupshift.domain.downgrade.releases import target_of
from groupshift.domain.downgrade.run_plan import RunPlan, from_json
from groupshift.ports.cluster_runs import ClusterRun, ClusterRuns, RunState

_WAITS = 6
_CODES = {Ended.DONE: 0, Ended.TAKEN_BACK: 0, Ended.WAITING: _WAITS, Ended.DECLINED: 1, Ended.FAILED: 1}
_MARKS = {Stand.DONE: "done", Stand.ACTED: "read back", Stand.INTENDED: "begun", Stand.UNTOUCHED: ""}


def show_planned(planned: PlannedRun, *, as_json: bool) -> int:
    """The plan, or why there is none that may begin."""
    plan = planned.plan
    following = (
        f"groupshift downgrade run --to {plan.release} --from {plan.now}{_flags(plan)} --execute"
        if planned.possible
        else next((each.hint for each in planned.against if each.hint), "see the findings")
    )
    if as_json:
        document = {
            "possible": planned.possible,
            "plan": plan,
            "hash": plan.hash,
            "against": planned.against,
            "findings": planned.judgement.findings,
            "next": following,
        }
        render.print_json(document)
    else:
        console = Console()
        if planned.against:
            console.print(render.findings_table(planned.against, "what no step of the plan answers"))
        console.print(plan_table(plan.steps, {}))
        render.next_command(console, following)
    return 0 if planned.possible else 1


def _flags(plan: RunPlan) -> str:
    """What was asked for beside the releases, to be typed again."""
    usual = target_of(plan.release).coordinator
    asked = {
        f" --coordinator {plan.coordinator}": plan.coordinator is not usual,
        " --live": plan.live,
        " --brokers-only": plan.brokers_only,
    }
    return "".join(flag for flag, given in asked.items() if given)


def show_run(
    runs: ClusterRuns, found: ClusterRun, *, as_json: bool, others: tuple[ClusterRun, ...] = ()
) -> int:
    """A run, step by step, and which others are open; the exit code."""
    steps = downgrade_run.statuses(runs, found)
    plan: RunPlan = from_json(found.plan)
    open_ = "groupshift downgrade run --execute" if found.state is RunState.OPEN else ""
    following = open_ or (
        "groupshift downgrade back --execute" if found.open else "groupshift snapshot --all"
    )
    if as_json:
        document: dict[str, Any] = {
            "run": found.run,
            "cluster": found.cluster_id,
            "state": found.state,
            "hash": found.plan_hash,
            "to": plan.release,
            "from": plan.now,
            "steps": steps,
            "others": [{"run": each.run, "cluster": each.cluster_id, "state": each.state} for each in others],
            "next": following,
        }
        render.print_json(document)
        return 0
    console = Console()
    marks = {each.step.key: _MARKS[each.stand] for each in steps}
    console.print(plan_table(tuple(each.step for each in steps), marks))
    console.print(escape(f"run {found.run} of cluster {found.cluster_id}: {found.state}"), soft_wrap=True)
    for each in others:
        console.print(
            escape(f"also {each.state}: run {each.run} of cluster {each.cluster_id}"), soft_wrap=True
        )
    render.next_command(console, following)
    return 0


def plan_table(steps: tuple[RunStep, ...], marks: dict[str, str]) -> Table:
    """The steps of a plan, with how far each is (``marks``, by key)."""
    table = Table(title="the plan", title_justify="left")
    for name in ("step", "what is done", "proof before the next", "way back", "now"):
        table.add_column(name, overflow="fold")
    for step in steps:
        texts = (step.key, step.does, step.proof or "-", step.inverse or "-", marks.get(step.key, ""))
        table.add_row(*(escape(text) for text in texts))
    return table


def finish(runs: ClusterRuns, outcome: RunOutcome, *, as_json: bool) -> int:
    """Where a run stopped and why, and what to type next; the exit code."""
    back = runs.find(outcome.run).state is RunState.GOING_BACK
    following = {
        Ended.DONE: "groupshift downgrade status",
        Ended.TAKEN_BACK: "groupshift downgrade status",
        Ended.FAILED: "groupshift downgrade back --execute",
    }.get(outcome.ended, f"groupshift downgrade {'back' if back else 'run'} --execute")
    if as_json:
        steps = downgrade_run.statuses(runs, runs.find(outcome.run))
        render.print_json({"outcome": outcome, "steps": steps, "next": following})
        return _CODES[outcome.ended]
    console = Console()
    where = f" at step {outcome.step}" if outcome.step else ""
    console.print(escape(f"run {outcome.run}: {outcome.ended}{where}"), soft_wrap=True)
    if outcome.detail:
        console.print(escape(outcome.detail), soft_wrap=True)
    for number, text in enumerate(outcome.undo if outcome.ended is Ended.FAILED else (), 1):
        console.print(escape(f"way back {number}: {text}"), soft_wrap=True)
    render.next_command(console, following)
    return _CODES[outcome.ended]
