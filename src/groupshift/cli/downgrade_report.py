"""``groupshift downgrade report``: the page of a run, and whether its evidence is what was sealed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from groupshift.application.downgrade_pack import verify_run
from groupshift.application.downgrade_run import MOVE
from groupshift.application.pack import Verification
from groupshift.bootstrap.downgrade import cluster_runs, run_evidence
from groupshift.cli import render
from groupshift.cli.clusters import Servers
from groupshift.cli.downgrade_log import needing_spark
from groupshift.cli.downgrade_run import FOLDER
from groupshift.cli.pages import Output, write_page
from groupshift.cli.run_options import State, place_of
from groupshift.cli.session import Json, SettingsFile, settings
from groupshift.errors import Rejected
from groupshift.ports.cluster_runs import ClusterRun, ClusterRuns
from groupshift.ports.run_sealing import SEALED

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id; without one the latest.", show_default=False)
]


def report(
    run: Run = "",
    output: Output = None,
    bootstrap_servers: Servers = "",
    state: State = None,
    settings_file: SettingsFile = None,
    *,
    as_json: Json = False,
) -> int:
    """Write the page of a downgrade beside its snapshots; nothing is asked of the cluster.

    That of a run that is over was written and sealed when it ended, and stays as it is."""
    place = place_of(bootstrap_servers, state, settings_file, folder=FOLDER, cluster=False)
    with closing(cluster_runs(place.journal)) as runs:
        found = _named(runs, run)
        where, text, sealed = _page(runs, found, place.evidence)
    if output is not None:
        write_page(output, text)
    shown = str(output.absolute()) if output else where
    if as_json:
        render.print_json({"run": found.run, "state": found.state, "report": shown, "sealed": sealed})
        return 0
    console = Console()
    console.print(f"report of the downgrade: {shown}", soft_wrap=True, markup=False)
    render.next_command(console, _following(found, where, sealed=sealed, known=state is None))
    return 0


def _named(runs: ClusterRuns, run: str) -> ClusterRun:
    if run:
        return runs.find(run)
    latest = runs.recent(1, move=MOVE.name)
    if not latest:
        raise Rejected("the journal has no downgrade; begin one with: groupshift downgrade run --execute")
    return latest[0]


def _page(runs: ClusterRuns, found: ClusterRun, folder: Path) -> tuple[str, str, bool]:
    """(path, text, whether it is sealed) of the page; one that is sealed is not written again."""
    with needing_spark():
        from groupshift.domain.pack import REPORT
        from groupshift.spark.downgrade_report.sealing import written
    evidence, steps = run_evidence(folder), runs.steps(found.run)
    kept = evidence.read_text(found.run, REPORT) if SEALED in steps else None
    if kept is not None:
        return evidence.path(found.run, REPORT), kept, True
    return *written(evidence, found, steps), False


def _following(found: ClusterRun, where: str, *, sealed: bool, known: bool) -> str:
    if not sealed:
        return "groupshift downgrade status"
    return f"groupshift verify-evidence {found.run if known else Path(where).parent}"


def verified_run(
    what: str, settings_file: Path | None, told: Callable[[int, int], None]
) -> Verification | None:
    """The verification of this run's evidence; None when the journal knows no run of that id."""
    if not what.startswith(f"{MOVE.name}-"):
        return None
    found = settings(settings_file)
    with closing(cluster_runs(found.journal.url)) as runs:
        try:
            runs.find(what)
        except Rejected:
            return None
        return verify_run(run_evidence(Path(found.evidence.root) / "downgrades"), runs, what, told)
