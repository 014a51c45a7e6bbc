"""``groupshift protocol run``: change the protocol of a group's members, with proofs and a way back."""

from __future__ import annotations

from typing import Annotated

import typer

from groupshift.cli.hazards import Broker, Client
from groupshift.cli.moving import finish, runner_of, show_plan, signed
from groupshift.cli.options import Canary, Driver, Execute, Group, Json, SettingsFile, Soak, open_app
from groupshift.domain.foreign_text import shell
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.plan import MoveName, MoveRequest, Until

To = Annotated[Protocol, typer.Option("--to", help="The protocol that members are to speak.")]
Offline = Annotated[
    bool, typer.Option("--offline/--online", help="Stop all members before the first one starts again.")
]
CanaryOnly = Annotated[bool, typer.Option("--canary-only", help="Replace the canary and nobody else.")]
SOAK_S = 60
"""How long a group is watched after the last act unless told otherwise."""
Agree = Annotated[bool, typer.Option("--yes", help="Approve the plan; keep the way back open.")]


def run(  # noqa: PLR0913 - the options of a verb
    *,
    group: Group,
    to: To,
    offline: Offline = False,
    driver: Driver = "",
    canary: Canary = 1,
    canary_only: CanaryOnly = False,
    soak: Soak = SOAK_S,
    client: Client = None,
    broker: Broker = None,
    settings: SettingsFile = None,
    execute: Execute = False,
    yes: Agree = False,
    as_json: Json = False,
) -> int:
    """Plan the move and, with --execute, make it, asking at the gate. Continue one with: groupshift run
    --migration; take it back with: groupshift roll-back."""
    asked = MoveRequest(
        move=MoveName.PROTOCOL,
        group=group,
        to=to,
        way=Way.OFFLINE if offline else Way.ONLINE,
        driver=driver,
        canary=canary,
        until=Until.CANARY if canary_only else Until.ROLL,
        soak_s=soak,
        clients=tuple(client or ()),
        brokers=tuple(broker or ()),
        execute=execute,
    )
    if not execute:
        return show_plan(asked, settings, as_json=as_json, again=f"{_again(asked)} --execute")
    opened, parsed = open_app(settings)
    with opened:
        migration = opened.plan(signed(asked)).migration
        runner, console = runner_of(opened, parsed, migration, yes=yes, finalise=False)
        return finish(opened, migration, runner.forward(), console, as_json=as_json)


def _again(asked: MoveRequest) -> str:
    """The command as it was typed, without what was left at its default."""
    given = (
        ("--offline", asked.way is Way.OFFLINE),
        (f"--driver {shell(asked.driver)}", bool(asked.driver)),
        (f"--canary {asked.canary}", asked.canary != 1),
        ("--canary-only", asked.until is Until.CANARY),
        (f"--soak {asked.soak_s}", asked.soak_s != SOAK_S),
        *((f"--client {shell(each)}", True) for each in asked.clients),
        *((f"--broker {shell(each)}", True) for each in asked.brokers),
    )
    options = "".join(f" {text}" for text, wanted in given if wanted)
    return f"groupshift protocol run --group {shell(asked.group)} --to {asked.to}{options}"
