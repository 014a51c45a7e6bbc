"""``groupshift protocol watch``: members that are put out, missing or silent are named while it happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from groupshift.application.protocol_watch import Watched, WatchRequest, watch_members
from groupshift.bootstrap.connect import clock, group_snapshots
from groupshift.cli import output
from groupshift.cli.looking import looking
from groupshift.cli.options import Group, Servers, SettingsFile, Timeout
from groupshift.cli.terminal import Console, styled
from groupshift.domain.foreign_text import json_text, visible
from groupshift.domain.verdict import Finding
from groupshift.moves.protocol.liveness_rules import UNANSWERED

For = Annotated[float, typer.Option("--for", help="Seconds to watch; 0: one look.", min=0)]
Expect = Annotated[
    list[str] | None,
    typer.Option(
        "--expect",
        help="A member that must be there, by client id, instance id or member id; twice: two of that name.",
        show_default=False,
    ),
]
Every = Annotated[float, typer.Option(help="Seconds between looks.", min=0.1)]
GoneFor = Annotated[float, typer.Option(help="Seconds that a member may be missing.", min=0)]
StillFor = Annotated[float, typer.Option(help="Seconds without a commit while the log grows.", min=0)]
Until = Annotated[bool, typer.Option("--until-noticed", help="End with the first thing noticed of members.")]
Lines = Annotated[bool, typer.Option("--json", help="Print one JSON object a look instead of lines.")]


def watch(  # noqa: PLR0913 - the options of a verb
    *,
    group: Group,
    seconds: For = 60.0,
    expect: Expect = None,
    every: Every = 1.0,
    gone_for: GoneFor = 5.0,
    still_for: StillFor = 8.0,
    until_noticed: Until = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Lines = False,
) -> int:
    """Name members that are missing or silent while it happens; exit code 1: something was noticed."""
    asked = WatchRequest(
        group=group,
        for_s=seconds,
        every_s=every,
        expected=tuple(expect or ()),
        gone_s=gone_for,
        still_s=still_for,
    )
    with (
        looking(bootstrap_servers, settings_file, timeout) as (views, kafka),
        closing(group_snapshots(kafka, timeout_s=timeout)) as snapshots,
    ):
        looks = watch_members(views, snapshots, clock(), asked)
        told = _json_lines(looks) if as_json else _lines(looks, Console())
        noticed: dict[Finding, None] = {}
        for each in told:
            noticed |= dict.fromkeys(each.noticed)
            if until_noticed and any(finding.rule != UNANSWERED for finding in noticed):
                break
    if not as_json:
        _end(Console(), asked, tuple(noticed))
    return 1 if noticed else 0


def _json_lines(looks: Iterator[Watched]) -> Iterator[Watched]:
    for look in looks:
        line = {"at_ms": look.at_ms, **_group(look), "findings": look.noticed}
        document = json.dumps(output.plain(line), separators=(",", ":"), ensure_ascii=False)
        print(json_text(document), flush=True)
        yield look


def _group(look: Watched) -> dict[str, Any]:
    """The group of a look in a few words; None where nobody answered, or where members are not told."""
    if look.view is None:
        return {"type": None, "state": None, "epoch": None, "members": None}
    group = look.view.group
    members = sorted(member.name for member in group.members) if group.members or group.empty else None
    return {"type": group.kind, "state": group.state, "epoch": group.epoch, "members": members}


def _lines(looks: Iterator[Watched], console: Console) -> Iterator[Watched]:
    """A line when the group has changed, and one for each thing noticed for the first time."""
    former: dict[str, Any] = {}
    said: set[Finding] = set()
    for look in looks:
        group = _group(look)
        if look.view is not None and group != former:
            former, names = group, group["members"]
            epoch = "" if group["epoch"] is None else f", epoch {group['epoch']}"
            told = "not told" if names is None else len(names)
            console.print(f"{_time(look)}  {group['type']}, {group['state']}{epoch}, members: {told}")
        for finding in look.noticed:
            if finding not in said:
                said.add(finding)
                verdict = output.verdict_text(finding.verdict)
                console.line(f"{_time(look)}  ", verdict, f" {finding.rule}: {finding.reason}")
        yield look


def _time(look: Watched) -> str:
    return datetime.fromtimestamp(look.at_ms / 1000, tz=UTC).strftime("%H:%M:%S")


def _end(console: Console, asked: WatchRequest, noticed: tuple[Finding, ...]) -> None:
    if not noticed:
        console.line(styled("pass", "green"), f": nothing was noticed of group {visible(asked.group)}")
        return
    console.print(output.findings_table(noticed, f"group {visible(asked.group)}: noticed"))
    output.next_command(console, next((each.hint for each in noticed if each.hint), "look at the brokers"))
