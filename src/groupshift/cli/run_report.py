"""``groupshift downgrade | expansion report``: the page of a run that changes a cluster, and whether its
evidence is what was sealed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from groupshift.application.run_accounts import MOVES
from groupshift.application.run_engine import Move, W
from groupshift.application.run_pack import verify_run
from groupshift.application.run_reports import written
from groupshift.bootstrap.clusters import cluster_runs, run_evidence
from groupshift.bootstrap.connect import verifier
from groupshift.cli import output as render
from groupshift.cli.options import Json, Servers, SettingsFile, settings
from groupshift.cli.output import Output, write_page
from groupshift.cli.run_options import State, folder_of, place_of
from groupshift.cli.terminal import Console
from groupshift.domain.foreign_text import command
from groupshift.domain.seal import REPORT, Verification
from groupshift.errors import Broken, Rejected
from groupshift.ports.evidence import SEALED
from groupshift.ports.journal import ClusterRun, ClusterRuns

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id; without one the latest.", show_default=False)
]


def report_of(move: Move[W]) -> Callable[..., int]:
    """The verb ``report`` of this move."""

    def report(
        run: Run = "",
        output: Output = None,
        bootstrap_servers: Servers = "",
        state: State = None,
        settings_file: SettingsFile = None,
        *,
        as_json: Json = False,
    ) -> int:
        place = place_of(bootstrap_servers, state, settings_file, move=move.name, cluster=False)
        with closing(cluster_runs(place.journal)) as runs:
            found = _named(move, runs, run)
            (where, text, sealed), altered = _page(runs, found, place.evidence)
        if output is not None:
            write_page(output, text)
        shown = str(output.absolute()) if output else where
        if as_json:
            told = {"run": found.run, "state": found.state, "report": shown, "sealed": sealed}
            render.print_json({**told, **({"altered": True} if altered else {})})
        else:
            console = Console()
            console.print(f"report of the {move.name}: {shown}")
            render.next_command(console, _following(found, where, sealed=sealed, known=state is None))
        if altered:
            print(f"broken: {where} is not the report that was sealed: do not rely on it", file=sys.stderr)
        return Broken.exit_code if altered else 0

    report.__doc__ = f"""Write the page of a run of {move.name} beside its snapshots; no cluster is asked.

    That of a run that is over was written and sealed when it ended, and stays as it is."""
    return report


def _named(move: Move[W], runs: ClusterRuns, run: str) -> ClusterRun:
    if run:
        found = runs.find(run)
        if found.move != move.name:
            raise Rejected(f"run {run} is a run of {found.move}: groupshift {found.move} report {run}")
        return found
    latest = runs.recent(1, move=move.name)
    if not latest:
        raise Rejected(
            f"the journal has no {move.name}; begin one with: groupshift {move.name} run --execute"
        )
    return latest[0]


def _page(runs: ClusterRuns, found: ClusterRun, folder: Path) -> tuple[tuple[str, str, bool], bool]:
    """(path, text, whether it is sealed) of the page, and whether it was altered since; one that is sealed is
    not written again. Raises `Broken` where a sealed one is gone."""
    evidence, steps = run_evidence(folder), runs.steps(found.run)
    if SEALED not in steps:
        return (*written(evidence, found, steps), False), False
    kept, where = evidence.read_text(found.run, REPORT), evidence.path(found.run, REPORT)
    if kept is None:
        raise Broken(f"{where} is gone although it was sealed: groupshift verify-evidence says what else is")
    sha256 = steps[SEALED].result.get("own", {}).get(REPORT)
    now = evidence.measured(found.run, REPORT)
    return (where, kept, True), sha256 is not None and (now is None or now.sha256 != sha256)


def _following(found: ClusterRun, where: str, *, sealed: bool, known: bool) -> str:
    if not sealed:
        return f"groupshift {found.move} status"
    return command("groupshift", "verify-evidence", found.run if known else str(Path(where).parent))


def verified_run(
    what: str, settings_file: Path | None, public_key: str, told: Callable[[int, int], None]
) -> tuple[Verification, str] | None:
    """The verification of this run's evidence, and its move; None when the journal knows no such run."""
    if not what.startswith(tuple(f"{move}-" for move in MOVES)):
        return None
    found = settings(settings_file)
    with closing(cluster_runs(found.journal.url)) as runs:
        try:
            move = runs.find(what).move
        except Rejected:
            return None
        evidence = run_evidence(Path(found.evidence.root) / folder_of(move))
        key = verifier(public_key or found.evidence.public_key)
        return verify_run(evidence, runs, what, key, told), move
