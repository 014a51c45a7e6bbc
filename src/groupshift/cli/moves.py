"""``groupshift MOVE assess | plan | run``: the verbs of each installed move, made from its request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.bootstrap.moves import request_at
from groupshift.cli import output
from groupshift.cli.installed import ANYTHING, refusing
from groupshift.cli.options import Execute, Json, run_name, who
from groupshift.cli.requests import asked_again, parameters, values_of
from groupshift.cli.run_driving import Terms, go_on
from groupshift.cli.run_output import show_findings, show_sections, steps_table
from groupshift.cli.run_place import Where, place_of, placed, session, shaped
from groupshift.cli.runs import Patience, Yes
from groupshift.cli.terminal import Console, styled
from groupshift.domain.run import CHECKS, findings_from, plan_from
from groupshift.domain.verdict import Verdict, counted, worst
from groupshift.engine.begin import assess, begin, request_differences
from groupshift.engine.move import Move, RunOptions
from groupshift.engine.registry import GROUP, moves
from groupshift.errors import Conflict, Rejected
from groupshift.ports.runs import RunRecord, Runs

NOTES = "notes"
"""The name in `Plan.about` under which a plan has sentences for people."""
STATE = "groupshift-state"
"""A folder for journal and evidence, where none was named: a run has to write somewhere."""
All = Annotated[bool, typer.Option("--all", help="Show the rules that passed, too.")]
Page = Annotated[
    Path | None,
    typer.Option("--output", help="Write a page of it (one HTML file).", show_default=False),
]


def installed() -> dict[str, list[EntryPoint]]:
    """Return the entry points of moves, by name."""
    found: dict[str, list[EntryPoint]] = {}
    for each in entry_points(group=GROUP):
        found.setdefault(each.name, []).append(each)
    return found


def add_moves(app: typer.Typer, panel: str, found: Mapping[str, Iterable[EntryPoint]] | None = None) -> None:
    """Add the verbs of each installed move to ``app``; one that cannot be loaded fails when it is called."""
    for name, entries in sorted((installed() if found is None else found).items()):
        try:
            verbs = verbs_of(moves(lambda entries=entries: entries)[name])  # type: ignore[misc]
        except Rejected as wrong:
            app.command(name, hidden=True, context_settings=ANYTHING)(refusing(str(wrong)))
        else:
            app.add_typer(verbs, name=name, rich_help_panel=panel)


def verbs_of(move: Move[Any]) -> typer.Typer:
    """Return ``assess``, ``plan`` and ``run`` of a move. Raises `Rejected` for options."""
    lines = (inspect.getdoc(type(move)) or move.name).splitlines()
    made = typer.Typer(name=move.name, help=lines[0].replace("[", "("), no_args_is_help=True)
    for name, verb in (("assess", _assess), ("plan", _plan), ("run", _run)):
        made.command(name, help=inspect.getdoc(verb))(_of(move, verb))
    return made


def _of(move: Move[Any], verb: Callable[..., int]) -> Callable[..., int]:
    """The verb with the options of the move's request before its own."""
    at_place = placed(verb)
    own = [each for each in inspect.signature(at_place).parameters.values() if each.name not in _FILLED]
    names = {each.name for each in own}

    def called(**given: Any) -> int:
        asked = {name: value for name, value in given.items() if name not in names}
        shared = {name: value for name, value in given.items() if name in names}
        return at_place(move=move, given=values_of(move, asked), **shared)

    return shaped(called, list(parameters(move, own, assesses=verb is _assess)))


_FILLED = frozenset({"move", "given"})


def _assess(
    *,
    move: Move[Any],
    given: Mapping[str, Any],
    everything: All = False,
    patience: Patience = 0,
    page: Page = None,
    as_json: Json = False,
    where: Where,
) -> int:
    """Say whether a run may begin, one line a rule; nothing is changed. Exit code 1: it may not."""
    place = place_of(where, remembers=False)
    request = request_at(move, given, place.settings)
    with session(place) as at, at.ports(move, request) as ports:
        target = move.target(ports, request)
        facts, findings = assess(move, at.tools, ports, request, patience_s=patience)
        in_the_way = at.runs.in_the_way(target)
    if page is not None:
        _write(move, request, facts, page)
    obstacles, observed = move.obstacles(request, facts, findings), move.observed(request, facts)
    verdict = worst(each.verdict for each in findings) if findings else Verdict.PASS
    ready = not obstacles and verdict is not Verdict.ERROR
    following = asked_again(move, "run" if ready else "assess", request)
    if ready and where.bootstrap_servers and where.state is None:
        following += f" --state {STATE}"
    if in_the_way:
        following = f"groupshift status {in_the_way[0].run}"
    blocked = [f"run {each.run} of {each.target} is {each.state} and is in the way" for each in in_the_way]
    if as_json:
        output.print_json(
            {
                "move": move.name,
                "target": str(target),
                "ready": ready and not blocked,
                "verdict": verdict,
                "findings": findings,
                "obstacles": [each.rule for each in obstacles],
                "in_the_way": [each.run for each in in_the_way],
                "observed": observed.data,
                "next": following,
            }
        )
        return 0 if ready and not blocked else 1
    console = Console()
    show_sections(console, observed.sections)
    show_findings(console, findings, str(target), everything=everything)
    for each in blocked:
        console.print(each)
    said = "a run may begin" if ready and not blocked else "no run may begin"
    console.line(output.verdict_text(verdict), f": {target}: {said}")
    for hint in dict.fromkeys(each.hint for each in obstacles if each.hint):
        console.print(f"to do: {hint}")
    output.next_command(console, following)
    return 0 if ready and not blocked else 1


