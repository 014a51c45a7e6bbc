"""``groupshift hazards``: what the hazard book says of some versions; opens no connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from groupshift.cli import output
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

Move = Annotated[Comparison, typer.Option("--move", help="The move that is planned.")]
Broker = Annotated[list[str] | None, option("--broker", "A version of Kafka that runs; may be repeated.")]
_CLIENT = f"What members run: {', '.join(CLIENTS)}, or {NOBODY}; may be repeated."
Client = Annotated[list[str] | None, option("--client", _CLIENT, metavar="NAME=VERSION")]
Without = Annotated[list[Trait] | None, typer.Option("--without", help="A condition that does not hold.")]


def hazards(  # noqa: PLR0913 - the options of a verb
    *,
    move: Move = Comparison.PROTOCOL,
    broker: Broker = None,
    target: Annotated[str, typer.Option("--target", help="The version that a downgrade goes to.")] = "",
    client: Client = None,
    having: Annotated[list[Trait] | None, typer.Option("--with", help="A condition that holds.")] = None,
    lacking: Without = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the hazards that are not met too.")] = False,
    as_json: Json = False,
) -> int:
    """Say which known bugs of brokers and clients make a move unsafe; exit code 1: one refuses it."""
    if target and move is not Comparison.DOWNGRADE:
        raise Rejected(f"--target {target} is for --move downgrade only; leave it out")
    versions = {**client_versions(client or ()), **broker_versions(broker or (), target)}
    both = sorted({*(having or ())} & {*(lacking or ())})
    if both:
        raise Rejected(f"{', '.join(both)} is named by --with and by --without; say which")
    traits = {**dict.fromkeys(having or (), True), **dict.fromkeys(lacking or (), False)}
    findings = hazards_of(move, Facts(versions=versions, traits=traits))
    shown = [each for each in findings if everything or each.hint]
    refused, questions = (
        sum(_does(each) == does for each in findings) for does in (Action.REFUSE, Action.ASK)
    )
    rows = [{**output.plain(each), "does": _does(each)} for each in findings]
    said = f"{refused} refused, {questions} asked, {len(findings)} looked at (docs/reference/hazards.md)"
    parts: list[output.Shown] = [*([_table(shown, move)] if shown else []), said]
    output.tell({"move": move, "refused": refused, "findings": rows}, parts, as_json=as_json)
    return 1 if refused else 0


def _does(finding: Finding) -> str:
    """What groupshift does about it; a dash where the hazard is not met."""
    if finding.verdict is Verdict.PASS:
        return Action.WARN if finding.hint else "-"
    return Action.REFUSE if finding.verdict is Verdict.FAIL else Action.ASK


def _table(findings: Sequence[Finding], move: Comparison) -> Table:
    """One row a hazard, with what groupshift does about it and what helps."""
    rows = (
        (each.rule, styled(_does(each), output.COLOUR[each.verdict]), each.reason, each.hint)
        for each in findings
    )
    return Table(f"hazards of the move {move}", ("hazard", "groupshift", "reason", "remedy"), rows)
