"""Literal snapshots of one small group: 3 members, 6 partitions of ``orders``, for the Spark tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.parquet.store import schema_of
from groupshift.domain.evidence import MANIFEST, Moment
from groupshift.domain.modes import MemberKind
from groupshift.domain.phase_rules import AllowedChanges
from groupshift.domain.plan import PhaseName
from groupshift.domain.snapshot import TABLES, ColumnType

Rows = list[dict[str, Any]]
Snapshot = dict[str, Rows]

_SQL = {
    ColumnType.STRING: "STRING",
    ColumnType.INT: "INT",
    ColumnType.LONG: "BIGINT",
    ColumnType.BOOL: "BOOLEAN",
}

GROUP, RUN = "payments", "run-1"
TAKEN_MS = 1_763_740_000_000
PARTITIONS = range(6)


def member(name: str, kind: str = "old", mode: str | None = None) -> dict[str, Any]:
    """One row of ``members``."""
    aware = kind == "aware"
    return {
        "member_id": f"{GROUP}_{name}",
        "kind": kind,
        "client_id": f"{GROUP}_{name}" if kind != "old" else None,
        "host": "127.0.0.1",
        "pattern": "static",
        "fence": 1 if aware else None,
        "mode": mode,
        "acting_on": "-1:-1" if aware else None,
        "version": "0.1.0" if aware else None,
        "session_id": 7,
    }


def owner(partition: int, name: str, store: str = "zookeeper") -> dict[str, Any]:
    """One row of ``owners``."""
    return {
        "topic": "orders",
        "partition": partition,
        "store": store,
        "member_id": f"{GROUP}_{name}",
        "thread_id": f"{GROUP}_{name}-0" if store == "zookeeper" else None,
        "czxid": 100 + partition,
        "session_id": 7,
    }


def offset(partition: int, value: int, store: str = "zookeeper", metadata: str = "") -> dict[str, Any]:
    """One row of ``offsets``."""
    return {
        "topic": "orders",
        "partition": partition,
        "store": store,
        "offset": value,
        "metadata": metadata,
    }


def snapshot(members: Sequence[Mapping[str, Any]], base: int = 500, *, kafka: bool = False) -> Snapshot:
    """A sound snapshot: `members` own the six partitions in turn, offsets at ``base + 10 * partition``.

    With ``kafka`` the mode node says kafka and both stores hold the offsets."""
    names = [str(one["member_id"]).removeprefix(f"{GROUP}_") for one in members]
    stores = ("zookeeper", "kafka") if kafka else ("zookeeper",)
    return {
        "group": [
            {
                "group": GROUP,
                "taken_at_ms": TAKEN_MS + base,
                "mode_text": "kafka" if kafka else None,
                "mode_version": 0 if kafka else -1,
                "mode_identity": "90:90" if kafka else "-1:-1",
                "effective_mode": "kafka" if kafka else "zookeeper",
                "kafka_state": "Stable" if kafka else "Empty",
            }
        ],
        "members": [dict(one) for one in members],
        "subscriptions": [
            {"member_id": one["member_id"], "topic": "orders", "streams": 1} for one in members
        ],
        "owners": [owner(number, names[number * len(names) // 6]) for number in PARTITIONS],
        "offsets": [offset(number, base + 10 * number, store) for number in PARTITIONS for store in stores],
        "log_ends": [
            {"topic": "orders", "partition": number, "log_start": 0, "log_end": base + 10 * number + 5}
            for number in PARTITIONS
        ],
        "ledger": [
            {"topic": "orders", "partition": number, "last_delivered": base + 10 * number + 2}
            for number in PARTITIONS
        ],
    }


OLD_THREE = tuple(member(f"m{number}-1") for number in (1, 2, 3))
CANARY = (*OLD_THREE[:2], member("m3-2", "aware", "zookeeper"))
AWARE_ZOOKEEPER = tuple(member(f"m{number}-2", "aware", "zookeeper") for number in (1, 2, 3))
AWARE_KAFKA = tuple(member(f"m{number}-2", "aware", "kafka") for number in (1, 2, 3))


def canary_rules() -> AllowedChanges:
    """One old member became an aware one."""
    return AllowedChanges(
        phase=PhaseName.CANARY,
        moment=Moment.AFTER,
        kafka_mode=False,
        gap=40,
        replaced=1,
        old=MemberKind.ZOOKEEPER,
        new=MemberKind.AWARE,
    )


def toggle_rules() -> AllowedChanges:
    """The mode node became ``kafka``; nobody was replaced."""
    return AllowedChanges(
        phase=PhaseName.TOGGLE, moment=Moment.AFTER, kafka_mode=True, gap=40, mode_text="kafka"
    )


def frame(spark: SparkSession, table: str, rows: Rows) -> DataFrame:
    """Literal rows as a frame of the table's schema (a local relation: no job is needed to read it)."""
    columns = TABLES[table].columns
    names = ", ".join(f"`{column.name}`" for column in columns)
    wanted = ", ".join(
        f"CAST(`{column.name}` AS {_SQL[column.type]}) AS `{column.name}`" for column in columns
    )
    values = rows or [dict.fromkeys((column.name for column in columns), None)]
    literals = ("(" + ", ".join(_literal(row[column.name]) for column in columns) + ")" for row in values)
    text = f"SELECT {wanted} FROM VALUES {', '.join(literals)} AS literal({names})"
    return spark.sql(text if rows else f"{text} WHERE false")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def store(root: Path, phase: str, moment: Moment, tables: Snapshot, *, taken_at_ms: int = TAKEN_MS) -> Path:
    """Write through the real evidence store; returns the snapshot's folder."""
    evidence = ParquetEvidence(root)
    evidence.write((RUN, phase, moment), taken_at_ms, tables)
    return Path(evidence.path(RUN, phase, moment.value))


def tamper(folder: Path, table: str, rows: Rows) -> None:
    """Put other rows into one table and re-hash the manifest, as someone who covers the traces would."""
    path = folder / f"{table}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema_of(TABLES[table])), path)
    manifest = json.loads((folder / MANIFEST).read_text())
    for entry in manifest["files"]:
        if entry["table"] == table:
            data = path.read_bytes()
            entry |= {"rows": len(rows), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest))
