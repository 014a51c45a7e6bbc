"""``groupshift downgrade run | status | back``: the plan of a downgrade, done step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupshift.application import downgrade_run
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_demands import Wanted, demand_same
from groupshift.application.downgrade_plan import from_json
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.application.run_demands import demand_forward, demand_move
from groupshift.bootstrap.drivers import driver_of
from groupshift.cli.downgrade_log import needing_spark
from groupshift.cli.options import Execute, Json, Servers, SettingsFile, Timeout
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
from groupshift.cli.run_show import finish, show_back, show_planned, show_run
from groupshift.cli.terminal import Console
from groupshift.domain.versions import Version
from groupshift.errors import Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import target_of
from groupshift.ports.journal import ClusterRun, ClusterRuns

if TYPE_CHECKING:
    from groupshift.bootstrap.runs import RunPlace

To = Annotated[str, typer.Option("--to", metavar="RELEASE", help="The older release.", show_default=False)]
Runs = Annotated[
    str, typer.Option("--from", metavar="RELEASE", help="What the brokers run now.", show_default=False)
]
Kind = Annotated[
    Coordinator | None,
    typer.Option(
        "--coordinator", help="The coordinator that the older release will run.", show_default=False
    ),
]
Live = Annotated[bool, typer.Option("--live", help="Commits go on while brokers are replaced.")]
BrokersOnly = Annotated[
    bool,
    typer.Option("--brokers-only", help="Controllers of their own keep their release; only brokers change."),
]
_MOVE = downgrade_run.MOVE.name


def run(  # noqa: PLR0913 - the options of a verb
    *,
    to: To = "",
    runs: Runs = "",
    coordinator: Kind = None,
    nodes: Nodes = None,
    execute: Execute = False,
    yes: Yes = False,
    seen: Checked = False,
    live: Live = False,
    brokers_only: BrokersOnly = False,
    patience: Patience = 1800.0,
    bootstrap_servers: Servers = "",
    state: State = None,
    timeout: Timeout = 30.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Take the brokers of a cluster to an older release, or go on with that; without --execute only the
    plan is shown.

    Exit code 1: it may not begin, or it stopped; 6: somebody else has to act, then run it again."""
    place = place_of(bootstrap_servers, state, settings_file, move=_MOVE)
    with _tools(place, nodes, timeout) as tools:
        opened = tools.runs.open_of(tools.reader.cluster_id())
        if opened is None:
            planned = downgrade_run.plan_run(
                tools, _asked(to, runs, coordinator, brokers_only=brokers_only), live=live
            )
            if not execute or not planned.possible:
                return show_planned(downgrade_run.MOVE, planned, planned.against, as_json=as_json)
            opened = downgrade_run.begin(tools, planned)
        demand_same(
            opened,
            Wanted(release=to, now=runs, coordinator=coordinator, live=live, brokers_only=brokers_only),
        )
        if not execute:
            return _show(tools.runs, opened, as_json=as_json)
        demand_forward(opened)
        console = Console(stderr=True)
        terms = terms_of(console, place=place, yes=yes, seen=seen, patience_s=patience)
        return finish(
            downgrade_run.MOVE, tools.runs, downgrade_run.go_on(tools, terms, opened), as_json=as_json
        )


def status(
    *,
    bootstrap_servers: Servers = "",
    state: State = None,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """The latest downgrade, step by step, and others that are open; nothing is asked of a cluster."""
    place = place_of(bootstrap_servers, state, settings_file, move=_MOVE, cluster=False)
    with journal_of(place) as runs:
        found = runs.recent(1, move=_MOVE)
        if not found:
            raise Rejected("the journal has no downgrade; begin one with: groupshift downgrade run --execute")
        return _show(runs, found[0], as_json=as_json)


def _show(runs: ClusterRuns, found: ClusterRun, *, as_json: bool) -> int:
    plan = from_json(found.plan)
    said = {"to": plan.release, "from": plan.now}
    return show_run(
        downgrade_run.MOVE, runs, found, said, as_json=as_json, closed="groupshift snapshot --all"
    )


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
    """Undo an open downgrade, last step first: nodes, features, configurations; without --execute it is
    shown. What is forward only stays as it is. Where no broker answers any more, --run names it."""
    place = place_of(bootstrap_servers, state, settings_file, move=_MOVE)
    with _tools(place, nodes, timeout) as tools:
        opened = tools.runs.find(run_id) if run_id else _open_of(tools)
        if opened is None:
            said = "no downgrade of this cluster is open: there is nothing to take back"
            raise Rejected(f"{said}; see: groupshift downgrade status")
        demand_move(opened, _MOVE)
        console = Console(stderr=True)
        if not execute:
            return show_back(_MOVE, run_id, downgrade_run.undoing(tools.runs, opened), as_json=as_json)
        terms = terms_of(console, place=place, yes=yes, seen=seen, patience_s=patience)
        turned = downgrade_run.turn_back(tools, terms, opened)
        return finish(
            downgrade_run.MOVE, tools.runs, downgrade_run.go_on(tools, terms, turned), as_json=as_json
        )


def _open_of(tools: DowngradeTools) -> ClusterRun | None:
    """The open run of the cluster that answers. Raises `Transient` with the remedy when none does."""
    try:
        return tools.runs.open_of(tools.reader.cluster_id())
    except Transient as silent:
        raise Transient(
            f"{silent}; where its brokers are dead, name the run: groupshift downgrade status shows it, "
            "groupshift downgrade back --run RUN --execute takes it back"
        ) from silent


def _asked(to: str, runs: str, coordinator: Coordinator | None, *, brokers_only: bool) -> DowngradeRequest:
    if not to:
        raise Rejected("no downgrade of this cluster is open; say the release to go to with --to")
    return DowngradeRequest(
        target=target_of(to, coordinator),
        said=Version.parse(runs, "--from") if runs else None,
        brokers_only=brokers_only,
    )


@contextmanager
def _tools(place: RunPlace, nodes: Path | None, timeout_s: float) -> Iterator[DowngradeTools]:
    """Raises `Rejected` where the extra ``spark`` is missing."""
    driver = driver_of(nodes)
    with needing_spark():
        from groupshift.bootstrap.runs import open_downgrade
    with open_downgrade(place, driver, timeout_s=timeout_s) as tools:
        yield tools
