"""``groupshift plan expansion``: which groups another count of ``__consumer_offsets`` moves, and its cost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.bootstrap.clusters import placement_views
from groupshift.cli import output
from groupshift.cli.downgrade_log import log_at
from groupshift.cli.options import Json, Servers, SettingsFile, Timeout, shown
from groupshift.cli.placement import All, NoLog, brokers_of, cluster_of, counting_table, show_findings
from groupshift.cli.terminal import Console, Table
from groupshift.domain.verdict import counted
from groupshift.moves.expansion.assess import PlannedExpansion, plan_expansion
from groupshift.moves.expansion.load import PartitionLoad
from groupshift.moves.expansion.report import write_plan

To = Annotated[int, typer.Option("--to", metavar="M", help="How many partitions there are to be.", min=1)]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write a page with pictures of the load.", show_default=False
    ),
]


def expansion(  # noqa: PLR0913 - the options of a verb
    *,
    to: To,
    no_log: NoLog = False,
    report: Report = None,
    everything: All = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say which groups move when __consumer_offsets gets M partitions, what other counts cost, and what is in
    the way; nothing is changed.

    Exit code 1: it may not begin."""
    kafka = cluster_of(bootstrap_servers, settings_file)
    log = None if no_log else log_at(kafka, timeout)
    with closing(placement_views(kafka, timeout_s=timeout)) as views, shown(Console(stderr=True)) as progress:
        found = plan_expansion(
            views, log, to, lambda done, of: progress("reading the offsets topic", done, of)
        )
    if report is not None:
        write_plan(report, found)
    following = _next(found)
    if as_json:
        output.print_json({**_document(found), "next": following})
    else:
        _show(Console(), found, everything=everything)
        if report is not None:
            Console().print(f"report: {report!s}")
        output.next_command(Console(), following)
    return 0 if found.open else 1


def _document(found: PlannedExpansion) -> dict[str, Any]:
    facts = found.facts
    return {
        "cluster_id": facts.view.cluster.cluster_id,
        "open": found.open,
        "verdict": found.judgement.verdict,
        "from": facts.before,
        "to": found.to,
        "partitions": facts.view.count,
        "brokers": brokers_of(facts),
        "costs": found.costs,
        "moving": found.movers,
        "load": {"before": found.before, "after": [_live(each) for each in found.after]},
        "findings": found.judgement.findings,
    }


def _live(load: PartitionLoad) -> dict[str, int]:
    """What can be told of a partition then: what is overwritten or deleted stays where it lies."""
    return {name: getattr(load, name) for name in ("partition", "groups", "live_records", "live_bytes")}


def _show(console: Console, found: PlannedExpansion, *, everything: bool) -> None:
    console.print(counting_table(found.facts))
    console.print(_costs(found))
    if found.before:
        console.print(_loads(found))
    show_findings(
        console, found.judgement.findings, f"{found.facts.before} to {found.to}", everything=everything
    )
    passed = counted(found.judgement.findings, "rules")
    moving = f"{len(found.movers):,} of {len(found.facts.hashed.groups):,} groups move"
    verdict, way = output.verdict_text(found.judgement.verdict), "may" if found.open else "may not"
    console.line(
        verdict,
        f": {moving} from {found.facts.before} to {found.to} partitions; it {way} begin; "
        f"{passed} (--all shows them)",
    )


def _costs(found: PlannedExpansion) -> Table:
    table = Table(
        "what a count costs",
        ("partitions", "names that stay", "groups that move", ""),
        numbers=("partitions", "names that stay", "groups that move"),
    )
    for each in found.costs:
        note = "asked for" if each.count == found.to else ""
        kind = "multiple" if each.multiple else "no multiple"
        table.add_row(str(each.count), f"{each.stays:.1%}", f"{each.moving:,}", f"{kind} {note}".strip())
    return table


def _loads(found: PlannedExpansion) -> Table:
    """The busiest partition and the mean, now and then: all partitions are in --json and --report."""
    table = Table(
        "live load by partition",
        (
            "",
            "partitions",
            "groups: busiest",
            "mean",
            "records: busiest",
            "mean",
            "bytes: busiest",
            "mean",
        ),
        numbers=("partitions", "groups: busiest", "mean", "records: busiest", "bytes: busiest"),
    )
    for said, loads in (("now", found.before), ("then", found.after)):
        cells: list[str] = []
        for values in (
            [each.groups for each in loads],
            [each.live_records for each in loads],
            [each.live_bytes for each in loads],
        ):
            cells += [f"{max(values):,}", f"{sum(values) / len(values):,.1f}"]
        table.add_row(said, str(len(loads)), *cells)
    return table


def _next(found: PlannedExpansion) -> str:
    bad = [each for each in found.judgement.findings if each.verdict.rank > 1 and each.hint]
    if bad:
        return f"{bad[0].hint}; then: groupshift plan expansion --to {found.to}"
    return f"groupshift expansion run --to {found.to}"
