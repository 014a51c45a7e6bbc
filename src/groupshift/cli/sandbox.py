"""``groupshift sandbox up | status | down``: the real thing on this machine."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_text import command, shell
from groupshift.sandbox.airflow import USERS
from groupshift.sandbox.down import down as end_sandbox
from groupshift.sandbox.home import Home
from groupshift.sandbox.status import SandboxStatus
from groupshift.sandbox.status import status as look
from groupshift.sandbox.up import UpOptions
from groupshift.sandbox.up import up as bring_up

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
    signal.signal(signal.SIGTERM, _interrupted)
    home = Home.from_environment()
    progress = Console(stderr=True)
    options = UpOptions(members=members, partitions=partitions, rate=rate, airflow=airflow)
    bring_up(home, options, lambda line: progress.line(styled("sandbox:", "dim"), f" {line}"))
    _show(look(home), as_json=as_json)


@app.command("status")
def status(*, as_json: Json = False) -> None:
    """What runs, and where it answers; exit code 1 when not everything does."""
    found = look(Home.from_environment())
    _show(found, as_json=as_json)
    if not found.up:
        raise typer.Exit(1)


@app.command("down")
def down(*, as_json: Json = False) -> None:
    """End every process of the sandbox; data, logs and evidence stay until the next up."""
    home = Home.from_environment()
    ended = end_sandbox(home)
    if as_json:
        print(json.dumps({"home": str(home.root), "ended": ended}))
        return
    _console.print(f"{ended} processes ended; nothing of the sandbox in {home.root} runs.")
    _console.print("Next: groupshift sandbox up")


def _show(found: SandboxStatus, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(found), "up": found.up}))
        return
    if not found.processes:
        _console.print(f"No sandbox in {found.home}.")
        _console.print("Next: groupshift sandbox up")
        return
    _console.print(_processes(found))
    if found.slots:
        _console.print(_members(found))
    if "airflow" in found.addresses:
        logins = " or ".join(f"{user} / {user}" for user in USERS)
        _console.print(f"Airflow: {found.addresses['airflow']}  login {logins}")
    if not found.up:
        _console.print("Not everything runs. Next: groupshift sandbox down")
        return
    _console.print(f"Next: export GROUPSHIFT_SETTINGS={shell(str(found.settings))}")
    _console.print(f"      {command('groupshift', 'assess', '--group', found.group or '')}")
    _console.print("      groupshift sandbox down")


def _processes(found: SandboxStatus) -> Table:
    table = Table(f"Sandbox in {found.home}", ("process", "state", "pid", "address", "log"))
    for process in found.processes:
        colour = "green" if process.state == "running" else "red"
        table.add_row(
            process.name,
            styled(process.state, colour),
            str(process.pid or ""),
            found.addresses.get(process.name, ""),
            Path(process.log).name,
        )
    return table


def _members(found: SandboxStatus) -> Table:
    table = Table(f"Group {found.group}", ("slot", "kind", "state", "member", "pid"))
    for slot in found.slots:
        colour = "green" if slot["state"] == "running" else "yellow"
        table.add_row(
            slot["name"],
            slot["kind"],
            styled(slot["state"], colour),
            slot["member_id"] or "",
            str(slot["pid"] or ""),
        )
    return table
