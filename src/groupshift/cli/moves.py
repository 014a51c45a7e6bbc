"""``groupshift MOVE assess | plan | run``: the verbs of each installed move, made from its request.

A move is an entry point of the group ``groupshift.moves``. Its options come from the dataclass of its
request, so that the command line, the forms of Airflow and the docs cannot differ. One that cannot be loaded
hinders no other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import EntryPoints, entry_points
from typing import Any

import typer

from groupshift.bootstrap.moves import request_at
from groupshift.cli import output_and_next_command as output
from groupshift.cli.options import AllRules, Execute, Json, Page, run_name, who
from groupshift.cli.requests import asked_again, parameters, values_of
from groupshift.cli.run_driving import Patience, Terms, Yes, go_on
from groupshift.cli.run_output import findings_parts, section_parts, steps_table
from groupshift.cli.run_place import Found, Where, place_of, placed, session, shaped
from groupshift.cli.terminal import joined, styled
from groupshift.domain.run import CHECKS, findings_from, plan_from
from groupshift.domain.verdict import Verdict, counted, worst
from groupshift.engine.begin import assess, begin, run_to_resume
from groupshift.engine.installed_moves import GROUP, moves
from groupshift.engine.move import Move, RunOptions
from groupshift.errors import Rejected
from groupshift.ports.runs import RunRecord

COMMANDS = "groupshift.commands"
"""Commands that other distributions bring, as entry points: each is a `typer.Typer` (a group of verbs) or a
function (one verb). One that is known and not installed says which distribution has it."""
ELSEWHERE = {"demo": "kafka-groupshift-sandbox", "sandbox": "kafka-groupshift-sandbox"}
"""The distribution of each command that is not in ``kafka-groupshift``."""
ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
NOTES = "notes"
"""The name in `Plan.about` under which a plan has sentences for people."""
STATE = "groupshift-state"
"""A folder for journal and evidence, where none was named: a run has to write somewhere."""


def add_moves(app: typer.Typer, panel: str, installed: EntryPoints | None = None) -> None:
    """Add the verbs of each move to ``app``, to this panel of its help; one that cannot be loaded fails when
    it is called. ``installed`` are the entry points of moves (None: those of this environment)."""
    known = entry_points(group=GROUP) if installed is None else installed
    for name in sorted(known.names):
        try:
            verbs = verbs_of(moves(partial(known.select, name=name))[name])
        except Rejected as wrong:
            app.command(name, hidden=True, context_settings=ANYTHING)(refusing(str(wrong)))
        else:
            app.add_typer(verbs, name=name, rich_help_panel=panel)


def verbs_of(move: Move[Any]) -> typer.Typer:
    """Return ``assess``, ``plan`` and ``run`` of a move, each with the options of the move's request before
    its own.

    Raises:
        Rejected: an option of the request has the name of one that every move has.
    """
    lines = (inspect.getdoc(type(move)) or move.name).splitlines()
    made = typer.Typer(name=move.name, help=lines[0].replace("[", "("), no_args_is_help=True)
    for name, verb in (("assess", _assess), ("plan", _plan), ("run", _run)):
        made.command(name, help=inspect.getdoc(verb))(_of(move, verb))
    return made


def _of(move: Move[Any], verb: Callable[..., int]) -> Callable[..., int]:
    """The verb with the options of the request and of the place; what of them was given goes into ``values``
    and ``where``."""
    at_place = placed(verb)
    parameters_of_place = inspect.signature(at_place).parameters.values()
    own = [each for each in parameters_of_place if each.name not in {"move", "values"}]

    def called(**options: Any) -> int:
        shared = {each.name: options.pop(each.name) for each in own if each.name in options}
        return at_place(move=move, values=values_of(move, options), **shared)

    return shaped(called, list(parameters(move, own, assesses=verb is _assess)))


def _assess(
    *,
    move: Move[Any],
    values: Mapping[str, Any],
    everything: AllRules = False,
    patience: Patience = 0,
    page: Page = None,
    as_json: Json = False,
    where: Where,
) -> int:
    """Say whether a run may begin, one line a rule; nothing is changed. Exit code 1: it may not."""
    place = place_of(where, remembers=False)
    request = request_at(move, values, place.settings)
    with session(place) as at, at.ports(move, request) as ports:
        target = move.target(ports, request)
        facts, findings = assess(move, at.tools, ports, request, patience_s=patience)
        in_the_way = at.runs.in_the_way(target)
    if page is not None:
        if not (text := move.assessment_page(request, facts)):
            raise Rejected(f"an assessment of {move.name} has no page: leave --output out, or take --json")
        output.write_page(page, text)
    obstacles, observed = move.obstacles(request, facts, findings), move.observed(request, facts)
    verdict = worst(each.verdict for each in findings) if findings else Verdict.PASS
    ready = not obstacles and verdict is not Verdict.ERROR
    may = ready and not in_the_way
    following = asked_again(move, "run" if ready else "assess", request)
    if in_the_way:
        following = f"groupshift status {in_the_way[0].run}"
    elif ready and where.bootstrap_servers and where.state is None:
        following += f" --state {STATE}"
    data = {
        "move": move.name,
        "target": str(target),
        "ready": may,
        "verdict": verdict,
        "findings": findings,
        "obstacles": [each.rule for each in obstacles],
        "in_the_way": [each.run for each in in_the_way],
        "observed": observed.data,
    }
    parts: list[output.Shown] = [
        *section_parts(observed.sections),
        *findings_parts(findings, str(target), everything=everything),
        *(f"run {each.run} of {each.target} is {each.state} and is in the way" for each in in_the_way),
        joined(output.verdict_text(verdict), f": {target}: {'a' if may else 'no'} run may begin"),
        *(f"to do: {hint}" for hint in dict.fromkeys(each.hint for each in obstacles if each.hint)),
    ]
    output.tell(data, parts, following, as_json=as_json)
    return 0 if may else 1


def _plan(
    *,
    move: Move[Any],
    values: Mapping[str, Any],
    execute: Execute = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Plan a run and show every step; with --execute it may be gone on with, and its target is locked."""
    place = place_of(where)
    request = request_at(move, values, place.settings)
    with session(place) as at, at.ports(move, request) as ports:
        record = _begun(move, at.tools, ports, request, execute=execute)
    _show_plan(move, record, request, as_json=as_json)
    return 0


