"""``groupshift demo``: one real group there and back, on this machine, through Airflow."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from groupshift.bootstrap import build
from groupshift.cli.evidence import written
from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.moves import Until
from groupshift.domain.verdict import Verdict
from groupshift.sandbox.airflow import USERS
from groupshift.sandbox.demo import Demo, DemoOptions, DemoResult
from groupshift.sandbox.down import down
from groupshift.sandbox.home import Home
from groupshift.settings import load

_COLOURS = {
    Verdict.PASS: "green",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.ERROR: "magenta",
    Verdict.FAIL: "red",
}
_console = Console()


def demo(
    members: Annotated[int, typer.Option(help="Scala members in the group.")] = 3,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.")] = 6,
    soak: Annotated[int, typer.Option(help="Soak in seconds.")] = 20,
    until: Annotated[Until, typer.Option(help="The last stage of the way there.")] = Until.TOGGLE,
) -> None:
    """Bring everything up, move a group to Kafka coordination and back, and show the proof.

    With DEMO_APPROVE=me the gates wait for you in Airflow's UI. In a terminal the UI stays up
    until Ctrl-C. Exit code 0 only if every verdict is pass.
    """
    signal.signal(signal.SIGTERM, _interrupted)
    home = Home.from_environment()
    options = DemoOptions(
        members=members,
        partitions=partitions,
        soak_s=soak,
        until=until,
        person=os.environ.get("DEMO_APPROVE") == "me",
    )
    running = Demo(home, options, _teller())
    url = running.prepare()
    try:
        logins = " or ".join(f"{user} / {user}" for user in USERS)
        _console.line("Airflow: ", styled(url, "bold"), f"  login {logins}")
        result = running.move()
        _show(result, _report(home, result.migration))
        if sys.stdin.isatty() and sys.stdout.isatty():
            _keep_up(url)
    except KeyboardInterrupt:
        _console.print("interrupted: ending the sandbox")
        raise typer.Exit(130) from None
    finally:
        down(home)
        _console.print("The sandbox is down; reports and logs stay until the next one comes up.")
    raise typer.Exit(0 if result.passed else 1)


def _interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _teller() -> Callable[[str], None]:
    start = time.monotonic()

    def told(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - start), 60)
        _console.line(styled(f"{minutes:02d}:{seconds:02d}", "dim"), f" {line}")

    return told


def _keep_up(url: str) -> None:
    _console.print(f"Airflow stays up at {url} until Ctrl-C.")
    try:
        signal.pause()
    except KeyboardInterrupt:
        _console.print("ending the sandbox")


def _report(home: Home, migration: str) -> str:
    """The path of the report of the whole migration, audit included."""
    with build(load(home.settings_file)) as app:
        return written(app, migration)[0][0]


def _show(result: DemoResult, report: str) -> None:
    _console.print(_table(result))
    _console.print(
        "moved: partitions that changed owner; unowned: the longest time one of them had none;"
        " twice: records delivered again; lost: records never delivered.",
        style="dim",
    )
    _show_audit(result.audit)
    _console.print("Reports:")
    for row in result.rows:
        _console.print(f"  {row.stage:12} {row.report}")
    _console.print(f"  {'audit':12} {result.audit_report}")
    _console.print(f"  {'everything':12} {report}")
    if result.passed:
        _console.line(styled("Every verdict is pass.", "green"), " Next: groupshift sandbox up")
    else:
        runs = ", ".join(f"{dag} ended as {state}" for dag, state in result.runs.items())
        _console.line(
            styled("Not every verdict is pass", "red"), f" ({runs}). Next: read the first red report above."
        )


def _table(result: DemoResult) -> Table:
    columns = (
        "stage", "wall time", "verdict", "moved", "unowned", "twice", "lost",
    )  # fmt: skip
    table = Table(f"Migration {result.migration}: ZooKeeper → Kafka → ZooKeeper", columns)
    for row in result.rows:
        colour = _COLOURS[row.verdict]
        table.add_row(
            row.stage,
            f"{row.wall_s:.0f} s",
            styled(row.verdict.value, colour),
            str(row.moved),
            f"{row.unowned_ms} ms",
            str(row.duplicates),
            str(row.lost),
        )
    return table


def _show_audit(audit: Mapping[str, Any]) -> None:
    verdict = Verdict(audit["verdict"])
    _console.line(
        "Audit of every delivery: ",
        styled(verdict.value, _COLOURS[verdict]),
        f"  lost {audit['lost']}, delivered twice {audit['duplicates']}"
        f" (unexplained {audit['unexplained']}), overlapping owners {audit['overlaps']}",
    )
