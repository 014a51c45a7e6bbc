"""``groupshift snapshot``: all groups of a Kafka cluster, or some, as a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from groupshift.application.snapshot_cluster import snapshot_cluster
from groupshift.bootstrap.snapshots import cluster_snapshot_store, group_snapshots
from groupshift.cli import render
from groupshift.cli.clusters import Groups, Servers, Timeout, one_cluster, shown, wanted
from groupshift.cli.session import Json, SettingsFile, settings
from groupshift.domain.cluster_rows import ClusterState
from groupshift.domain.cluster_snapshot import ClusterManifest
from groupshift.settings import KafkaSettings

_SHOWN = 20

All = Annotated[bool, typer.Option("--all", help="Every group that a broker lists.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="A new folder.", show_default=False)]


def snapshot(  # noqa: PLR0913 - the options of a verb
    *,
    output: Output,
    groups: Groups = "",
    every: All = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Snapshot groups, members, assignments, stable committed offsets and log ends; nothing is changed.

    Exit code 1: the snapshot was written, but something could not be read (table problems)."""
    chosen = wanted("snapshot", groups, every=every)
    reader = group_snapshots(_kafka(bootstrap_servers, settings_file), timeout_s=timeout)
    try:
        with shown(Console(stderr=True)) as progress:
            state, manifest = snapshot_cluster(
                reader, cluster_snapshot_store(), output, chosen, progress=progress
            )
    finally:
        reader.close()
    following = f"groupshift compare {output} LATER --move MOVE"
    if as_json:
        render.print_json({**_summary(state, manifest), "output": str(output), "next": following})
    else:
        _show(Console(), state, output)
        render.next_command(Console(), following)
    return 1 if state.problems else 0


def _kafka(bootstrap_servers: str, settings_file: Path | None) -> KafkaSettings:
    one_cluster(bootstrap_servers, settings_file)
    if bootstrap_servers:
        return KafkaSettings(bootstrap_servers=bootstrap_servers)
    return settings(settings_file).kafka


def _summary(state: ClusterState, manifest: ClusterManifest) -> dict[str, Any]:
    return {
        "cluster_id": state.cluster_id,
        "taken_at_ms": state.taken_at_ms,
        "manifest_sha256": manifest.digest,
        "requests": state.requests,
        "rows": {name: len(rows) for name, rows in state.tables().items()},
        "problems": [row.problem for row in state.problems],
    }


def _show(console: Console, state: ClusterState, output: Path) -> None:
    table = Table(title=f"snapshot of cluster {state.cluster_id}", title_justify="left")
    table.add_column("table")
    table.add_column("rows", justify="right")
    for name, rows in state.tables().items():
        table.add_row(name, f"{len(rows):,}")
    console.print(table)
    for row in state.problems[:_SHOWN]:
        console.print(escape(f"problem: {row.problem}"), style="yellow", soft_wrap=True)
    if len(state.problems) > _SHOWN:
        console.print(f"… and {len(state.problems) - _SHOWN:,} more in table problems", style="yellow")
    console.print(escape(f"{output}: written in {state.requests:,} requests"), soft_wrap=True)
