"""What a snapshot consists of: tables, columns and keys as data, shared by every writer and reader.

The Parquet adapter and the Spark schemas are both derived from `TABLES`; nothing else names a
column type. Layout on disk (architecture.md, "How data flows" 4)::

    <evidence>/<migration>/<stage>/<moment>/<table>.parquet + manifest.json
    <evidence>/<migration>/<stage>/validation/{verdict.json, differences.parquet, report.html}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ColumnType(StrEnum):
    """The closed set of column types a snapshot may use."""

    STRING = "string"
    INT = "int32"
    LONG = "int64"
    BOOL = "bool"


class Moment(StrEnum):
    """When a snapshot of a stage was taken."""

    BEFORE = "before"
    AFTER = "after"


class Store(StrEnum):
    """Where a committed offset or an owner was read from."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: name, type, and whether null is allowed."""

    name: str
    type: ColumnType
    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a snapshot; ``key`` names the columns that are unique together."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


def _column(name: str, type_: ColumnType = ColumnType.STRING, *, null: bool = False) -> Column:
    return Column(name=name, type=type_, nullable=null)


_TOPIC = _column("topic")
_PARTITION = _column("partition", ColumnType.INT)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="group",
            columns=(
                _column("group"),
                _column("taken_at_ms", ColumnType.LONG),
                _column("mode_text", null=True),
                _column("mode_version", ColumnType.INT),
                _column("mode_identity"),
                _column("effective_mode"),
                _column("kafka_state"),
            ),
            key=("group",),
        ),
        Table(
            name="members",
            columns=(
                _column("member_id"),
                _column("kind"),
                _column("client_id", null=True),
                _column("host", null=True),
                _column("pattern"),
                _column("fence", ColumnType.INT, null=True),
                _column("mode", null=True),
                _column("acting_on", null=True),
                _column("version", null=True),
                _column("session_id", ColumnType.LONG, null=True),
            ),
            key=("member_id",),
        ),
        Table(
            name="subscriptions",
            columns=(_column("member_id"), _column("topic"), _column("streams", ColumnType.INT)),
            key=("member_id", "topic"),
        ),
        Table(
            name="owners",
            columns=(
                _TOPIC,
                _PARTITION,
                _column("store"),
                _column("member_id"),
                _column("thread_id", null=True),
                _column("czxid", ColumnType.LONG, null=True),
                _column("session_id", ColumnType.LONG, null=True),
            ),
            key=("topic", "partition"),
        ),
        Table(
            name="offsets",
            columns=(
                _TOPIC,
                _PARTITION,
                _column("store"),
                _column("offset", ColumnType.LONG),
                _column("metadata"),
            ),
            key=("topic", "partition", "store"),
        ),
        Table(
            name="log_ends",
            columns=(
                _TOPIC,
                _PARTITION,
                _column("log_start", ColumnType.LONG),
                _column("log_end", ColumnType.LONG),
            ),
            key=("topic", "partition"),
        ),
        # The highest offset any member reported as delivered; absent partitions: never delivered.
        Table(
            name="ledger",
            columns=(_TOPIC, _PARTITION, _column("last_delivered", ColumnType.LONG)),
            key=("topic", "partition"),
        ),
    )
}
"""Every table of a snapshot, by name. ``owners`` holds what is in force: in both modes the owner
nodes (F1: they always name the real consumer), plus the Kafka assignment of plain members."""

MANIFEST = "manifest.json"

Value = str | int | bool | None
Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a manifest: rows, size in bytes and SHA-256 of the file's bytes."""

    table: str
    file: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``manifest.json``: what a snapshot holds. ``digest`` is the SHA-256 of the manifest itself."""

    migration: str
    stage: str
    moment: Moment
    taken_at_ms: int
    digest: str
    files: tuple[FileEntry, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
