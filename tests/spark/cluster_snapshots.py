"""Literal cluster snapshots for the tests of equality: few groups, written as a real folder with manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupshift.domain.evidence import MANIFEST
from groupshift.domain.snapshot import CLUSTER_TABLES, ColumnType

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]

TAKEN_MS = 1_763_740_000_000
_ARROW = {ColumnType.STRING: pa.string(), ColumnType.INT: pa.int32(), ColumnType.LONG: pa.int64()}


def commit(group: str, partition: int, offset: int, **other: Any) -> dict[str, Any]:
    """One row of ``offsets``, of topic ``orders`` unless told otherwise."""
    usual = {"topic": "orders", "leader_epoch": 3, "metadata": "", "commit_timestamp_ms": TAKEN_MS}
    return {**usual, "group": group, "partition": partition, "offset": offset, **other}


def commits(groups: int = 4, partitions: int = 8) -> Rows:
    """Offsets of some groups on all partitions of ``orders``."""
    return [
        commit(f"group-{number}", at, 100 + 10 * number + at)
        for number in range(groups)
        for at in range(partitions)
    ]


def one_group(**changes: Any) -> Tables:
    """A sound group ``payments`` with two members on four partitions; ``changes`` replace tables."""
    members = [
        {"group": "payments", "member_id": f"m{n}", "client_id": f"c{n}", "instance_id": f"i{n}"}
        for n in (1, 2)
    ]
    tables: Tables = {
        "offsets": [commit("payments", at, 50 + at) for at in range(4)],
        "groups": [
            {
                "group": "payments",
                "type": "classic",
                "state": "Stable",
                "protocol_type": "consumer",
                "protocol": "range",
                "generation": 7,
            }
        ],
        "members": members,
        "subscriptions": [{"group": "payments", "member_id": f"m{n}", "topic": "orders"} for n in (1, 2)],
        "assignments": [
            {"group": "payments", "member_id": f"m{1 + at % 2}", "topic": "orders", "partition": at}
            for at in range(4)
        ],
        "log_ends": [
            {"topic": "orders", "partition": at, "log_start": 10, "log_end": 100} for at in range(4)
        ],
    }
    return {**tables, **changes}


def write(
    folder: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]], *, files: int = 1, **manifest: Any
) -> Path:
    """Write the tables (``offsets`` in so many files) and the manifest; ``manifest`` replaces its keys."""
    folder.mkdir(parents=True)
    entries = []
    for name, rows in tables.items():
        given = {key for row in rows for key in row}
        schema = pa.schema(
            [
                pa.field(c.name, _ARROW[c.type])
                for c in CLUSTER_TABLES[name].columns
                if c.name in given or not c.nullable
            ]
        )
        count = files if name == "offsets" else 1
        size = max(1, -(-len(rows) // count))
        for number in range(count):
            part = [dict(row) for row in rows[number * size : (number + 1) * size]]
            path = folder / f"{name}-{number:05d}.parquet"
            pq.write_table(pa.Table.from_pylist(part, schema=schema), path)
            entries.append(entry(name, path, len(part)))
    document = {
        "version": 1,
        "cluster_id": "cluster-a",
        "taken_at_ms": TAKEN_MS,
        "unique_keys": True,
        "files": entries,
        **manifest,
    }
    (folder / MANIFEST).write_text(json.dumps(document))
    return folder


def entry(table: str, path: Path, rows: int) -> dict[str, Any]:
    """A file as a manifest names it."""
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return {"table": table, "file": path.name, "rows": rows, "bytes": len(data), "sha256": digest}
