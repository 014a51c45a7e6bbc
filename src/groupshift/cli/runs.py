"""``groupshift status | continue | roll-back | finalise | report | watch``: runs of any move, by name."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.bootstrap.moves import Place
from groupshift.cli import run_pages
from groupshift.cli.options import SETTINGS_VARIABLE, Execute, Json
from groupshift.cli.output import Output, next_command, print_json, write_page
from groupshift.cli.requests import asked_again
from groupshift.cli.run_driving import INTERRUPTED, WAITS, Terms, go_on
from groupshift.cli.run_output import (
    list_table,
    show_findings,
    show_sections,
    show_status,
    status_data,
    steps_table,
)
from groupshift.cli.run_place import Session, Where, place_of, placed, session
from groupshift.cli.terminal import Console
from groupshift.domain.foreign_text import command, visible
from groupshift.domain.run import Outcome, RunState, Step
from groupshift.engine import watch as watching
from groupshift.engine.closing import Closing, reject
from groupshift.engine.move import Move, Run, undo_of
from groupshift.engine.registry import move_named
from groupshift.engine.roll_back import begin_finalise, begin_roll_back, require_finalisable, rollback_of
from groupshift.engine.status import RunStatus, report_of, status_of, statuses
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.ports.runs import RunRecord


def _names(incomplete: str) -> list[str]:
    """Names of runs for the shell's completion, of the place that the environment names."""
    named = os.environ.get(SETTINGS_VARIABLE)
    where = Where(settings_file=Path(named) if named else None)
    with suppress(GroupshiftError), session(place_of(where, servers=False)) as at:
        return [each.run for each in at.runs.recent(_COMPLETED) if each.run.startswith(incomplete)]
    return []


_COMPLETED = 100
RunId = Annotated[str, typer.Argument(metavar="RUN", show_default=False, autocompletion=_names)]
Yes = Annotated[bool, typer.Option("--yes", help="Approve gates; never a doubt, nothing optional.")]
Patience = Annotated[
    float, typer.Option("--patience", help="Seconds that one step may take; 0: its own.", min=0)
]
AnyRun = Annotated[str, typer.Argument(metavar="[RUN]", show_default=False, autocompletion=_names)]
OpenOnly = Annotated[bool, typer.Option("--open", help="Only runs that are open.")]
OnlyMove = Annotated[str, typer.Option("--move", help="Only runs of this move.", show_default=False)]
OnlyGroup = Annotated[str, typer.Option("--group", "-g", help="Only of this group.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", help="How many that are over.", min=1)]
Previews = Annotated[bool, typer.Option("--previews", help="Those that were only planned, too.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show it again whenever it changes.")]
Within = Annotated[float, typer.Option("--within", help="Seconds to look until it holds.", min=0)]
For = Annotated[float, typer.Option("--for", help="Seconds to look for as long as it holds.", min=0)]
Every = Annotated[float, typer.Option("--every", help="Seconds between two looks.", min=0.1)]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Take it over from a process that has it.")]
Accept = Annotated[
    str, typer.Option("--accept", metavar="STEP", help="Accept what this step showed.", show_default=False)
]
Audit = Annotated[
    bool, typer.Option("--audit", help="Take up the audit of consumption that lies in its evidence.")
]
To = Annotated[
    str, typer.Option("--to", help="How far back; default: as the run would by itself.", show_default=False)
]
_UNCHANGED = frozenset({RunState.PLANNED, RunState.APPROVED})
_EVERY_S = 2.0
_CODES = {Outcome.PASS: 0, Outcome.PERSON: WAITS}


def _move_of(at: Session, run: str) -> tuple[RunRecord, Move[Any]]:
    """Return a run and its move. Raises `Rejected` for a run that is not in the journal."""
    record = at.runs.find(run)
    return record, move_named(record.move)


def _reader(at: Session, move: Move[Any], ports: Any, run: str) -> Run[Any]:
    return Run.reader(move, at.tools, ports, run)


