"""``groupshift protocol``: is a group ready to change its rebalance protocol, and has it settled."""

from __future__ import annotations

from typing import Annotated

import typer

from groupshift.application.protocol import (
    ProtocolAssessment,
    ProtocolRequest,
    assess_protocol,
    await_settled,
)
from groupshift.bootstrap.connect import clock, group_snapshots
from groupshift.cli import output
from groupshift.cli.hazards import Broker, Client
from groupshift.cli.looking import looking
from groupshift.cli.options import Group, Json, Servers, SettingsFile, Timeout
from groupshift.cli.protocol_counts import counts
from groupshift.cli.protocol_run import Offline, To, run
from groupshift.cli.protocol_watch import watch
from groupshift.cli.terminal import Console, Table
from groupshift.domain.foreign_text import shell, visible
from groupshift.domain.group_protocol import ProtocolView, Way
from groupshift.domain.hazards import broker_versions, client_versions
from groupshift.domain.protocol.settled import Wanted
from groupshift.domain.verdict import Verdict

Members = Annotated[
    int | None, typer.Option(min=0, help="How many members there are to be.", show_default=False)
]
Within = Annotated[float, typer.Option(min=0, help="Seconds to wait for it; 0: one look.")]

app = typer.Typer(
    name="protocol",
    help="Classic and consumer protocol (KIP-848): assess a group, move it, watch it.",
    no_args_is_help=True,
)
app.command("run")(run)
app.command("watch")(watch)
app.command("counts")(counts)


@app.command("assess")
def assess(  # noqa: PLR0913 - the options of a verb
    *,
    group: Group,
    to: To,
    offline: Offline = False,
    client: Client = None,
    broker: Broker = None,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say what the coordinator will answer and whether the group is ready; nothing is changed."""
    way = Way.OFFLINE if offline else Way.ONLINE
    named = {**client_versions(client or ()), **broker_versions(broker or ())}
    asked = ProtocolRequest(group=group, to=to, way=way, versions=named)
    with looking(bootstrap_servers, settings_file, timeout) as (views, kafka):
        snapshots = group_snapshots(kafka, timeout_s=timeout)
        try:
            found = assess_protocol(views, snapshots, asked)
        finally:
            snapshots.close()
    following = _following(asked, found)
    if as_json:
        judged = found.judgement
        output.print_json(
            {"group": group, "to": to, "way": way, "ready": found.ready, "verdict": judged.verdict}
            | {"answers": found.answers, "findings": judged.findings, "view": found.view, "next": following}
        )
    else:
        _show(Console(), asked, found, following)
    return 0 if found.ready else 1


@app.command("settled")
def settled(  # noqa: PLR0913 - the options of a verb
    *,
    group: Group,
    to: To,
    members: Members = None,
    within: Within = 0.0,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say whether the group is of the wanted type with all members on its epochs; exit code 1: not yet."""
    wanted = Wanted(protocol=to, members=members)
    with looking(bootstrap_servers, settings_file, timeout) as (views, _):
        found = await_settled(views, clock(), group, wanted, within_s=within)
    judged, passed = found.judgement, found.judgement.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}
    if as_json:
        output.print_json(
            {"group": group, "to": to, "settled": passed, "looks": found.looks, "verdict": judged.verdict}
            | {"findings": judged.findings, "view": found.view}
        )
    else:
        console = Console()
        console.print(output.findings_table(judged.findings, _title(found.view)))
        compare = f"groupshift snapshot --groups {shell(group)} --output AFTER, then compare --move protocol"
        again = f"groupshift protocol settled --group {shell(group)} --to {to} --within 60"
        output.next_command(console, compare if passed else again)
    return 0 if passed else 1


def _title(view: ProtocolView) -> str:
    group = view.group
    epoch = f", epoch {group.epoch}" if group.epoch is not None else ""
    return f"group {visible(group.group)}: {group.kind}, {group.state}{epoch}, members: {len(group.members)}"


def _show(console: Console, asked: ProtocolRequest, found: ProtocolAssessment, following: str) -> None:
    if found.view.group.members:
        console.print(_members(found.view))
    shown = [each for each in found.judgement.findings if each.rule.startswith("P") or each.hint]
    console.print(output.findings_table(shown, _title(found.view)))
    verdict = output.verdict_text(found.judgement.verdict)
    ready = "ready" if found.ready else "not ready"
    console.line(verdict, f": {ready} to move to the {asked.to} protocol {asked.way}")
    output.next_command(console, following)


def _members(view: ProtocolView) -> Table:
    table = Table("members", ("member", "client id", "instance id", "host", "speaks", "epoch", "partitions"))
    for member in view.group.members:
        epoch = "-" if member.epoch is None else str(member.epoch)
        told = (member.member_id, member.client_id, member.instance_id or "-", member.host)
        table.add_row(*told, member.speaks or "not told", epoch, str(len(member.assigned)))
    return table


def _following(asked: ProtocolRequest, found: ProtocolAssessment) -> str:
    """What to do next: the first remedy, or the first step."""
    if found.ready:
        switch = f"set group.protocol={asked.to}"
        how = "in all members while they are stopped" if asked.way is Way.OFFLINE else "member by member"
        return (
            f"{switch} {how}, then: groupshift protocol settled --group {shell(asked.group)} --to {asked.to}"
        )
    bad = [finding for finding in found.judgement.findings if finding.verdict.rank > 1]
    remedy = next((finding.hint for finding in bad if finding.hint), "see the findings")
    return f"{remedy}; then: groupshift protocol assess --group {shell(asked.group)} --to {asked.to}"
