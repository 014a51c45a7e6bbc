"""How the verbs of runs that change a whole cluster show plans, and where a run stopped."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from groupshift.application import run_engine
from groupshift.application.run_engine import Ended, Move, RunOutcome, W
from groupshift.cli import render
from groupshift.domain.cluster_run.progress import Stand
from groupshift.domain.cluster_run.steps import RunStep
from groupshift.ports.cluster_runs import ClusterRuns, RunState

_WAITS = 6
_CODES = {Ended.DONE: 0, Ended.TAKEN_BACK: 0, Ended.WAITING: _WAITS, Ended.DECLINED: 1, Ended.FAILED: 1}
MARKS = {Stand.DONE: "done", Stand.ACTED: "read back", Stand.INTENDED: "begun", Stand.UNTOUCHED: ""}


def plan_table(steps: tuple[RunStep, ...], marks: dict[str, str]) -> Table:
    """The steps of a plan, with how far each is (``marks``, by key)."""
    table = Table(title="the plan", title_justify="left")
    for name in ("step", "what is done", "proof before the next", "way back", "now"):
        table.add_column(name, overflow="fold")
    for step in steps:
        texts = (step.key, step.does, step.proof or "-", step.inverse or "-", marks.get(step.key, ""))
        table.add_row(*(escape(text) for text in texts))
    return table


def finish(move: Move[W], runs: ClusterRuns, outcome: RunOutcome, *, as_json: bool, done: str = "") -> int:
    """Where a run stopped and why, and what to type next (``done``: after its end); the exit code."""
    found = runs.find(outcome.run)
    back = found.state is RunState.GOING_BACK
    turn = outcome.undo or outcome.hopeless
    following = {
        Ended.DONE: done or f"groupshift {move.name} status",
        Ended.TAKEN_BACK: f"groupshift {move.name} status",
        Ended.FAILED: f"groupshift {move.name} {'back' if turn else 'run'} --execute",
    }.get(outcome.ended, f"groupshift {move.name} {'back' if back else 'run'} --execute")
    if as_json:
        steps = run_engine.statuses(move, runs, found)
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