@placed
def status(  # noqa: PLR0913 - the options of a verb
    run: AnyRun = "",
    *,
    open_only: OpenOnly = False,
    move: OnlyMove = "",
    group: OnlyGroup = "",
    limit: Limit = 20,
    previews: Previews = False,
    watch: Watch = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Show runs, or one: who has it, what it waits for, where to answer."""
    with session(place_of(where, servers=False)) as at:

        def look() -> tuple[RunStatus, ...]:
            if run:
                return (status_of(at.runs, run),)
            return statuses(
                at.runs, limit=limit, move=move, target=group, open_only=open_only, previews=previews
            )

        def show(found: tuple[RunStatus, ...]) -> int:
            if not run:
                return _show_many(found, as_json=as_json)
            is_preview = found[0].state == RunState.PREVIEW
            following = _begins(*_move_of(at, run)) if is_preview else ""
            return _shown(found[0], as_json=as_json, following=following)

        return _watched(look, show, until_over=bool(run)) if watch else show(look())


def _begins(record: RunRecord, move: Move[Any]) -> str:
    """The command that begins what a preview only shows."""
    return f"{asked_again(move, 'run', move.request_from(json.loads(record.request)))} --execute"


def _show_many(found: tuple[RunStatus, ...], *, as_json: bool) -> int:
    following = f"groupshift status {found[0].run}" if found else "groupshift --help"
    if as_json:
        print_json({"runs": [status_data(each) for each in found], "next": following})
        return 0
    console = Console()
    if found:
        console.print(list_table(found))
    else:
        console.print("no run is in this journal")
    next_command(console, following)
    return 0


def _watched(
    look: Callable[[], tuple[RunStatus, ...]],
    show: Callable[[tuple[RunStatus, ...]], int],
    *,
    until_over: bool,
) -> int:
    """Show what changes; of one run until nobody drives it any more. Ctrl-C is the end of it."""
    console = Console()
    shown: tuple[RunStatus, ...] | None = None
    try:
        while True:
            found = look()
            if found != shown:
                if console.is_terminal:
                    console.clear()
                show(found)
                shown = found
            if until_over and not found[0].driven:
                return 0
            time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        return 0


@placed
def continue_(  # noqa: PLR0913 - the options of a verb
    run: RunId,
    *,
    take_over: TakeOver = False,
    accept: Accept = "",
    patience: Patience = 0,
    execute: Execute = False,
    yes: Yes = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Go on with an open run, forward or back.

    Without --execute it is only shown."""
    with session(place_of(where)) as at:
        record, move = _move_of(at, run)
        status = status_of(at.runs, run)
        if record.state is RunState.PREVIEW:
            raise Rejected(
                f"run {run} was only planned and never acts; begin one with: {_begins(record, move)}"
            )
        if not execute or not record.state.is_open:
            how = f" --accept {shlex.quote(accept)}" if accept else ""
            how += " --take-over" if take_over and status.driven else ""
            asked = f"groupshift continue {run}{how} --execute" if how and record.state.is_open else ""
            return _shown(status, as_json=as_json, following=asked)
        request = move.request_from(json.loads(record.request))
        terms = Terms(yes=yes, take_over=take_over, accept=accept, patience_s=patience)
        with at.ports(move, request) as ports:
            return go_on(at, move, ports, record, terms, as_json=as_json)


def _shown(status: RunStatus, *, as_json: bool, following: str = "") -> int:
    """Where a run stands, with the command that comes next (empty: its own)."""
    if as_json:
        print_json(status_data(status, following=following))
        return 0
    show_status(Console(), status, following=following)
    return 0


@placed
def roll_back(  # noqa: PLR0913 - the options of a verb
    run: RunId,
    *,
    to: To = "",
    take_over: TakeOver = False,
    accept: Accept = "",
    patience: Patience = 0,
    execute: Execute = False,
    yes: Yes = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Take a run back, from any step, and prove it.

    Without --execute what would be undone is shown. Nothing was changed yet: the run ends."""
    with session(place_of(where)) as at:
        record, move = _move_of(at, run)
        request = move.request_from(json.loads(record.request))
        with at.ports(move, request) as ports:
            far = to or move.falls_back_to(_reader(at, move, ports, run))
            if not execute:
                return _show_rollback(_reader(at, move, ports, run), far, as_json=as_json)

            def turn(claimed: Run[Any]) -> Closing | None:
                if record.state in _UNCHANGED:
                    return reject(claimed, f"taken back by {claimed.options.who} before anything was changed")
                if not begin_roll_back(claimed, far):
                    raise Rejected(
                        f"run {run} is {record.state} and changed nothing: there is nothing to take back; "
                        f"see: groupshift status {run}"
                    )
                return None

            terms = Terms(
                yes=yes,
                take_over=take_over,
                accept=accept,
                patience_s=patience,
                direction="back",
                then=turn,
            )
            code = go_on(at, move, ports, record, terms, as_json=as_json)
        taken_back = at.runs.find(run).state is RunState.REJECTED
        return 0 if taken_back and code != INTERRUPTED else code


def _show_rollback(run: Run[Any], to: str, *, as_json: bool) -> int:
    """What a rollback would do now, and the command that does it; where the target does not answer, what
    the journal alone says."""
    silent = ""
    try:
        plan = rollback_of(run, to)
        steps = plan.steps if plan else ()
    except Transient as why:
        silent = str(why)
        steps = undo_of(run.there, run.begun)
    if not steps and run.record.state is RunState.ROLLING_BACK:
        steps = run.plan.steps
    following = f"groupshift roll-back {run.name} --to {to} --execute"
    if run.record.state in _UNCHANGED:
        said = "nothing was changed: rolling back ends the run, and its target is free"
    elif not steps:
        said, following = (
            "there is nothing to take back; nothing was changed",
            f"groupshift status {run.name}",
        )
    else:
        said = "nothing was changed: without --execute this only shows what would be done"
    if as_json:
        shown = [{"step": each.key, "does": each.does or each.name} for each in steps]
        print_json(
            {"run": run.name, "to": to, "steps": shown, "silent": silent, "said": said, "next": following}
        )
        return 0
    console = Console()
    if steps:
        console.print(steps_table(f"rollback of {run.name} to {to}", steps))
    if silent:
        console.print(f"the target does not answer, so this is what the journal says: {silent}")
    console.print(said)
    next_command(console, following)
    return 0


@placed
def finalise(
    run: RunId,
    *,
    take_over: TakeOver = False,
    patience: Patience = 0,
    execute: Execute = False,
    yes: Yes = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Make what a run leaves for the end, as it cannot be undone.

    Without --execute it is shown."""
    with session(place_of(where)) as at:
        record, move = _move_of(at, run)
        request = move.request_from(json.loads(record.request))
        with at.ports(move, request) as ports:
            reader = _reader(at, move, ports, run)
            steps = require_finalisable(reader)
            if not execute:
                steps = steps or tuple(each for each in reader.there.steps if each.optional)
                return _show_finalise(run, steps, as_json=as_json)

            def turn(claimed: Run[Any]) -> Closing | None:
                begin_finalise(claimed)
                return None

            terms = Terms(
                yes=yes,
                finalises=True,
                take_over=take_over,
                patience_s=patience,
                then=turn,
            )
            return go_on(at, move, ports, record, terms, as_json=as_json)


def _show_finalise(run: str, steps: tuple[Step, ...], *, as_json: bool) -> int:
    following = f"groupshift finalise {run} --execute"
    if as_json:
        shown = [{"step": each.key, "does": each.does or each.name} for each in steps]
        print_json({"run": run, "steps": shown, "next": following})
        return 0
    console = Console()
    console.print(steps_table(f"what finalising {run} makes", steps))
    console.print("nothing was changed: without --execute this only shows what would be done")
    next_command(console, following)
    return 0


@placed
def report(
    run: RunId, *, output: Output = None, audit: Audit = False, as_json: Json = False, where: Where
) -> int:
    """Tell what became of a run, and write its page; no server is asked.

    The page of a run that is over was sealed with it, and stays as it is until an audit is added. Exit code
    5: something of the evidence is gone or altered."""
    place = place_of(where, servers=False)
    with session(place) as at:
        record, move = _move_of(at, run)
        sections = report_of(_reader(at, move, None, run))
        status = status_of(at.runs, run)
        page = run_pages.written(at, record, audit=audit)
    if output is not None:
        write_page(output, page.text)
    shown = str(output.absolute()) if output else page.where
    if record.state.is_open:
        following = status.following
    elif page.sealed:
        folder = str(Path(page.where).parent)
        following = command("groupshift", "verify-evidence", run if where.state is None else folder)
    else:
        over = {RunState.MOVED: f"groupshift watch {run}"}
        following = over.get(record.state, "groupshift status")
    if as_json:
        told = {"report": shown, "sealed": page.sealed, "troubles": page.troubles, "next": following}
        print_json({**status_data(status), "sections": sections, **told})
    else:
        console = Console()
        show_sections(console, sections)
        if shown:
            console.print(f"page: {shown}")
        next_command(console, following)
    for trouble in page.troubles:
        print(f"broken: {visible(trouble)}", file=sys.stderr)
    return Broken.exit_code if page.troubles else 0


@placed
def watch(
    run: RunId,
    *,
    within: Within = 0,
    seconds: For = 0,
    every: Every = 1,
    as_json: Json = False,
    where: Where,
) -> int:
    """Judge again what a run that is over left.

    For as long as that can change. Exit code 1: it does not hold."""
    looks = watching.Looks(within_s=within, for_s=seconds, every_s=every)
    with session(place_of(where)) as at:
        record, move = _move_of(at, run)
        request = move.request_from(json.loads(record.request))
        with at.ports(move, request) as ports:
            checked = watching.watch(move, at.tools, ports, run, looks=looks)
    fails = checked.outcome is Outcome.FAIL
    held = f"groupshift report {run}" if checked.outcome is Outcome.PASS else f"groupshift watch {run}"
    following = f"groupshift roll-back {run}" if fails and record.state is RunState.MOVED else held
    if as_json:
        print_json(
            {
                "run": run,
                "outcome": checked.outcome,
                "detail": checked.detail,
                "findings": checked.findings,
                "next": following,
            }
        )
    else:
        console = Console()
        if checked.findings:
            show_findings(console, checked.findings, f"run {run}")
        console.print(f"{checked.outcome}: {checked.detail or 'what the run left is as it was'}")
        next_command(console, following)
    return _CODES.get(checked.outcome, 1)


def knows(place: Place, run: str) -> bool:
    """Return True for a run that this journal has."""
    with session(place) as at:
        try:
            at.runs.find(run)
        except Rejected:
            return False
        return True


VERBS: Mapping[str, Callable[..., int]] = {
    "status": status,
    "continue": continue_,
    "roll-back": roll_back,
    "finalise": finalise,
    "report": report,
    "watch": watch,
}
"""The verbs on runs, in the order of their help."""
