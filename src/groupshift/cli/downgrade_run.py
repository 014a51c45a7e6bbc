"""``groupshift downgrade run | status | back``: the plan of a downgrade, done step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.prompt import Confirm

from groupshift.application import downgrade_run
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_demands import Wanted, demand_same
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.application.run_demands import demand_forward, demand_move
from groupshift.application.run_work import Question, RunTerms
from groupshift.bootstrap.downgrade import cluster_runs
from groupshift.cli import render
from groupshift.cli.clusters import Servers, Timeout, one_cluster
from groupshift.cli.downgrade_log import needing_spark
from groupshift.cli.downgrade_show import finish, plan_table, show_planned, show_run
from groupshift.cli.options import Execute
from groupshift.cli.session import Json, SettingsFile, settings, who
from groupshift.domain.cluster_run.steps import RunStep
from groupshift.domain.coordinator_log.releases import Coordinator
from groupshift.domain.downgrade.releases import target_of
from groupshift.domain.hazards.versions import Version
from groupshift.errors import Rejected, Transient
from groupshift.ports.cluster_runs import ClusterRun, ClusterRuns
from groupshift.sandbox.java import java_home
from groupshift.sandbox.replacement import driver_of
from groupshift.settings import KafkaSettings

if TYPE_CHECKING:
    from groupshift.spark.downgrade_tools import RunPlace

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
Nodes = Annotated[
    Path | None,
    typer.Option(
        "--nodes", help="TOML file: who replaces nodes. Default: a person does.", show_default=False
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state", help="With --bootstrap-servers: folder of journal and snapshots.", show_default=False
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Approve the plan, and what is forward only.")]
Checked = Annotated[
    bool, typer.Option("--seen", help="Say that you saw what the run waits for, where only a person can.")
]
RunId = Annotated[
    str,
    typer.Option(
        "--run",
        metavar="RUN",
        help="The run, where no broker answers to tell its cluster.",
        show_default=False,
    ),
]
Live = Annotated[bool, typer.Option("--live", help="Commits go on while brokers are replaced.")]
BrokersOnly = Annotated[
    bool,
    typer.Option("--brokers-only", help="Controllers of their own keep their release; only brokers change."),
]
Patience = Annotated[float, typer.Option(help="Seconds that one step may take.", min=1.0)]
_MOVE = downgrade_run.MOVE.name
_RECENT = 100
"""How many runs are looked through for open ones."""


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
    place = place_of(bootstrap_servers, state, settings_file)
    with _tools(place, nodes, timeout) as tools:
        opened = tools.runs.open_of(tools.reader.cluster_id())
        if opened is None:
            planned = downgrade_run.plan_run(
                tools, _asked(to, runs, coordinator, brokers_only=brokers_only), live=live
            )
            if not execute or not planned.possible:
                return show_planned(planned, as_json=as_json)
            opened = downgrade_run.begin(tools, planned)
        demand_same(
            opened,
            Wanted(release=to, now=runs, coordinator=coordinator, live=live, brokers_only=brokers_only),
        )
        if not execute:
            return show_run(tools.runs, opened, as_json=as_json)
        demand_forward(opened)
        console = Console(stderr=True)
        terms = _terms(console, yes=yes, seen=seen, patience_s=patience)
        return finish(tools.runs, downgrade_run.go_on(tools, terms, opened), as_json=as_json)


def status(
    *,
    bootstrap_servers: Servers = "",
    state: State = None,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """The latest downgrade, step by step, and others that are open; nothing is asked of a cluster."""
    place = place_of(bootstrap_servers, state, settings_file, cluster=False)
    with _journal(place) as runs:
        found = runs.recent(1, move=_MOVE)
        if not found:
            raise Rejected("the journal has no downgrade; begin one with: groupshift downgrade run --execute")
        others = tuple(
            each for each in runs.recent(_RECENT, move=_MOVE) if each.open and each.run != found[0].run
        )
        return show_run(runs, found[0], as_json=as_json, others=others)


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
    place = place_of(bootstrap_servers, state, settings_file)
    with _tools(place, nodes, timeout) as tools:
        opened = tools.runs.find(run_id) if run_id else _open_of(tools)
        if opened is None:
            raise Rejected("no downgrade of this cluster is open: there is nothing to take back")
        demand_move(opened, _MOVE)
        console = Console(stderr=True)
        if not execute:
            for number, step in enumerate(downgrade_run.undoing(tools.runs, opened), 1):
                console.print(escape(f"{number}. {step.does}"), soft_wrap=True)
            render.next_command(console, "groupshift downgrade back --execute")
            return 0
        terms = _terms(console, yes=yes, seen=seen, patience_s=patience)
        turned = downgrade_run.turn_back(tools, terms, opened)
        return finish(tools.runs, downgrade_run.go_on(tools, terms, turned), as_json=as_json)


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


def place_of(
    bootstrap_servers: str, state: Path | None, settings_file: Path | None, *, cluster: bool = True
) -> RunPlace:
    """Where a run works and remembers; without ``cluster`` only journal and evidence are used.

    Raises `Rejected` where the options name no such place."""
    one_cluster(bootstrap_servers, settings_file)
    with needing_spark():
        from groupshift.spark.downgrade_tools import RunPlace
    if state is not None:
        if cluster and not bootstrap_servers:
            raise Rejected(
                "--state goes with --bootstrap-servers; a settings file names journal and evidence"
            )
        folder = state.absolute()
        return RunPlace(
            kafka=KafkaSettings(bootstrap_servers=bootstrap_servers),
            journal=f"sqlite:///{folder / 'journal.db'}",
            evidence=folder / "downgrades",
            java_home=str(java_home()) if cluster else "",
        )
    if bootstrap_servers:
        raise Rejected("--bootstrap-servers needs --state FOLDER: where the run is written down")
    found = settings(settings_file)
    if "://" in found.evidence.root:
        raise Rejected("evidence.root is no local folder, which a downgrade needs: give --state with one")
    return RunPlace(
        kafka=found.kafka,
        journal=found.journal.url,
        evidence=Path(found.evidence.root) / "downgrades",
        java_home=found.spark.java_home or (str(java_home()) if cluster else ""),
    )


@contextmanager
def _journal(place: RunPlace) -> Iterator[ClusterRuns]:
    runs = cluster_runs(place.journal)
    try:
        yield runs
    finally:
        runs.close()


@contextmanager
def _tools(place: RunPlace, nodes: Path | None, timeout_s: float) -> Iterator[DowngradeTools]:
    """Raises `Rejected` where the extra ``spark`` is missing."""
    driver = driver_of(nodes)
    with needing_spark():
        from groupshift.spark.downgrade_tools import open_tools
    with open_tools(place, driver, timeout_s=timeout_s) as tools:
        yield tools


def _terms(console: Console, *, yes: bool, seen: bool, patience_s: float) -> RunTerms:
    said: list[str] = []

    def told(step: RunStep, detail: str) -> None:
        line = f"{step.key}: {detail}"
        if said[-1:] != [line]:
            said.append(line)
            console.print(escape(line), soft_wrap=True)

    def decide(asked: Question) -> bool | None:
        if yes:
            return True
        console.print(plan_table(asked.plan.steps, {}))
        if not console.is_terminal:
            return None
        return Confirm.ask(
            f"{asked.step.does} (plan {asked.plan.hash[:12]})?", default=False, console=console
        )

    return RunTerms(decide=decide, who=who(), seen=seen, patience_s=patience_s, told=told)
