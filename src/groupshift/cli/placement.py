"""``groupshift audit placement``: by which partition count each broker coordinates, and what that harms."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from groupshift.bootstrap.connect import placement_views
from groupshift.cli import output
from groupshift.cli.offsets_log import log_at
from groupshift.cli.options import Json, Servers, SettingsFile, Timeout, one_cluster, settings, shown
from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.cluster import configured
from groupshift.domain.verdict import Verdict, counted
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.rules import Placement, audit_placement, busy_groups
from groupshift.settings import KafkaSettings

All = Annotated[bool, typer.Option("--all", help="Show the rules that passed too.")]
NoLog = Annotated[
    bool, typer.Option("--no-log", help="Ask the brokers only: what lies elsewhere in the log stays unknown.")
]


def placement(
    *,
    no_log: NoLog = False,
    everything: All = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say by which partition count each broker coordinates groups, which groups two brokers serve, and what
    lies where its coordinator does not look; nothing is changed.

    Exit code 1: something is wrong, or could not be measured."""
    kafka = cluster_of(bootstrap_servers, settings_file)
    log = None if no_log else log_at(kafka, timeout)
    with closing(placement_views(kafka, timeout_s=timeout)) as views, shown(Console(stderr=True)) as progress:
        found = audit_placement(views, log, lambda done, of: progress("reading the offsets topic", done, of))
    following = following_of(found)
    if as_json:
        output.print_json({**document_of(found), "next": following})
    else:
        show_audit(Console(), found, everything=everything)
        output.next_command(Console(), following)
    return 0 if found.clean else 1


def cluster_of(bootstrap_servers: str, settings_file: Any) -> KafkaSettings:
    """The brokers that are meant. Raises `Rejected` when both name a cluster."""
    one_cluster(bootstrap_servers, settings_file)
    if bootstrap_servers:
        return KafkaSettings(bootstrap_servers=bootstrap_servers)
    return settings(settings_file).kafka


def counting_table(facts: PlacementFacts) -> Table:
    """What every broker counts, row by row."""
    counted, count = facts.told, facts.view.count
    numbers = ("counts", "configured", "leads", "groups listed")
    title = f"__consumer_offsets: {count} partitions"
    table = Table(title, ("broker", "coordinator", *numbers), numbers=("broker", *numbers))
    for broker in facts.view.cluster.brokers:
        counts = sorted(counted.get(broker.node_id, ()))
        colour = "green" if count in counts else "red"
        shown_counts = " or ".join(map(str, counts[:3])) + (" …" * (len(counts) > 3))  # noqa: PLR2004
        static = configured(broker)
        table.add_row(
            str(broker.node_id),
            broker.coordinator.value.upper(),
            styled(shown_counts or "-", colour),
            "-" if static is None else str(static),
            str(facts.view.topic.leaders.count(broker.node_id)),
            f"{len(broker.groups):,}",
        )
    return table


def brokers_of(facts: PlacementFacts) -> dict[str, Any]:
    """The same for programs."""
    counted = facts.told
    return {
        str(broker.node_id): {
            "coordinator": broker.coordinator,
            "counts": sorted(counted.get(broker.node_id, ())),
            "configured": configured(broker),
            "leads": facts.view.topic.leaders.count(broker.node_id),
            "groups": len(broker.groups),
        }
        for broker in facts.view.cluster.brokers
    }


def document_of(found: Placement) -> dict[str, Any]:
    """An audit for programs."""
    facts, log = found.facts, found.facts.log
    return {
        "cluster_id": facts.view.cluster.cluster_id,
        "verdict": found.judgement.verdict,
        "partitions": facts.view.count,
        "in_force": facts.in_force,
        "brokers": brokers_of(facts),
        "groups": len(facts.hashed.groups),
        "served_by_other_than_one": facts.several_owners,
        "asked_directly": facts.view.owned,
        "moving_at_restart": [each.group for each in facts.moving_at_restart],
        "with_members": sorted(busy_groups(facts.view.cluster)),
        "open_transactions": facts.view.open_transactions,
        "unlisted_transactions": facts.view.unlisted_transactions,
        "log": None
        if log is None
        else {
            "records": log.records,
            "held_against": log.count,
            "elsewhere": [
                {**output.plain(each), "lost": each.lost, "shadows": each.shadows} for each in log.elsewhere
            ],
            "others": log.others,
            "unreadable": log.unreadable,
            "loads": log.loads,
        },
        "findings": found.judgement.findings,
    }


def show_audit(console: Console, found: Placement, *, everything: bool) -> None:
    """What every broker counts, and findings."""
    facts = found.facts
    console.print(counting_table(facts))
    show_findings(console, found.judgement.findings, "placement", everything=everything)
    passed = counted(found.judgement.findings, "rules")
    read = "the log was not read" if facts.log is None else f"{facts.log.records:,} records read"
    groups = f"{len(facts.hashed.groups):,} groups, {read}"
    verdict = output.verdict_text(found.judgement.verdict)
    console.line(verdict, f": {groups}; {passed} (--all shows them)")


def show_findings(console: Console, findings: Any, title: str, *, everything: bool) -> None:
    """Those that did not pass, or all."""
    chosen = [each for each in findings if everything or each.verdict is not Verdict.PASS or each.hint]
    if chosen:
        console.print(output.findings_table(chosen, title))


def following_of(found: Placement) -> str:
    """What to do next: the first remedy that there is."""
    bad = [each for each in found.judgement.findings if each.verdict.rank > 1 and each.hint]
    if bad:
        return f"{bad[0].hint}; then: groupshift audit placement"
    return "nothing: repeat it before and after brokers restart"
