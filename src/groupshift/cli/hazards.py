"""``groupshift hazards``: what the hazard book says of some versions; opens no connection."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from groupshift.cli import output_and_next_command as output
from groupshift.cli.options import Json, option
from groupshift.cli.terminal import Table, styled
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards import (
    CLIENTS,
    NOBODY,
    Action,
    Facts,
    Trait,
    broker_versions,
    client_versions,
    hazards_of,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Rejected

_LACKS = "A condition that does not hold."
_BROKER = "A version of Kafka that runs; may be repeated."
_CLIENT = f"What members run: {', '.join(CLIENTS)}, or {NOBODY}; may be repeated."


def hazards(  # noqa: PLR0913 - the options of a verb
    *,
    move: Annotated[Comparison, Option(help="The move that is planned.")] = Comparison.PROTOCOL,
    broker: Annotated[list[str] | None, option("--broker", _BROKER)] = None,
    target: Annotated[str, Option(help="The version that a downgrade goes to.")] = "",
    client: Annotated[list[str] | None, option("--client", _CLIENT, metavar="NAME=VERSION")] = None,
    having: Annotated[list[Trait] | None, Option("--with", help="A condition that holds.")] = None,
    lacking: Annotated[list[Trait] | None, Option("--without", help=_LACKS)] = None,
    everything: Annotated[bool, Option("--all", help="Show the hazards that are not met too.")] = False,
    as_json: Json = False,
) -> int:
    """Say which known bugs make a move unsafe.

    Those of brokers and clients. Exit code 1: one refuses it."""
    if target and move is not Comparison.DOWNGRADE:
        raise Rejected(f"--target {target} is for --move downgrade only; leave it out")
    versions = {**client_versions(client or ()), **broker_versions(broker or (), target)}
    if both := sorted({*(having or ())} & {*(lacking or ())}):
        raise Rejected(f"{', '.join(both)} is named by --with and by --without; say which")
    traits = {**dict.fromkeys(having or (), True), **dict.fromkeys(lacking or (), False)}
    findings = hazards_of(move, Facts(versions=versions, traits=traits))
    does = [_does(each) for each in findings]
    refused, questions = does.count(Action.REFUSE), does.count(Action.ASK)
    data = [{**output.plain(each), "does": what} for each, what in zip(findings, does, strict=True)]
    table = Table(f"hazards of the move {move}", ("hazard", "groupshift", "reason", "remedy"))
    for each in (each for each in findings if everything or each.hint):
        table.add_row(each.rule, styled(_does(each), output.COLOUR[each.verdict]), each.reason, each.hint)
    said = f"{refused} refused, {questions} asked, {len(findings)} looked at (docs/reference/hazards.md)"
    output.tell({"move": move, "refused": refused, "findings": data}, [table, said], as_json=as_json)
    return 1 if refused else 0


def _does(finding: Finding) -> str:
    """What groupshift does about it; a dash where the hazard is not met."""
    if finding.verdict is Verdict.PASS:
        return Action.WARN if finding.hint else "-"
    return Action.REFUSE if finding.verdict is Verdict.FAIL else Action.ASK
