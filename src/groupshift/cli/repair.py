"""``groupshift repair``: offsets that an unprepared expansion lost, brought back from the log (placement),
and those that a rollback left in Kafka (offsets)."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from groupshift.application.repair_placement import PlannedRepair, Repaired, plan_repair, repair
from groupshift.application.repair_shadows import UNDECIDED, ShadowTools, repair_shadows
from groupshift.bootstrap.placement import log_erasing, offset_restoring, placement_views
from groupshift.bootstrap.snapshots import group_snapshots
from groupshift.cli import render
from groupshift.cli.clusters import Servers, Timeout, shown
from groupshift.cli.downgrade_log import log_at
from groupshift.cli.options import Execute, Group
from groupshift.cli.placement import cluster_of
from groupshift.cli.session import Json, SettingsFile, open_app
from groupshift.domain.expansion.repair import Mend, Repair
from groupshift.errors import Rejected
from groupshift.settings import KafkaSettings

_SHOWN = 40
_COLOUR = {Mend.RESTORE: "green", Mend.OVERWRITTEN: "yellow", Mend.CONFLICT: "red"}

_MOST_HOURS = 24.0 * 365 * 10

Within = Annotated[
    float,
    typer.Option(
        "--within",
        metavar="HOURS",
        help="Commits older than this are left to a person: a deletion leaves no trace for longer than "
        "delete.retention.ms.",
        min=0.0,
        max=_MOST_HOURS,
    ),
]
_HOUR_MS = 3_600_000
_LOOK = "groupshift audit placement"

app = typer.Typer(name="repair", help="Put right what was broken without groupshift.", no_args_is_help=True)


@app.callback()
def _several() -> None:
    """Put right what was broken without groupshift."""


@app.command("placement")
def placement(
    *,
    within: Within = 24.0,
    execute: Execute = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Find every offset that lies where its coordinator does not look, and say which is to be restored; with
    --execute commit those of groups without members, and read them back.

    Exit code 1: something is left to a person, or not as it should be."""
    if not math.isfinite(within):
        raise Rejected(f"--within {within}: name a number of hours, such as 24")
    kafka = cluster_of(bootstrap_servers, settings_file)
    with closing(placement_views(kafka, timeout_s=timeout)) as views, shown(Console(stderr=True)) as progress:
        planned = plan_repair(
            views,
            log_at(kafka, timeout),
            round(within * _HOUR_MS),
            lambda done, of: progress("reading the offsets topic", done, of),
        )
    done = _done(kafka, planned, timeout) if execute else None
    then = following(planned, done)
    if as_json:
        render.print_json({**_document(planned, done), "next": then})
    else:
        _show(Console(), planned, done)
        render.next_command(Console(), then)
    return 0 if clean(planned, done) else 1


