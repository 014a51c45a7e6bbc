"""``groupshift hazards``: what the hazard book says of some versions; opens no connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from groupshift.cli import render
from groupshift.cli.session import Json
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards import Facts, Met, Role, Trait, hazards_of
from groupshift.domain.hazards.model import Action
from groupshift.domain.hazards.versions import Span, Version, met
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Rejected

_BOUND = "confluent-kafka"
_ROLES = (Role.LIBRDKAFKA, Role.KAFKA_CLIENTS, Role.MIRROR_MAKER)
_CLIENTS = (_BOUND, *_ROLES)
_NONE = "none"

Move = Annotated[Comparison, typer.Option("--move", help="The move that is planned.")]
Broker = Annotated[
    list[str] | None, typer.Option("--broker", help="A version of Kafka that runs; may be repeated.")
]
Target = Annotated[str, typer.Option("--target", help="The version that a downgrade goes to.")]
Client = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="NAME=VERSION",
        help=f"What members run: {', '.join(_CLIENTS)}, or {_NONE}; may be repeated.",
    ),
]
With = Annotated[list[Trait] | None, typer.Option("--with", help="A condition that holds.")]
Without = Annotated[list[Trait] | None, typer.Option("--without", help="A condition that does not hold.")]
All = Annotated[bool, typer.Option("--all", help="Show the hazards that are not met too.")]


def hazards(  # noqa: PLR0913 - the options of a verb
    *,
    move: Move = Comparison.PROTOCOL,
    broker: Broker = None,
    target: Target = "",
    client: Client = None,
    having: With = None,
    lacking: Without = None,
    everything: All = False,
    as_json: Json = False,
) -> int:
    """Say which known bugs of brokers and clients make a move unsafe; exit code 1: one refuses it."""
    if target and move is not Comparison.DOWNGRADE:
        raise Rejected(f"--target {target} is for --move downgrade only; leave it out")
    versions = {**client_versions(client or ()), **broker_versions(broker or (), target)}
    findings = hazards_of(move, Facts(versions=versions, traits=_traits(having or (), lacking or ())))
    refused = sum(_does(each) == Action.REFUSE for each in findings)
    if as_json:
        rows = [{**render.plain(each), "does": _does(each)} for each in findings]
        render.print_json({"move": move, "refused": refused, "findings": rows})
        return 1 if refused else 0
    console = Console()
    shown = [each for each in findings if everything or each.hint]
    if shown:
        console.print(_table(shown, move))
    asked = sum(_does(each) == Action.ASK for each in findings)
    console.print(f"{refused} refused, {asked} asked, {len(findings)} looked at (docs/hazards.md)")
    return 1 if refused else 0


def _does(finding: Finding) -> str:
    """What groupshift does about it; a dash where the hazard is not met."""
    if finding.verdict is Verdict.PASS:
        return Action.WARN if finding.hint else "-"
    return Action.REFUSE if finding.verdict is Verdict.FAIL else Action.ASK


def _table(findings: Sequence[Finding], move: Comparison) -> Table:
    table = Table(title=f"hazards of the move {move}", title_justify="left")
    for name in ("hazard", "groupshift", "reason", "remedy"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        does = f"[{render.COLOUR[finding.verdict]}]{_does(finding)}[/]"
        table.add_row(finding.rule, does, escape(finding.reason), escape(finding.hint))
    return table


def broker_versions(brokers: Sequence[str], target: str = "") -> dict[Role, tuple[Met, ...]]:
    """What --broker and --target say, by role; nothing of what was not named. Raises `Rejected`."""
    found = {Role.BROKER: brokers, Role.TARGET: (target,) if target else ()}
    return {
        role: tuple(Met(where=role.value, version=met(text), said=text) for text in texts)
        for role, texts in found.items()
        if texts
    }


def client_versions(clients: Sequence[str]) -> dict[Role, tuple[Met, ...]]:
    """What --client says, by role; nothing where none is named: then all are unknown. Raises `Rejected`."""
    if not clients:
        return {}
    found: dict[Role, tuple[Met, ...]] = dict.fromkeys(_ROLES, ())
    for each in clients:
        if each == _NONE:
            continue
        name, _, text = each.partition("=")
        if name not in _CLIENTS:
            raise Rejected(
                f"--client {each} is not known; name one of {', '.join(_CLIENTS)} with its version, such as "
                f"{_BOUND}=2.16.1, or {_NONE}"
            )
        version = met(text)
        if name == _BOUND and isinstance(version, Version):
            version = _line(version)
        role = Role.LIBRDKAFKA if name == _BOUND else Role(name)
        found[role] = (*found[role], Met(where=name, version=version, said=text))
    return found


def _line(version: Version) -> Span | None:
    """confluent-kafka 2.16.1 brings some librdkafka 2.16."""
    major, minor = version.numbers[:2]
    line = met(f"{major}.{minor}")
    return line if isinstance(line, Span) else None


def _traits(having: Sequence[Trait], lacking: Sequence[Trait]) -> dict[Trait, bool]:
    both = sorted(set(having) & set(lacking))
    if both:
        raise Rejected(f"{', '.join(both)} is named by --with and by --without; say which")
    return {**dict.fromkeys(having, True), **dict.fromkeys(lacking, False)}
