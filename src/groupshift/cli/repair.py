"""``groupshift repair``: offsets that an unprepared expansion lost (placement), those that a rollback left in
Kafka (offsets), and commits with foreign leader epochs (epochs).

Each verb shows what it found and what it would do; only with ``--execute`` it writes, and it reads back what
it wrote. Groups with members are left alone: what they commit would be overwritten."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer

from groupshift.bootstrap.connect import (
    group_snapshots,
    log_erasing,
    offset_restoring,
    placement_views,
    zookeeper_side,
)
from groupshift.bootstrap.moves import journal
from groupshift.cli.options import (
    Execute,
    Group,
    Groups,
    Json,
    Servers,
    SettingsFile,
    Timeout,
    log_at,
    settings,
    settings_at,
    shown,
    wanted,
)
from groupshift.cli.output_and_next_command import Shown, number, tell
from groupshift.cli.terminal import Table, styled
from groupshift.domain.commit_places import Stray
from groupshift.domain.foreign_text_quoting import command
from groupshift.engine.questions_and_approvers import utc
from groupshift.errors import Rejected
from groupshift.moves.coordination.repair_leftover_offsets import remove_stale_offsets, stale_offsets
from groupshift.moves.expansion.repair_leader_epochs import EpochPlan, plan_epochs, repair_epochs
from groupshift.moves.expansion.repair_lost_offsets import (
    UNDECIDED,
    Mend,
    PlannedRepair,
    RepairTools,
    plan_repair,
    repair,
)
from groupshift.moves.expansion.restore import Restored

_SHOWN = 40
"""Rows of a table; --json has all."""
_COLOUR = {Mend.RESTORE: "green", Mend.OVERWRITTEN: "yellow", Mend.CONFLICT: "red"}

_MOST_HOURS = 24.0 * 365 * 10

_HOUR_MS = 3_600_000
_LOOK = "groupshift audit placement"
"""The command that looks at the whole cluster again."""

_OLDER = (
    "Commits older than this are left to a person: a deletion leaves no trace for longer than "
    "delete.retention.ms."
)

app = typer.Typer(name="repair", help="Put right what was broken without groupshift.", no_args_is_help=True)


@app.command("placement")
def placement(
    *,
    within: Annotated[float, typer.Option(metavar="HOURS", help=_OLDER, min=0.0, max=_MOST_HOURS)] = 24.0,
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
    kafka = settings_at(bootstrap_servers, settings_file).kafka
    log, done = log_at(kafka, timeout), None
    with closing(placement_views(kafka, timeout_s=timeout)) as views:
        with shown() as progress:
            reading = partial(progress, "reading the offsets topic")
            planned = plan_repair(views, log, round(within * _HOUR_MS), reading)
        if execute:
            with (
                closing(offset_restoring(kafka, timeout_s=timeout)) as restoring,
                closing(group_snapshots(kafka, timeout_s=timeout)) as reader,
            ):
                erasing = log_erasing(kafka, timeout_s=timeout)
                tools = RepairTools(views=views, log=log, restoring=restoring, reader=reader, erasing=erasing)
                done = repair(planned, tools)
    data = {
        "cluster_id": planned.audit.facts.view.cluster.cluster_id,
        "counts": planned.counts,
        "against": planned.against,
        "repairs": planned.repairs,
        "erased": sorted(done.erased) if done else [],
        "strays_left": done.strays_left if done else {},
        **_outcome(done),
    }
    tell(data, _parts(planned, done), following(planned, done), as_json=as_json)
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

    Refused for a group in kafka mode, with members that commit to Kafka, with an open run, where
    Kafka's offset is the only or the higher one, or where nobody is there and the mode node is gone. Exit
    code 1: something is left, or it is refused."""
    parsed = settings(settings_file)
    with journal(parsed) as runs, zookeeper_side(parsed) as side:
        stale, against = stale_offsets(side, runs, group)
        removed = execute and stale is not None
        if removed:
            with closing(offset_restoring(parsed.kafka, timeout_s=timeout)) as restoring:
                remove_stale_offsets(side, runs, group, restoring)
    may = stale is not None and not against and not removed
    assess = command("groupshift", "coordination", "assess", "--group", group)
    data = {} if stale is None else {str(at): offset for at, offset in sorted(stale.offsets.items())}
    said = f"Kafka holds no committed offset of group {group}" if stale is None else stale.sentence
    if removed:
        said = f"{len(data):,} committed offsets of group {group} were deleted from Kafka and read back"
    parts = [styled(said, "" if may or against else "green")]
    if against and stale:
        parts.append(styled(f"they may not be removed: {against}", "red"))
    document = {"group": group, "offsets": data, "against": against, "removed": removed}
    tell(document, parts, stale.command if stale and may else assess, as_json=as_json)
    return 0 if stale is None or removed else 1


