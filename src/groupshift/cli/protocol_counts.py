"""``groupshift protocol counts``: what brokers count of groups, by JMX, against what they list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.adapters.spark_submit.java import java_binary
from groupshift.application.group_counts import Counted, count_groups
from groupshift.bootstrap.connect import clock, coordinator_gauges, group_lists
from groupshift.cli import output
from groupshift.cli.looking import named_kafka
from groupshift.cli.options import Json, Servers, SettingsFile, Timeout
from groupshift.cli.terminal import Console, Table
from groupshift.domain.addresses import one_server
from groupshift.domain.group_protocol import Kind
from groupshift.domain.protocol.counts import CountView
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected

Jmx = Annotated[
    list[str] | None,
    typer.Option(
        "--jmx", metavar="HOST:PORT", help="Where a broker has JMX open; one for each.", show_default=False
    ),
]
Within = Annotated[float, typer.Option(min=0, help="Seconds to look again until they agree; 0: one look.")]
Libs = Annotated[
    Path | None,
    typer.Option(
        "--kafka-libs",
        help="Kafka's folder libs; without it $KAFKA_HOME/libs.",
        show_default=False,
        exists=True,
        file_okay=False,
    ),
]


def counts(
    *,
    jmx: Jmx = None,
    within: Within = 0.0,
    kafka_libs: Libs = None,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Hold the brokers' counts of groups by type and state against their lists; exit code 1: they differ."""
    for each in jmx or ():
        one_server(each, "--jmx")  # before anybody is asked
    class_path = _class_path(kafka_libs)
    kafka = named_kafka(bootstrap_servers, settings_file)
    with closing(group_lists(kafka, timeout_s=timeout)) as lists:
        gauges = coordinator_gauges(java_binary(), class_path)
        found = count_groups(lists, gauges, clock(), jmx or (), within_s=within)
    judged = found.judgement
    passed = judged.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}
    if as_json:
        output.print_json(
            {"agree": passed, "verdict": judged.verdict, "looks": found.looks}
            | {"brokers": list(_documents(found.view)), "findings": judged.findings}
        )
    else:
        _show(Console(), found)
    return 0 if passed else 1


def _class_path(kafka_libs: Path | None) -> str:
    home = os.environ.get("KAFKA_HOME")
    folder = kafka_libs or (Path(home) / "libs" if home else None)
    if folder is None:
        raise Rejected(
            "no --kafka-libs and no KAFKA_HOME: JmxTool is a class of Kafka's; name the folder libs of a "
            "Kafka distribution with --kafka-libs"
        )
    return f"{folder}/*"


def _documents(view: CountView) -> Iterator[dict[str, Any]]:
    gauged = {broker.node_id: broker for broker in view.gauged}
    for node in sorted({*gauged, *view.listed}):
        broker = gauged.get(node)
        yield {
            "node": node,
            "jmx": broker.address if broker else None,
            "release": broker.release if broker else None,
            "coordinator": broker.coordinator if broker else None,
            "partitions": broker.partitions if broker else None,
            "counted": {kind.value: count for kind, count in sorted(broker.types.items())}
            if broker
            else None,
            "listed": _by_type(view, node),
        }


def _by_type(view: CountView, node: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for (kind, _), count in sorted(view.listed.get(node, {}).items()):
        found[kind.value] = found.get(kind.value, 0) + count
    return found


def _show(console: Console, found: Counted) -> None:
    kinds = [kind.value for kind in (Kind.CLASSIC, Kind.CONSUMER, Kind.SHARE, Kind.STREAMS, Kind.UNKNOWN)]
    documents = list(_documents(found.view))
    used = [
        kind
        for kind in kinds
        if any(kind in {*(each["counted"] or {}), *each["listed"]} for each in documents)
    ]
    table = Table("groups: counted / listed", ("broker", "release", "coordinator", *used))
    for each in documents:
        counted = each["counted"]
        numbers = [
            f"{'-' if counted is None else counted.get(kind, 0)} / {each['listed'].get(kind, 0)}"
            for kind in used
        ]
        table.add_row(str(each["node"]), each["release"] or "-", each["coordinator"] or "-", *numbers)
    console.print(table)
    console.print(output.findings_table(found.judgement.findings, f"looks: {found.looks}"))
