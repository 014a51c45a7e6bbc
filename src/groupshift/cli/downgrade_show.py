"""How the verbs of a downgrade show plans, runs and where a run stopped."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from groupshift.application import downgrade_run
from groupshift.application.downgrade_run import PlannedRun
from groupshift.cli import render
from groupshift.cli.run_show import MARKS, plan_table
from groupshift.domain.downgrade.releases import target_of
from groupshift.domain.downgrade.run_plan import RunPlan, from_json
from groupshift.ports.cluster_runs import ClusterRun, ClusterRuns, RunState


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
    marks = {each.step.key: MARKS[each.stand] for each in steps}
    console.print(plan_table(tuple(each.step for each in steps), marks))
    console.print(escape(f"run {found.run} of cluster {found.cluster_id}: {found.state}"), soft_wrap=True)
    for each in others:
        console.print(
            escape(f"also {each.state}: run {each.run} of cluster {each.cluster_id}"), soft_wrap=True
        )
    render.next_command(console, following)
    return 0