def _run(
    *,
    move: Move[Any],
    values: Mapping[str, Any],
    patience: Patience = 0,
    execute: Execute = False,
    yes: Yes = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Begin a run and drive it, asking at its gates; one that asks for the same goes on with the open run.
    Without --execute the plan is shown."""
    place = place_of(where)
    request = request_at(move, values, place.settings)
    with session(place) as at, at.ports(move, request) as ports:
        record = run_to_resume(move, at.runs, move.target(ports, request), request)
        if not execute:
            record = record or _begun(move, at.tools, ports, request, execute=False)
            _show_plan(move, record, request, as_json=as_json)
            return 0
        record = record or _begun(move, at.tools, ports, request, execute=True, patience=patience)
        begun = Found(at=at, record=record, move=move)
        return go_on(begun, ports, Terms(yes=yes, patience=patience), as_json=as_json)


def _begun(
    move: Move[Any], tools: Any, ports: Any, request: Any, *, execute: bool, patience: float = 0
) -> RunRecord:
    """Begin a run, with ``execute`` one that locks its target. Raises `Rejected` where it may not begin, with
    the command that shows every rule."""
    options = RunOptions(who=who(), holder=run_name("plan"), patience_s=patience)
    try:
        return begin(move, tools, ports, request, options, execute=execute)
    except Rejected as why:
        raise Rejected(f"{why}; every rule: {asked_again(move, 'assess', request)}") from why


def _show_plan(move: Move[Any], record: RunRecord, request: Any, *, as_json: bool) -> None:
    """Show the plan of a run with the command that comes next: to go on with it, or to begin it."""
    plan, is_open = plan_from(record.plan), record.state.is_open
    going = f"groupshift continue {record.run}" if is_open else asked_again(move, "run", request)
    checks = findings_from(plan.about.get(CHECKS, ()))
    data = {
        "run": record.run,
        "target": str(record.target),
        "state": record.state,
        "hash": record.plan_hash,
        "steps": [each.as_json() for each in plan.steps],
        "about": plan.about,
    }
    said = f"its target is locked, state {record.state}" if is_open else "nothing was changed"
    parts: list[output.Shown] = [
        steps_table(f"{move.name}: plan for {record.target}", plan.steps),
        *map(str, plan.about.get(NOTES, ())),
        *([counted(checks, "checks")] if checks else []),
        joined("run ", styled(record.run, "bold"), f", plan {record.plan_hash[:12]}: {said}"),
    ]
    output.tell(data, parts, f"{going} --execute", as_json=as_json)


def add_installed(app: typer.Typer, panel: str | None = None) -> None:
    """Add to ``app`` (to a ``panel`` of its help) what is installed, sorted by name, and the hint for what
    is not. A command that cannot be imported fails when it is called, and no other command with it."""
    installed = {each.name: each for each in entry_points(group=COMMANDS)}
    for name in sorted(ELSEWHERE.keys() - installed):
        distribution = ELSEWHERE[name]
        hint = refusing(f"groupshift {name} comes with {distribution}: pip install {distribution}")
        app.command(name, hidden=True, context_settings=ANYTHING, rich_help_panel=panel)(hint)
    for name, entry in sorted(installed.items()):
        try:
            loaded = entry.load()
        except Exception as error:  # noqa: BLE001 - somebody else's code
            why = f"({type(error).__name__}: {error}); install its distribution again"
            loaded = refusing(f"command {name} cannot be imported from {entry.value} {why}")
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(loaded)


def refusing(sentence: str) -> Callable[[typer.Context], None]:
    """Return a command that takes anything and raises `Rejected` with this sentence: why it cannot be
    called."""

    def refuse(context: typer.Context) -> None:
        """Refuse, whatever was given."""
        del context
        raise Rejected(sentence)

    return refuse