def clean(planned: PlannedRepair, done: Restored | None) -> bool:
    """Return True where nothing is left to anybody, but restarts; ``done`` is None before anything was
    done."""
    unsure = planned.against and (planned.repairs or _strays(planned) or not planned.audit.clean)
    to_do: object = planned.of(Mend.RESTORE) or (planned.old and _strays(planned))
    if done is not None:
        to_do = done.differing or done.strays_left
    return not (planned.of(Mend.CONFLICT) or unsure or to_do)


def _strays(planned: PlannedRepair) -> bool:
    """Whether anything live lies outside its group's partition, commits or not, of a group about which no
    person has to decide."""
    log = planned.audit.facts.log
    return bool(log and log.strays.keys() - {each.chosen.group for each in planned.of(Mend.CONFLICT)})


def _outcome(done: Restored | None) -> dict[str, Any]:
    """What came of an act, for programs."""
    restored = done.equal if done else None
    return {"executed": bool(done), "restored": restored, "not_restored": done.differing if done else []}


def _outcome_parts(done: Restored, what: str) -> Iterator[Shown]:
    """The same for people."""
    for each in done.differing[:_SHOWN]:
        place = f"{each.wanted.group} {each.wanted.topic}-{each.wanted.partition}"
        yield styled(f"{place}: {each.reason or 'read back as something else'}", "red")
    yield styled(f"{done.equal:,} {what} and read back", "green")


def _parts(planned: PlannedRepair, done: Restored | None) -> Iterator[Shown]:
    """What lies elsewhere and is not restored yet, what is left to a person first; then what was done."""
    restored = () if done is None else planned.of(Mend.RESTORE)
    listed = [each for each in planned.repairs if each not in restored]
    numbers = ("offset", "from partition", "at home")
    columns = ("group", "topic-partition", "what", *numbers, "why")
    table = Table(_titled("offsets elsewhere", listed), columns, numbers=numbers)
    for each in sorted(listed, key=lambda one: one.mend is Mend.RESTORE)[:_SHOWN]:
        chosen, what = each.chosen, styled(each.mend, _COLOUR[each.mend])
        cells = (number(chosen.offset), str(chosen.lies_at), number(chosen.at_home))
        table.add_row(chosen.group, f"{chosen.topic}-{chosen.partition}", what, *cells, each.reason)
    yield table
    if planned.against:
        yield styled(f"nothing may be committed: {planned.against}", "red")
    counts = ", ".join(f"{many:,} {mend}" for mend, many in planned.counts.items())
    yield f"offsets elsewhere: {counts}"
    if done is None:
        return
    yield from _outcome_parts(done, "restored")
    if done.erased:
        yield f"strays of {len(done.erased):,} groups have tombstones now"
    for group, why in islice(done.strays_left.items(), _SHOWN):
        yield styled(f"strays of {group} stay: {why}", "yellow")


def _titled(title: str, rows: Sequence[object]) -> str:
    """A title that says how many of its rows are shown."""
    more = f", the first {_SHOWN} of {len(rows):,}" if len(rows) > _SHOWN else ""
    return f"{title}{more} (--json has all)"


