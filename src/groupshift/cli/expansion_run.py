"""``groupshift expansion run | status | back | report | watch``: more partitions of the offsets topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupshift.application import expansion_run
from groupshift.application.expansion_plan import from_json
from groupshift.application.expansion_run import MOVE, PlannedRun
from groupshift.application.expansion_watch import watch_expansion, watched_run
from groupshift.application.run_demands import demand_forward, demand_move
from groupshift.bootstrap.drivers import driver_of
from groupshift.cli.downgrade_log import needing_spark
from groupshift.cli.expansion_watch import Run, show_watched
from groupshift.cli.options import Execute, Json, Servers, SettingsFile, Timeout, shown
from groupshift.cli.run_options import (
    Checked,
    Nodes,
    Patience,
    RunId,
    State,
    Yes,
    journal_of,
    place_of,
    terms_of,
)
from groupshift.cli.run_report import report_of
from groupshift.cli.run_show import finish, show_back, show_planned, show_run
from groupshift.cli.terminal import Console
from groupshift.errors import Rejected
from groupshift.ports.journal import ClusterRun, ClusterRuns, RunState

if TYPE_CHECKING:
    from groupshift.application.expansion_work import ExpansionTools
    from groupshift.bootstrap.runs import RunPlace

To = Annotated[
    int | None,
    typer.Option("--to", metavar="M", help="How many partitions there are to be.", min=1, show_default=False),
]
_AFTER = "start the clients; for as long as offsets are kept, look again with: groupshift expansion watch"

app = typer.Typer(
    name="expansion",
    help="More partitions of __consumer_offsets (KIP-895), every group's offsets kept.",
    no_args_is_help=True,
)


@app.command("run")
def run(  # noqa: PLR0913 - the options of a verb
    *,
    to: To = None,
    nodes: Nodes = None,
    execute: Execute = False,
    yes: Yes = False,
    seen: Checked = False,
    patience: Patience = 1800.0,
    bootstrap_servers: Servers = "",
    state: State = None,
    timeout: Timeout = 30.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Give the offsets topic M partitions, or go on with that; without --execute only the plan is shown.

    Exit code 1: it may not begin, or it stopped; 6: somebody else has to act, then run it again."""
    place = place_of(bootstrap_servers, state, settings_file, move=MOVE.name)
    with _tools(place, nodes, timeout) as tools:
        opened = tools.runs.open_of(tools.reader.cluster_id())
        if opened is None:
            if to is None:
                raise Rejected("no expansion of this cluster is open; say how many partitions with --to")
            planned = expansion_run.plan_run(tools, to)
            if not execute or not planned.possible:
                return _show_planned(planned, as_json=as_json)
            opened = expansion_run.begin(tools, planned)
        expansion_run.demand_same(opened, to)
        if not execute:
            return _show_run(tools.runs, opened, as_json=as_json)
        demand_forward(opened)
        terms = terms_of(Console(stderr=True), place=place, yes=yes, seen=seen, patience_s=patience)
        outcome = expansion_run.go_on(tools, terms, opened)
        return finish(MOVE, tools.runs, outcome, as_json=as_json, done=_AFTER)


@app.command("status")
def status(
    *,
    bootstrap_servers: Servers = "",
    state: State = None,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """The latest expansion, step by step; nothing is asked of a cluster."""
    place = place_of(bootstrap_servers, state, settings_file, move=MOVE.name, cluster=False)
    with journal_of(place) as runs:
        found = runs.recent(1, move=MOVE.name)
        if not found:
            raise Rejected(
                "the journal has no expansion; begin one with: groupshift expansion run --to M --execute"
            )
        return _show_run(runs, found[0], as_json=as_json)


@app.command("back")
def back(  # noqa: PLR0913 - the options of a verb
    *,
    run_id: RunId = "",
    nodes: Nodes = None,
    execute: Execute = False,
    yes: Yes = False,
    seen: Checked = False,
    patience: Patience = 1800.0,
    bootstrap_servers: Servers = "",
    state: State = None,
    timeout: Timeout = 30.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Take an open expansion back, before partitions were made: groups that were deleted get their offsets
    again, and clients are let in again where the --nodes file has a fence; without --execute it is shown.
    Afterwards there is only the way forward."""
    place = place_of(bootstrap_servers, state, settings_file, move=MOVE.name)
    with _tools(place, nodes, timeout) as tools:
        opened = tools.runs.find(run_id) if run_id else tools.runs.open_of(tools.reader.cluster_id())
        if opened is None:
            said = "no expansion of this cluster is open: there is nothing to take back"
            raise Rejected(f"{said}; see: groupshift expansion status")
        demand_move(opened, MOVE.name)
        console = Console(stderr=True)
        if not execute:
            if opened.state is RunState.OPEN:
                expansion_run.may_turn_back(tools, opened)
            return show_back(MOVE.name, run_id, expansion_run.undoing(tools.runs, opened), as_json=as_json)
        terms = terms_of(console, place=place, yes=yes, seen=seen, patience_s=patience)
        turned = expansion_run.turn_back(tools, terms, opened)
        return finish(MOVE, tools.runs, expansion_run.go_on(tools, terms, turned), as_json=as_json)


app.command("report")(report_of(MOVE))


@app.command("watch")
def watch(
    run_id: Run = "",
    *,
    bootstrap_servers: Servers = "",
    state: State = None,
    timeout: Timeout = 30.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say whether an expansion that is done is still as it was proven: nothing lies elsewhere, no group is
    listed twice, no offset fell below the snapshot. Nothing is changed.

    Exit code 1: something was found that a person has to look at."""
    place = place_of(bootstrap_servers, state, settings_file, move=MOVE.name)
    with _tools(place, None, timeout) as tools:
        found = watched_run(tools.runs, tools.reader.cluster_id(), run_id)
        if found is None:
            raise Rejected("the journal has no expansion of this cluster that is done: nothing to watch")
        with shown(Console(stderr=True)) as progress:
            watched = watch_expansion(
                tools, found, lambda done, of: progress("reading the offsets topic", done, of)
            )
    return show_watched(watched, as_json=as_json)


def _show_planned(planned: PlannedRun, *, as_json: bool) -> int:
    plan = planned.plan
    shown = [each for each in planned.findings if each.hint]
    said = f"{len(plan.movers):,} groups move from {plan.before} to {plan.to} partitions"
    return show_planned(MOVE, planned, shown, as_json=as_json, said=said)


def _show_run(runs: ClusterRuns, found: ClusterRun, *, as_json: bool) -> int:
    plan = from_json(found.plan)
    closed = _AFTER if found.state is RunState.DONE else f"groupshift plan expansion --to {plan.to}"
    said = {"from": plan.before, "to": plan.to, "moving": plan.movers}
    return show_run(MOVE, runs, found, said, as_json=as_json, closed=closed)


@contextmanager
def _tools(place: RunPlace, nodes: Path | None, timeout_s: float) -> Iterator[ExpansionTools]:
    """Raises `Rejected` where the extra ``spark`` is missing."""
    driver = driver_of(nodes)
    with needing_spark():
        from groupshift.bootstrap.runs import open_expansion
    with open_expansion(place, driver, timeout_s=timeout_s) as tools:
        yield tools
