"""``groupshift snapshot``: all groups of a cluster or an ensemble, or some, as a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.bootstrap.connect import cluster_snapshot_store, ensemble_snapshots, group_snapshots
from groupshift.bootstrap.moves import plan_of
from groupshift.cli import output as render
from groupshift.cli.options import (
    Bound,
    Ensemble,
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
from groupshift.cli.terminal import Console, Table
from groupshift.domain.evidence import Manifest, PlanOf
from groupshift.domain.foreign_text import shell, visible
from groupshift.domain.rows import GONE, ClusterState, ReadFrom
from groupshift.engine.snapshots import snapshot_cluster
from groupshift.errors import Rejected
from groupshift.ports.cluster import GroupSnapshots
from groupshift.settings import KafkaSettings, ZookeeperSettings

_SHOWN = 20

All = Annotated[bool, typer.Option("--all", help="Every group that a broker lists.")]
Store = Annotated[
    ReadFrom,
    typer.Option("--read-from", help="Where groups are read; in-force: each from whoever coordinates it."),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="A new folder.", show_default=False)]


def snapshot(  # noqa: PLR0913 - the options of a verb
    *,
    output: Output,
    groups: Groups = "",
    every: All = False,
    read_from: Store = ReadFrom.KAFKA,
    bootstrap_servers: Servers = "",
    zookeeper: Ensemble = "",
    run: Bound = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Snapshot groups, members, assignments, stable committed offsets and log ends; nothing is changed.

    Exit code 1: the snapshot was written, but something could not be read (table problems)."""
    if bootstrap_servers and run:
        raise Rejected("--run reads the journal of the settings: leave out --bootstrap-servers")
    group, plan = _plan(run, settings_file, output)
    chosen = [group] if group and not groups and not every else wanted("snapshot", groups, every=every)
    kafka, nodes = _where(bootstrap_servers, zookeeper, settings_file, read_from)
    reader = _reader(kafka, nodes, read_from, timeout)
    try:
        with shown(Console(stderr=True)) as progress:
            state, manifest = snapshot_cluster(
                reader, cluster_snapshot_store(), output, chosen, plan=plan, progress=progress
            )
    finally:
        reader.close()
    following = f"groupshift compare {shell(str(output))} LATER --move MOVE"
    if as_json:
        render.print_json({**_summary(state, manifest), "output": str(output), "next": following})
    else:
        _show(Console(), state, output)
        render.next_command(Console(), following)
    return 1 if any(not row.of_leftover for row in state.problems) else 0


def _plan(run: str, settings_file: Path | None, output: Path) -> tuple[str, PlanOf | None]:
    """Return the group and the plan of a run; nothing without one."""
    return plan_of(settings(settings_file), run, output) if run else ("", None)


def _where(
    bootstrap_servers: str, zookeeper: str, settings_file: Path | None, read_from: ReadFrom
) -> tuple[KafkaSettings, ZookeeperSettings | None]:
    """Whom to ask; ZooKeeper only where groups are read there."""
    one_cluster(bootstrap_servers, settings_file)
    if zookeeper and (not bootstrap_servers or read_from is ReadFrom.KAFKA):
        raise Rejected(
            "--zookeeper goes with --bootstrap-servers and --read-from zookeeper or in-force; "
            "the settings file names its own"
        )
    if not bootstrap_servers:
        found = settings(settings_file)
        return found.kafka, None if read_from is ReadFrom.KAFKA else found.zookeeper
    if read_from is not ReadFrom.KAFKA and not zookeeper:
        raise Rejected(f"--read-from {read_from} needs --zookeeper HOST:PORT, or a settings file")
    return KafkaSettings(bootstrap_servers=bootstrap_servers), ensemble(zookeeper) if zookeeper else None


def _reader(
    kafka: KafkaSettings, zookeeper: ZookeeperSettings | None, read_from: ReadFrom, timeout_s: float
) -> GroupSnapshots:
    if zookeeper is None:
        return group_snapshots(kafka, timeout_s=timeout_s)
    return ensemble_snapshots(kafka, zookeeper, read_from, timeout_s=timeout_s)


def _summary(state: ClusterState, manifest: Manifest) -> dict[str, Any]:
    return {
        "cluster_id": state.cluster_id,
        "read_from": state.read_from,
        "taken_at_ms": state.taken_at_ms,
        "manifest_sha256": manifest.digest,
        "requests": state.requests,
        "rows": {name: len(rows) for name, rows in state.tables().items()},
        "problems": [row.problem for row in state.problems],
        "unknown_groups": _unknown(state),
    }


def _unknown(state: ClusterState) -> list[str]:
    return [row.group for row in state.groups if row.state == GONE]


def _show(console: Console, state: ClusterState, output: Path) -> None:
    table = Table(f"snapshot of cluster {state.cluster_id}", ("table", "rows"), numbers=("rows",))
    for name, rows in state.tables().items():
        table.add_row(name, f"{len(rows):,}")
    console.print(table)
    in_zookeeper = sum(row.type == ReadFrom.ZOOKEEPER for row in state.groups)
    if in_zookeeper:
        console.print(
            f"a snapshot holds offsets but no members of groups read in ZooKeeper ({in_zookeeper:,} here); "
            "members of one: groupshift coordination assess --group GROUP"
        )
    for group in _unknown(state)[:_SHOWN]:
        console.print(f"group '{visible(group)}': its coordinator does not know it", style="yellow")
    for row in state.problems[:_SHOWN]:
        word = "left over" if row.of_leftover else "problem"
        console.print(f"{word}: {row.problem}", style="yellow")
    if len(state.problems) > _SHOWN:
        console.print(f"… and {len(state.problems) - _SHOWN:,} more in table problems", style="yellow")
    console.print(f"{output}: written in {state.requests:,} requests")