def following(planned: PlannedRepair, done: Restored | None) -> str:
    """Return what to do next, as a sentence with a command.

    Where strays were erased, now or before, brokers are to be restarted: an OLD coordinator keeps what it
    loaded until then."""
    if planned.against:
        return _LOOK
    waiting = done is not None and (done.differing or set(done.strays_left.values()) - {UNDECIDED})
    to_do = done is None and (planned.of(Mend.RESTORE) or (planned.old and _strays(planned)))
    if waiting or to_do:
        return "stop the members of these groups, then: groupshift repair placement --execute"
    if planned.of(Mend.CONFLICT):
        return "decide each conflict, and commit it with kafka-consumer-groups.sh --reset-offsets"
    if done is not None and done.erased:
        return f"restart every broker while clients are stopped, then: {_LOOK}"
    log = planned.audit.facts.log
    if not planned.old or log is None or log.erased_ms is None:
        return _LOOK
    since = f"restart brokers that run since before {utc(log.erased_ms)}"
    return f"{since} (they may answer what was erased then), then: {_LOOK}"


@app.command("epochs")
def epochs(
    *,
    groups: Groups = "",
    execute: Execute = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Find every commit whose leader epoch is not its partition's (a Java consumer then reads nothing, or
    goes back); with --execute write it again without an epoch, same offset and metadata, and read it back.

    Exit code 1: something is left to do, or was not read in full."""
    kafka = settings_at(bootstrap_servers, settings_file).kafka
    chosen = wanted("repair epochs", groups, every=not groups)
    with closing(group_snapshots(kafka, timeout_s=timeout)) as reader:
        planned, done = plan_epochs(reader, chosen), None
        if execute:
            with closing(offset_restoring(kafka, timeout_s=timeout)) as restoring:
                done = repair_epochs(planned, restoring, reader)
    data = {name: getattr(planned, name) for name in ("cluster_id", "offsets", "repairs")}
    data |= {"problems": [each.problem for each in planned.problems], **_outcome(done)}
    tell(data, _epochs_parts(planned, done), _next_of_epochs(planned, done, groups), as_json=as_json)
    return 0 if _epochs_clean(planned, done) else 1


def _epochs_clean(planned: EpochPlan, done: Restored | None) -> bool:
    """Whether all was read, and nothing is left to do."""
    to_do = planned.to_do if done is None else done.differing
    return not (planned.problems or planned.left or to_do)


def _epochs_parts(planned: EpochPlan, done: Restored | None) -> Iterator[Shown]:
    """Each commit with a foreign leader epoch, with what a Java consumer does there; then what was done."""
    numbers = ("offset", "epoch", "partition's")
    columns = ("group", "topic-partition", *numbers, "a Java consumer", "what")
    table = Table(_titled("foreign leader epochs", planned.repairs), columns, numbers=numbers)
    for each in planned.repairs[:_SHOWN]:
        row = each.row
        back = "goes back or stops" if each.end is None or each.end < 0 else f"goes back to {each.end:,}"
        then = "reads nothing" if each.stray is Stray.EPOCH_ABOVE else back
        what = f"left: {each.left}" if each.left else "write it again with epoch -1"
        cells = (number(row.offset), str(row.leader_epoch), str(each.current))
        table.add_row(row.group, f"{row.topic}-{row.partition}", *cells, then, what)
    yield table
    for problem in planned.problems[:_SHOWN]:
        yield styled(f"problem: {problem.problem}", "yellow")
    if done is not None:
        yield from _outcome_parts(done, "written again")
    yield (
        f"{planned.offsets:,} offsets: {len(planned.repairs):,} with a foreign leader epoch, "
        f"{len(planned.left):,} of them left alone"
    )


def _next_of_epochs(planned: EpochPlan, done: Restored | None, groups: str) -> str:
    """What to do next, for the same ``groups`` (empty: all) only."""
    again = command("groupshift", "repair", "epochs", *(("--groups", groups) if groups else ()))
    if done is None and planned.to_do:
        return f"{again} --execute"
    if planned.left or (done is not None and done.differing):
        return f"do what is said of those that are left, then: {again} --execute"
    if planned.problems:
        return f"correct what the problems name, then: {again}"
    return "start the consumers" if done is not None and done.equal else "groupshift audit --all"