@app.command("offsets")
def offsets(
    *,
    group: Group,
    execute: Execute = False,
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Find the committed offsets that a rollback left in Kafka of a group which ZooKeeper coordinates; with
    --execute delete them, and read back that none is left.

    Refused for a group in kafka mode, with members that commit to Kafka, with an open migration, or where
    Kafka's offset is the only one. Exit code 1: something is left, or it is refused."""
    opened, parsed = open_app(settings_file)
    with opened:
        found, against = opened.stale_offsets(group)
        removed = execute and found is not None
        if removed:
            with closing(offset_restoring(parsed.kafka, timeout_s=timeout)) as restoring:
                opened.remove_stale_offsets(group, restoring)
    may = found is not None and not against and not removed
    then = found.command if found and may else f"groupshift assess --group {group}"
    if as_json:
        data = {} if found is None else {str(at): offset for at, offset in sorted(found.offsets.items())}
        document = {"group": group, "offsets": data, "against": against, "removed": removed, "next": then}
        render.print_json(document)
        return 0 if found is None or removed else 1
    console = Console()
    said = f"Kafka holds no committed offset of group {group}" if found is None else found.sentence
    if found and removed:
        said = (
            f"{len(found.offsets):,} committed offsets of group {group} were deleted from Kafka and read back"
        )
    console.print(escape(said), style="" if may or against else "green", soft_wrap=True)
    if against and found:
        console.print(escape(f"they may not be removed: {against}"), style="red", soft_wrap=True)
    render.next_command(console, then)
    return 0 if found is None or removed else 1


def _done(kafka: KafkaSettings, planned: PlannedRepair, timeout: float) -> Repaired:
    with (
        closing(offset_restoring(kafka, timeout_s=timeout)) as restoring,
        closing(group_snapshots(kafka, timeout_s=timeout)) as reader,
        closing(placement_views(kafka, timeout_s=timeout)) as views,
    ):
        if not planned.old:
            return repair(planned, restoring, reader)
        erasing = log_erasing(kafka, timeout_s=timeout)
        log = log_at(kafka, timeout)
        tools = ShadowTools(views=views, log=log, restoring=restoring, erasing=erasing)
        return repair_shadows(planned, tools)


def clean(planned: PlannedRepair, done: Repaired | None) -> bool:
    """Whether nothing is left to anybody, but restarts."""
    unsure = planned.against and (planned.repairs or _strays(planned) or not planned.audit.clean)
    if planned.of(Mend.CONFLICT) or unsure:
        return False
    if done is None:
        return not planned.of(Mend.RESTORE) and not (planned.old and _strays(planned))
    return not done.restored.differing and not done.changed and not done.strays_left


def _strays(planned: PlannedRepair) -> bool:
    """Whether anything live lies outside its group's partition, commits or not, of a group about which no
    person has to decide."""
    log = planned.audit.facts.log
    return bool(log and log.strays.keys() - {each.chosen.group for each in planned.of(Mend.CONFLICT)})


def _document(planned: PlannedRepair, done: Repaired | None) -> dict[str, Any]:
    return {
        "cluster_id": planned.audit.facts.view.cluster.cluster_id,
        "counts": planned.counts,
        "against": planned.against,
        "repairs": planned.repairs,
        "executed": done is not None,
        "restored": None if done is None else done.restored.equal,
        "erased": [] if done is None else sorted(done.erased),
        "strays_left": {} if done is None else done.strays_left,
        "not_restored": [] if done is None else (*done.restored.differing, *done.changed),
    }


def _show(console: Console, planned: PlannedRepair, done: Repaired | None) -> None:
    left = [each for each in planned.repairs if each.mend is not Mend.RESTORE]
    if left:
        console.print(_table("left alone, or to a person", left))
    if done is None and planned.of(Mend.RESTORE):
        console.print(_table("to be restored", planned.of(Mend.RESTORE)))
    if planned.against:
        console.print(escape(f"nothing may be committed: {planned.against}"), style="red", soft_wrap=True)
    counts = ", ".join(f"{number:,} {mend}" for mend, number in planned.counts.items())
    console.print(f"offsets elsewhere: {counts}")
    if done is not None:
        for each in (*done.restored.differing, *done.changed)[:_SHOWN]:
            place = f"{each.wanted.group} {each.wanted.topic}-{each.wanted.partition}"
            why = each.reason or "read back as something else"
            console.print(escape(f"{place}: {why}"), style="red", soft_wrap=True)
        console.print(f"[green]{done.restored.equal:,} restored and read back[/]")
    if done is not None and done.erased:
        console.print(f"strays of {len(done.erased):,} groups have tombstones now")
    if done is not None:
        for group, why in list(done.strays_left.items())[:_SHOWN]:
            console.print(escape(f"strays of {group} stay: {why}"), style="yellow", soft_wrap=True)


def _table(title: str, found: Any) -> Table:
    rows: list[Repair] = list(found)
    more = f", the first {_SHOWN} of {len(rows):,}" if len(rows) > _SHOWN else ""
    table = Table(title=f"{title}{more} (--json has all)", title_justify="left")
    for name in ("group", "topic-partition", "what", "offset", "from partition", "at home", "why"):
        table.add_column(name, justify="right" if name in {"offset", "from partition", "at home"} else "left")
    for each in rows[:_SHOWN]:
        chosen = each.chosen
        table.add_row(
            escape(chosen.group),
            escape(f"{chosen.topic}-{chosen.partition}"),
            f"[{_COLOUR[each.mend]}]{each.mend}[/]",
            "-" if chosen.offset is None else f"{chosen.offset:,}",
            str(chosen.found),
            "-" if chosen.at_home is None else f"{chosen.at_home:,}",
            escape(each.reason),
        )
    return table


def following(planned: PlannedRepair, done: Repaired | None) -> str:
    """What to do next."""
    if planned.against:
        return _LOOK
    waiting = done is not None and (
        done.restored.differing or done.changed or set(done.strays_left.values()) - {UNDECIDED}
    )
    to_do = done is None and (planned.of(Mend.RESTORE) or (planned.old and _strays(planned)))
    if waiting or to_do:
        return "stop the members of these groups, then: groupshift repair placement --execute"
    if planned.of(Mend.CONFLICT):
        return "decide each conflict, and commit it with kafka-consumer-groups.sh --reset-offsets"
    if done is not None and done.erased:
        return f"restart every broker while clients are stopped, then: {_LOOK}"
    return _restarts(planned) or _LOOK


def _restarts(planned: PlannedRepair) -> str:
    """What is left to do where strays were erased before: an OLD coordinator keeps what it loaded until then.
    Empty where none were."""
    log = planned.audit.facts.log
    if not planned.old or log is None or log.erased_ms is None:
        return ""
    since = datetime.fromtimestamp(log.erased_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f"restart brokers that run since before {since} (they may answer what was erased then), then: {_LOOK}"
    )
