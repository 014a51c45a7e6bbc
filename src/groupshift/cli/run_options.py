"""What the verbs of runs that change a whole cluster have in common: options, place, journal, terms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupshift.adapters.spark_submit.java import java_home
from groupshift.application.brief_text import APPROVE, REJECT, run_text
from groupshift.application.run_work import Question, RunTerms
from groupshift.bootstrap.clusters import cluster_runs
from groupshift.cli.downgrade_log import needing_spark
from groupshift.cli.options import one_cluster, run_name, settings, who
from groupshift.cli.terminal import Changes, Console, choose
from groupshift.domain.step import RunStep
from groupshift.errors import Rejected
from groupshift.ports.journal import ClusterRuns
from groupshift.settings import KafkaSettings

if TYPE_CHECKING:
    from groupshift.bootstrap.runs import RunPlace

Nodes = Annotated[
    Path | None,
    typer.Option(
        "--nodes",
        help="TOML file: who replaces or restarts nodes. Default: a person.",
        show_default=False,
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
Patience = Annotated[float, typer.Option(help="Seconds that one step may take.", min=1.0)]


def place_of(
    bootstrap_servers: str,
    state: Path | None,
    settings_file: Path | None,
    *,
    move: str,
    cluster: bool = True,
) -> RunPlace:
    """Where a run of this move works and remembers; without ``cluster``
    only journal and evidence are used.

    Raises `Rejected` where the options name no such place."""
    one_cluster(bootstrap_servers, settings_file)
    with needing_spark():
        from groupshift.bootstrap.runs import RunPlace
    if state is not None:
        if cluster and not bootstrap_servers:
            raise Rejected(
                "--state goes with --bootstrap-servers; a settings file names journal and evidence"
            )
        home = state.absolute()
        return RunPlace(
            kafka=KafkaSettings(bootstrap_servers=bootstrap_servers),
            journal=f"sqlite:///{home / 'journal.db'}",
            evidence=home / folder_of(move),
            java_home=str(java_home()) if cluster else "",
        )
    if bootstrap_servers:
        raise Rejected("--bootstrap-servers needs --state FOLDER: where the run is written down")
    found = settings(settings_file)
    if "://" in found.evidence.root:
        raise Rejected("evidence.root is no local folder, which a run needs: give --state with one")
    return RunPlace(
        kafka=found.kafka,
        journal=found.journal.url,
        evidence=Path(found.evidence.root) / folder_of(move),
        java_home=found.spark.java_home or (str(java_home()) if cluster else ""),
        signing_key=found.evidence.signing_key,
        approval=found.approval,
    )


def folder_of(move: str) -> str:
    """The folder of the evidence in which all runs of this move keep theirs."""
    return f"{move}s"


@contextmanager
def journal_of(place: RunPlace) -> Iterator[ClusterRuns]:
    """The journal, closed at the end."""
    runs = cluster_runs(place.journal)
    try:
        yield runs
    finally:
        runs.close()


def terms_of(console: Console, *, place: RunPlace, yes: bool, seen: bool, patience_s: float) -> RunTerms:
    """Who answers is at this terminal, and may by the settings of ``place``; what is told is said once."""
    changes = Changes()

    def told(step: RunStep, detail: str) -> None:
        line = f"{step.key}: {detail}"
        if changes.worth(line, time.monotonic()):
            console.print(line)

    def decide(asked: Question) -> bool | None:
        if yes:
            return True
        move, steps = asked.run.partition("-")[0], asked.steps
        here = steps.index(asked.step)
        text = run_text(move, steps[here:], None, done=steps[:here])
        console.markdown(f"{text}\n\n`groupshift {move} report {asked.run}` has what was seen so far.")
        if not console.is_terminal:
            return None
        question = f"{asked.step.does} (plan {asked.plan.hash[:12]})?"
        words = {APPROVE.lower(): True, REJECT.lower(): False}
        return words[choose(console, question, [*words], REJECT.lower())]

    return RunTerms(
        decide=decide,
        who=who(),
        holder=run_name("run"),
        seen=seen,
        patience_s=patience_s,
        told=told,
        approval=place.approval,
    )
