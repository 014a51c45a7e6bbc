"""``groupshift snapshot``: all groups of a cluster or an ensemble, or some, as a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from groupshift.bootstrap.connect import cluster_snapshot_store, ensemble_snapshots, group_snapshots
from groupshift.bootstrap.moves import plan_of
from groupshift.cli import output_and_next_command as render
from groupshift.cli.options import (
    Bound,
    Ensemble,
    Groups,
    Json,
    Servers,
    SettingsFile,
    Timeout,
    option,
    settings,
    settings_at,
    shown,
    wanted,
)
from groupshift.cli.terminal import Table, styled
from groupshift.domain.evidence import refuse_older
from groupshift.domain.foreign_text_quoting import shell, visible
from groupshift.domain.rows import GONE, ClusterState, ReadFrom
from groupshift.errors import Rejected
from groupshift.ports.cluster import GroupSnapshots

_SHOWN = 20
_READ_FROM = "Where groups are read; in-force: each from whoever coordinates it."


def snapshot(  # noqa: PLR0913 - the options of a verb
    *,
    output: Annotated[Path, option("--output", "A new folder.", "-o")],
    groups: Groups = "",
    every: Annotated[bool, typer.Option("--all", help="Every group that a broker lists.")] = False,
    read_from: Annotated[ReadFrom, typer.Option("--read-from", help=_READ_FROM)] = ReadFrom.KAFKA,
    bootstrap_servers: Servers = "",
    zookeeper: Ensemble = "",
    run: Bound = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Snapshot groups, members, assignments, offsets.

    Those are the stable committed offsets; log ends come with them, and nothing is changed. Exit code 1: the
    snapshot was written, but something could not be read (table problems)."""
    if bootstrap_servers and run:
        raise Rejected("--run reads the journal of the settings: leave out --bootstrap-servers")
    if zookeeper and read_from is ReadFrom.KAFKA:
        raise Rejected("--zookeeper goes with --read-from zookeeper or in-force: leave it out")
    if bootstrap_servers and read_from is not ReadFrom.KAFKA and not zookeeper:
        raise Rejected(f"--read-from {read_from} needs --zookeeper HOST:PORT, or a settings file")
    group, plan = plan_of(settings(settings_file), run, output) if run else ("", None)
    chosen = [group] if group and not groups and not every else wanted("snapshot", groups, every=every)
    where = settings_at(bootstrap_servers, settings_file, zookeeper)
    reader: GroupSnapshots
    if read_from is ReadFrom.KAFKA:
        reader = group_snapshots(where.kafka, timeout_s=timeout)
    else:
        reader = ensemble_snapshots(where.kafka, where.zookeeper, read_from, timeout_s=timeout)
    with closing(reader), shown() as progress:
        store = cluster_snapshot_store()
        store.refuse(output)
        state = reader.take(chosen, progress=progress)
        if plan is not None:
            refuse_older(f"snapshot {output}", state.taken_at_ms, plan)
        manifest = store.write(output, state, plan)
    data = {
        "cluster_id": state.cluster_id,
        "read_from": state.read_from,
        "taken_at_ms": state.taken_at_ms,
        "manifest_sha256": manifest.digest,
        "requests": state.requests,
        "rows": {name: len(rows) for name, rows in state.tables().items()},
        "problems": [row.problem for row in state.problems],
        "unknown_groups": _unknown(state),
        "output": str(output),
    }
    following = f"groupshift compare {shell(str(output))} LATER --move MOVE"
    render.tell(data, _parts(state, output), following, as_json=as_json)
    return 1 if any(not row.of_leftover for row in state.problems) else 0


def _unknown(state: ClusterState) -> list[str]:
    """Groups that their coordinator does not know."""
    return [row.group for row in state.groups if row.state == GONE]


def _parts(state: ClusterState, output: Path) -> Iterator[render.Shown]:
    """How many rows each table has, what of a snapshot is not told here, and what could not be read."""
    counts = ((name, f"{len(rows):,}") for name, rows in state.tables().items())
    yield Table(f"snapshot of cluster {state.cluster_id}", ("table", "rows"), counts, numbers=("rows",))
    if in_zookeeper := sum(row.type == ReadFrom.ZOOKEEPER for row in state.groups):
        yield (
            f"a snapshot holds offsets but no members of groups read in ZooKeeper ({in_zookeeper:,} here); "
            "members of one: groupshift coordination assess --group GROUP"
        )
    for group in _unknown(state)[:_SHOWN]:
        yield styled(f"group '{visible(group)}': its coordinator does not know it", "yellow")
    for row in state.problems[:_SHOWN]:
        yield styled(f"{'left over' if row.of_leftover else 'problem'}: {row.problem}", "yellow")
    if len(state.problems) > _SHOWN:
        yield styled(f"… and {len(state.problems) - _SHOWN:,} more in table problems", "yellow")
    yield f"{output}: written in {state.requests:,} requests"