def _write(move: Move[Any], request: Any, facts: Any, page: Path) -> None:
    text = move.assessment_page(request, facts)
    if not text:
        raise Rejected(f"an assessment of {move.name} has no page: leave --output out, or take --json")
    output.write_page(page, text)


def _plan(
    *,
    move: Move[Any],
    given: Mapping[str, Any],
    execute: Execute = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Plan a run and show every step; with --execute it may be gone on with, and its target is locked."""
    place = place_of(where)
    request = request_at(move, given, place.settings)
    with session(place) as at, at.ports(move, request) as ports:
        record = _begun(move, at.tools, ports, request, execute=execute)
    return _show_plan(move, record, request, as_json=as_json)


def _run(
    *,
    move: Move[Any],
    given: Mapping[str, Any],
    patience: Patience = 0,
    execute: Execute = False,
    yes: Yes = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Begin a run and drive it, asking at its gates; one that asks for the same goes on with the open run.
    Without --execute the plan is shown."""
    place = place_of(where)
    request = request_at(move, given, place.settings)
    with session(place) as at, at.ports(move, request) as ports:
        record = _same(move, at.runs, ports, request)
        if not execute:
            record = record or _begun(move, at.tools, ports, request, execute=False)
            return _show_plan(move, record, request, as_json=as_json)
        record = record or _begun(move, at.tools, ports, request, execute=True, patience=patience)
        terms = Terms(yes=yes, patience_s=patience)
        return go_on(at, move, ports, record, terms, as_json=as_json)


def _same(move: Move[Any], runs: Runs, ports: Any, request: Any) -> RunRecord | None:
    """The open run of this move and target, None where there is none. Raises `Rejected` when it was asked
    for otherwise, `Conflict` when it is being taken back."""
    target = move.target(ports, request)
    for each in runs.in_the_way(target):
        if each.move != move.name or each.target != target:
            continue
        if each.state.goes_back:
            raise Conflict(
                f"run {each.run} of {target} is being rolled back; go on with that: "
                f"groupshift continue {each.run}"
            )
        differs = request_differences(each, request)
        if differs:
            raise Rejected(
                f"run {each.run} of {target} is open and was asked for otherwise: {'; '.join(differs)}; "
                f"go on with it: groupshift continue {each.run}, or take it back: "
                f"groupshift roll-back {each.run}"
            )
        return each
    return None


def _begun(
    move: Move[Any], tools: Any, ports: Any, request: Any, *, execute: bool, patience: float = 0
) -> RunRecord:
    options = RunOptions(who=who(), holder=run_name("plan"), patience_s=patience)
    try:
        return begin(move, tools, ports, request, options, execute=execute)
    except Rejected as why:
        raise Rejected(f"{why}; every rule: {asked_again(move, 'assess', request)}") from why


def _show_plan(move: Move[Any], record: RunRecord, request: Any, *, as_json: bool) -> int:
    plan = plan_from(record.plan)
    going = f"groupshift continue {record.run} --execute"
    following = going if record.state.is_open else f"{asked_again(move, 'run', request)} --execute"
    checks = findings_from(plan.about.get(CHECKS, ()))
    notes = [str(each) for each in plan.about.get(NOTES, ())]
    if as_json:
        output.print_json(
            {
                "run": record.run,
                "target": str(record.target),
                "state": record.state,
                "hash": record.plan_hash,
                "steps": [each.as_json() for each in plan.steps],
                "about": plan.about,
                "next": following,
            }
        )
        return 0
    console = Console()
    console.print(steps_table(f"{move.name}: plan for {record.target}", plan.steps))
    for note in notes:
        console.print(note)
    if checks:
        console.print(f"{counted(checks, 'checks')}")
    said = (
        "nothing was changed" if not record.state.is_open else f"its target is locked, state {record.state}"
    )
    console.line("run ", styled(record.run, "bold"), f", plan {record.plan_hash[:12]}: {said}")
    output.next_command(console, following)
    return 0
