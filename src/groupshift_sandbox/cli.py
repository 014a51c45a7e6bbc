"""``groupshift sandbox up | status | down`` and ``groupshift demo``: the real thing on this machine.

Entry points of the group ``groupshift.commands``. Every call of ``groupshift`` loads this module: what a
command needs is imported when it is called."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_text import command, shell
from groupshift.domain.plan import Until
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected
from groupshift_sandbox.home import Home

if TYPE_CHECKING:
    from groupshift_sandbox.demo import DemoResult
    from groupshift_sandbox.demo_moves import MoveResult
    from groupshift_sandbox.demo_table import Row
    from groupshift_sandbox.status import SandboxStatus

MOVE = "coordination"
"""The move whose demo goes through Airflow."""
MOVES = (MOVE, "protocol", "downgrade", "expansion")
app = typer.Typer(
    name="sandbox",
    help="Real ZooKeeper, Kafka, Scala consumers and Airflow on this machine, on 127.0.0.1 only.",
    no_args_is_help=True,
)
_console = Console()

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def _interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@app.command("up")
def up(
    members: Annotated[int, typer.Option(help="Scala members in the group.")] = 3,
    partitions: Annotated[int, typer.Option(help="Partitions of topic orders.")] = 6,
    rate: Annotated[float, typer.Option(help="Records per second on each partition.")] = 20.0,
    *,
    airflow: Annotated[bool, typer.Option(help="Airflow too.")] = True,
    as_json: Json = False,
) -> None:
    """Bring a fresh sandbox up; what an earlier one left in this home is removed."""
    from groupshift_sandbox.status import status as look
    from groupshift_sandbox.up import UpOptions
    from groupshift_sandbox.up import up as bring_up

    signal.signal(signal.SIGTERM, _interrupted)
    home = Home.from_environment()
    progress = Console(stderr=True)
    options = UpOptions(members=members, partitions=partitions, rate=rate, airflow=airflow)
    bring_up(home, options, lambda line: progress.line(styled("sandbox:", "dim"), f" {line}"))
    _show(look(home), as_json=as_json)


@app.command("status")
def status(*, as_json: Json = False) -> None:
    """What runs, and where it answers; exit code 1 when not everything does."""
    from groupshift_sandbox.status import status as look

    state = look(Home.from_environment())
    _show(state, as_json=as_json)
    if not state.up:
        raise typer.Exit(1)


@app.command("down")
def down(*, as_json: Json = False) -> None:
    """End every process of the sandbox; data, logs and evidence stay until the next up."""
    from groupshift_sandbox.down import down as end_sandbox

    home = Home.from_environment()
    ended = end_sandbox(home)
    if as_json:
        print(json.dumps({"home": str(home.root), "ended": ended}))
        return
    _console.print(f"{ended} processes ended; nothing of the sandbox in {home.root} runs.")
    _console.print("Next: groupshift sandbox up")


def _show(state: SandboxStatus, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(state), "up": state.up}))
        return
    if not state.processes:
        _console.print(f"No sandbox in {state.home}.")
        _console.print("Next: groupshift sandbox up")
        return
    _console.print(_processes(state))
    if state.slots:
        _console.print(_members(state))
    if "airflow" in state.addresses:
        from groupshift_sandbox.airflow import USERS

        logins = " or ".join(f"{user} / {user}" for user in USERS)
        _console.print(f"Airflow: {state.addresses['airflow']}  login {logins}")
    if not state.up:
        _console.print("Not everything runs. Next: groupshift sandbox down")
        return
    _console.print(f"Next: export GROUPSHIFT_SETTINGS={shell(str(state.settings))}")
    _console.print(f"      {command('groupshift', 'coordination', 'assess', '--group', state.group or '')}")
    _console.print("      groupshift sandbox down")


def _processes(state: SandboxStatus) -> Table:
    table = Table(f"Sandbox in {state.home}", ("process", "state", "pid", "address", "log"))
    for process in state.processes:
        colour = "green" if process.state == "running" else "red"
        table.add_row(
            process.name,
            styled(process.state, colour),
            str(process.pid or ""),
            state.addresses.get(process.name, ""),
            Path(process.log).name,
        )
    return table


def _members(state: SandboxStatus) -> Table:
    table = Table(f"Group {state.group}", ("slot", "kind", "state", "member", "pid"))
    for slot in state.slots:
        colour = "green" if slot["state"] == "running" else "yellow"
        table.add_row(
            slot["name"],
            slot["kind"],
            styled(slot["state"], colour),
            slot["member_id"] or "",
            str(slot["pid"] or ""),
        )
    return table


_COLOURS = {
    Verdict.PASS: "green",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.ERROR: "magenta",
    Verdict.FAIL: "red",
}


def demo(
    move: Annotated[str, typer.Argument(metavar="MOVE", help=", ".join(MOVES))] = MOVE,
    members: Annotated[int, typer.Option(help="Members in the group (coordination).")] = 3,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic (coordination).")] = 6,
    soak: Annotated[int, typer.Option(help="Soak in seconds (coordination).")] = 20,
    until: Annotated[Until, typer.Option(help="The last act there (coordination).")] = Until.TOGGLE,
) -> None:
    """Show a move on real servers of this machine, with a table of what happened at the end.

    coordination: to Kafka and back, through Airflow; with DEMO_APPROVE=me the gates wait for you in its UI,
    which stays up until Ctrl-C in a terminal. protocol, downgrade: there and back; expansion: there.
    Exit code 0 only if every verdict is pass.
    """
    signal.signal(signal.SIGTERM, _interrupted)
    if move not in MOVES:
        raise Rejected(f"there is no demo of {move!r}; choose one of {', '.join(MOVES)}")
    home = Home.from_environment()
    if move != MOVE:
        raise typer.Exit(_of_move(move, home))
    from groupshift_sandbox.airflow import USERS
    from groupshift_sandbox.demo import Demo, DemoOptions

    options = DemoOptions(
        members=members,
        partitions=partitions,
        soak_s=soak,
        until=until,
        person=os.environ.get("DEMO_APPROVE") == "me",
    )
    running = Demo(home, options, _teller())
    url = running.prepare()
    with _ended(home):
        logins = " or ".join(f"{user} / {user}" for user in USERS)
        _console.line("Airflow: ", styled(url, "bold"), f"  login {logins}")
        result = running.move()
        _show_result(result, home)
        if sys.stdin.isatty() and sys.stdout.isatty():
            _keep_up(url)
    raise typer.Exit(0 if result.passed else 1)


def _of_move(move: str, home: Home) -> int:
    from groupshift_sandbox.demo_moves import demonstrate
    from groupshift_sandbox.up import require_unused

    require_unused(home)
    with _ended(home):
        result = demonstrate(move, home, _teller())
    _console.print(_phases(f"Run {result.run}", result.rows, consumers=result.consumers))
    if result.consumers:
        _console.print(_LEGEND, style="dim")
    _console.print(_proofs(result))
    _console.print(f"Evidence: {result.evidence}")
    _console.print(f"Report:   {result.report}")
    if result.passed:
        _console.line(styled("Every verdict is pass.", "green"), f" Next: {result.report}")
        return 0
    _console.line(styled("Not everything is as it should be", "red"), f". Next: {result.report}")
    return 1


@contextmanager
def _ended(home: Home) -> Iterator[None]:
    """End the sandbox whatever happens."""
    from groupshift_sandbox.down import down as end_sandbox

    try:
        yield
    except KeyboardInterrupt:
        _console.print("interrupted: ending the sandbox")
        raise typer.Exit(130) from None
    finally:
        end_sandbox(home)
        _console.print("The sandbox is down; reports and logs stay until the next one comes up.")


def _teller() -> Callable[[str], None]:
    start = time.monotonic()

    def tell(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - start), 60)
        _console.line(styled(f"{minutes:02d}:{seconds:02d}", "dim"), f" {line}")

    return tell


def _keep_up(url: str) -> None:
    _console.print(f"Airflow stays up at {url} until Ctrl-C.")
    try:
        signal.pause()
    except KeyboardInterrupt:
        _console.print("ending the sandbox")


_LEGEND = (
    "moved: partitions that changed owner; unowned: the longest time one of them had none;"
    " twice: records delivered again; lost: records never delivered."
)


def _show_result(result: DemoResult, home: Home) -> None:
    _console.print(_phases(f"Run {result.run}: ZooKeeper → Kafka → ZooKeeper", result.rows, consumers=True))
    _console.print(_LEGEND, style="dim")
    _show_audit(result.audit)
    _console.print("Reports:")
    for row in result.rows:
        if row.phase.output:
            _console.print(f"  {row.phase.name:18} {row.phase.output}/report.html")
    report = command("groupshift", "report", result.run, "--settings", str(home.settings_file))
    _console.print(f"  {'audit':18} {result.audit_report}")
    _console.print(f"  {'everything':18} {report}")
    if result.passed:
        _console.line(styled("Every verdict is pass.", "green"), " Next: groupshift sandbox up")
    else:
        runs = ", ".join(f"{dag} ended as {state}" for dag, state in result.dag_runs.items())
        _console.line(
            styled("Not every verdict is pass", "red"), f" ({runs}). Next: read the first red report above."
        )


def _phases(title: str, rows: Iterable[Row], *, consumers: bool) -> Table:
    more = ("moved", "unowned", "twice", "lost") if consumers else ()
    table = Table(title, ("phase", "wall time", "verdict", *more))
    for row in rows:
        cells = (str(row.moved), f"{row.unowned_ms} ms", str(row.duplicates), str(row.lost))
        table.add_row(
            row.phase.name,
            f"{row.phase.wall_s:.0f} s",
            styled(row.phase.verdict.value, _COLOURS[row.phase.verdict]),
            *(cells if consumers else ()),
        )
    return table


def _proofs(result: MoveResult) -> Table:
    table = Table("What the demo looked at by itself", ("what", "at the start", "there", "back", "holds"))
    for each in result.proofs:
        holds = styled("yes", "green") if each.holds else styled("no", "red")
        table.add_row(each.what, each.start or "-", each.there or "-", each.back or "-", holds)
    return table


def _show_audit(audit: Mapping[str, Any]) -> None:
    verdict = Verdict(audit["verdict"])
    _console.line(
        "Audit of every delivery: ",
        styled(verdict.value, _COLOURS[verdict]),
        f"  lost {audit['lost']}, delivered twice {audit['duplicates']}"
        f" (unexplained {audit['unexplained']}), overlapping owners {audit['overlaps']}",
    )
