"""How the verbs of runs that change a whole cluster show plans, and where a run stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from groupshift.application import run_engine
from groupshift.application.run_account import RunAccount, trouble, waiting
from groupshift.application.run_accounts import account_of
from groupshift.application.run_engine import Ended, Move, RunOutcome, StepStatus, W
from groupshift.application.run_work import AnyPlan
from groupshift.cli import output
from groupshift.cli.terminal import Console, Table
from groupshift.domain.foreign_text import command
from groupshift.domain.step import RunStep, Stand
from groupshift.domain.verdict import Finding
from groupshift.ports.journal import ClusterRun, ClusterRuns, RunState

_WAITS = 6
_RECENT = 100
"""How many runs are looked through for open ones."""
_CODES = {Ended.DONE: 0, Ended.TAKEN_BACK: 0, Ended.WAITING: _WAITS, Ended.DECLINED: 1, Ended.FAILED: 1}
_MARKS = {Stand.DONE: "done", Stand.ACTED: "read back", Stand.INTENDED: "begun", Stand.UNTOUCHED: ""}


def plan_table(steps: tuple[RunStep, ...], marks: dict[str, str]) -> Table:
    """The steps of a plan, with how far each is (``marks``, by key)."""
    table = Table("the plan", ("step", "what is done", "proof before the next", "way back", "now"))
    for step in steps:
        texts = (step.key, step.does, step.proof or "-", step.inverse or "-", marks.get(step.key, ""))
        table.add_row(*(text for text in texts))
    return table


class Planned(Protocol):
    """A plan that was made, every finding, and those for which nothing may begin."""

    @property
    def possible(self) -> bool:
        """Whether a run may begin."""

    @property
    def plan(self) -> AnyPlan:
        """What would be done."""

    @property
    def against(self) -> tuple[Finding, ...]:
        """What forbids it."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What every rule said."""


def show_planned(
    move: Move[W], planned: Planned, shown: Sequence[Finding], *, as_json: bool, said: str = ""
) -> int:
    """The plan with these findings and a sentence, or why there is none that may begin; the exit code."""
    following = (
        _anew(move, planned.plan)
        if planned.possible
        else next((each.hint for each in planned.against if each.hint), "see the findings")
    )
    code = 0 if planned.possible else 1
    if as_json:
        document = {
            "possible": planned.possible,
            "plan": planned.plan,
            "hash": planned.plan.hash,
            "against": planned.against,
            "findings": planned.findings,
            "next": following,
        }
        output.print_json(document)
        return code
    console = Console()
    if shown:
        console.print(output.findings_table(shown, "what the rules say of it"))
    console.print(plan_table(planned.plan.steps, {}))
    if said:
        console.print(said)
    output.next_command(console, following)
    return code


def show_run(
    move: Move[W],
    runs: ClusterRuns,
    found: ClusterRun,
    said: Mapping[str, Any],
    *,
    as_json: bool,
    closed: str,
) -> int:
    """A run, step by step, what else is ``said`` of it, and which others of its move are open; ``closed`` is
    what to do after its end. The exit code."""
    steps = run_engine.statuses(move, runs, found)
    account = account_of(found, runs.steps(found.run))
    why = _why(account)
    latest = runs.recent(_RECENT, move=move.name)
    others = [each for each in latest if each.open and each.run != found.run]
    forward = "back" if account.stop and account.stop.hopeless else "run"
    verbs = {RunState.OPEN: forward, RunState.GOING_BACK: "back"}
    following = f"groupshift {move.name} {verbs[found.state]} --execute" if found.state in verbs else closed
    if as_json:
        document = {
            "run": found.run,
            "cluster": found.cluster_id,
            "state": found.state,
            "hash": found.plan_hash,
            **said,
            "steps": steps,
            "stopped": account.stop,
            "others": [{"run": each.run, "cluster": each.cluster_id, "state": each.state} for each in others],
            "next": following,
        }
        output.print_json(document)
        return 0
    _print_run(Console(), found, steps, [line for line in (why, *_others(others)) if line])
    output.next_command(Console(), following)
    return 0


def _print_run(console: Console, found: ClusterRun, steps: Sequence[StepStatus], lines: list[str]) -> None:
    marks = {each.step.key: _MARKS[each.stand] for each in steps}
    console.print(plan_table(tuple(each.step for each in steps), marks))
    for line in (f"run {found.run} of cluster {found.cluster_id}: {found.state}", *lines):
        console.print(line)


def _others(found: Sequence[ClusterRun]) -> list[str]:
    return [f"also {each.state}: run {each.run} of cluster {each.cluster_id}" for each in found]


def _why(account: RunAccount[Any]) -> str:
    """Why it stopped or what it waits for, as its journal says; empty when neither is known."""
    why, waits = trouble(account), waiting(account)
    return f"it stopped: {why}" if why else f"it waits: {waits}" if waits else ""


def show_back(move: str, run: str, steps: Sequence[RunStep], *, as_json: bool) -> int:
    """What taking a run back would do, and the command that does it; ``run`` is empty where the cluster tells
    which it is. Nothing is changed. The exit code."""
    named = ("--run", run) if run else ()
    following = command("groupshift", move, "back", *named, "--execute")
    if as_json:
        output.print_json({"steps": tuple(steps), "next": following})
        return 0
    console = Console(stderr=True)
    for number, step in enumerate(steps, 1):
        console.print(f"{number}. {step.does}")
    output.next_command(console, following)
    return 0


def _anew(move: Move[W], plan: AnyPlan) -> str:
    """The command that begins such a run."""
    return f"groupshift {move.name} run {move.asked(plan)} --execute"


def finish(move: Move[W], runs: ClusterRuns, outcome: RunOutcome, *, as_json: bool, done: str = "") -> int:
    """Where a run stopped and why, and what to type next (``done``: after its end); the exit code."""
    found = runs.find(outcome.run)
    following = _following(move, found, outcome, done)
    if as_json:
        steps = run_engine.statuses(move, runs, found)
        output.print_json({"outcome": outcome, "steps": steps, "next": following})
        return _CODES[outcome.ended]
    console = Console()
    where = f" at step {outcome.step}" if outcome.step else ""
    console.print(f"run {outcome.run}: {outcome.ended}{where}")
    if outcome.detail:
        console.print(outcome.detail)
    for number, text in enumerate(outcome.undo if outcome.ended is Ended.FAILED else (), 1):
        console.print(f"way back {number}: {text}")
    output.next_command(console, following)
    return _CODES[outcome.ended]


def _following(move: Move[W], found: ClusterRun, outcome: RunOutcome, done: str) -> str:
    if outcome.ended is Ended.DONE and done:
        return done
    if outcome.ended in {Ended.DONE, Ended.TAKEN_BACK}:
        return f"groupshift {move.name} status"
    if not found.open:
        return _anew(move, move.read(found.plan))
    failed = outcome.ended is Ended.FAILED and bool(outcome.undo or outcome.hopeless)
    back = failed or found.state is RunState.GOING_BACK
    return f"groupshift {move.name} {'back' if back else 'run'} --execute"
