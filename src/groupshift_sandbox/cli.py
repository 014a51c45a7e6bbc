"""``groupshift sandbox up | status | down`` and ``groupshift demo``: the real thing on this machine.

Entry points of the group ``groupshift.commands``. Every call of ``groupshift`` loads this module: what a
command needs is imported when it is called."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from groupshift.cli.output_and_next_command import verdict_text
from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_text_quoting import command, shell
from groupshift.domain.plan import Until
from groupshift.errors import Rejected
from groupshift_sandbox.home import Home

if TYPE_CHECKING:
    from groupshift_sandbox.demo_table import DemoResult
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
    from groupshift_sandbox.demo import Demo
    from groupshift_sandbox.demo_moves import DEMOS, MoveDemo
    from groupshift_sandbox.up import fresh, require_unused

    home, tell = Home.from_environment(), _teller()
    require_unused(home)
    with _ended(home):
        running: Demo | MoveDemo
        if move == MOVE:
            running = Demo(
                home=home,
                tell=tell,
                members=members,
                partitions=partitions,
                soak_s=soak,
                until=until,
                person=os.environ.get("DEMO_APPROVE") == "me",
            )
        else:
            fresh(home)
            running = DEMOS[move](home=home, tell=tell)
        running.prepare()
        result = running.move()
        _show_result(result)
        if move == MOVE and sys.stdin.isatty() and sys.stdout.isatty():
            _keep_up()
    raise typer.Exit(0 if result.passed else 1)


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


def _keep_up() -> None:
    _console.print("Airflow stays up until Ctrl-C.")
    try:
        signal.pause()
    except KeyboardInterrupt:
        _console.print("ending the sandbox")


_LEGEND = (
    "moved: partitions that changed owner; unowned: the longest time one of them had none;"
    " twice: records delivered again; lost: records never delivered."
)


def _show_result(result: DemoResult) -> None:
    more = ("moved", "unowned", "twice", "lost") if result.consumers else ()
    table = Table(f"Run {result.run}", ("phase", "wall time", "verdict", *more))
    for row in result.rows:
        cells = (str(row.moved), f"{row.unowned_ms} ms", str(row.duplicates), str(row.lost))
        table.add_row(
            row.phase.name,
            f"{row.phase.wall_s:.0f} s",
            verdict_text(row.phase.verdict),
            *(cells if result.consumers else ()),
        )
    _console.print(table)
    if result.consumers:
        _console.print(_LEGEND, style="dim")
    proofs = Table("What the demo looked at by itself", ("what", "at the start", "there", "back", "holds"))
    for each in result.proofs:
        holds = styled("yes", "green") if each.holds else styled("no", "red")
        proofs.add_row(each.what, each.start or "-", each.there or "-", each.back or "-", holds)
    _console.print(proofs)
    for name, place in {**result.reports, "everything": result.report}.items():
        _console.print(f"  {name:18} {place}")
    line = (
        ("Every verdict is pass.", "green")
        if result.passed
        else ("Not everything is as it should be.", "red")
    )
    _console.line(styled(*line), f" Next: {result.report}")
