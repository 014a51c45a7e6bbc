"""The tables, columns, keys and manifests of snapshots as data, shared by every writer and reader.

`SCHEMA` defines each column once, for every move; the tables of a stage's snapshot (`TABLES`) and those of a
cluster's (`CLUSTER_TABLES`) are selections. Writers, readers and Spark schemas are made from these; nothing
else names a column type. Layout on disk::

    <evidence>/<migration>/<stage>/<moment>/<table>.parquet + manifest.json
    <evidence>/<migration>/<stage>/validation/{verdict.json, differences.parquet, report.html}

A snapshot of all groups of a cluster is one folder with ``manifest.json`` and Parquet files, several to a
table where it is large (a file is the unit in which a comparison is resumed; a million rows is a good size)::

    {"version": 1, "cluster_id": "...", "taken_at_ms": 0, "unique_keys": true,
     "read_from": "kafka",                                # or zookeeper, in-force; absent: kafka
     "plan": {"migration": "...", "hash": "...", "made_at_ms": 0},       # null without a plan
     "files": [{"table": "offsets", "file": "offsets-00000.parquet", "rows": 0, "bytes": 0, "sha256": "..."}],
     "versions": {"groupshift": "0.1.0"}}

Only ``offsets`` must be there. A table or a nullable column that is absent on either side is not
compared, and the verdict says so. A snapshot belongs to a plan if it was taken after the plan was made, and
for no other plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from groupshift.domain.foreign_json import shown_value, whole_number
from groupshift.domain.rows import ReadFrom
from groupshift.errors import Rejected


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


_INT, _LONG = ColumnType.INT, ColumnType.LONG
_GROUP, _MEMBER, _TOPIC = _column("group"), _column("member_id"), _column("topic")
_PARTITION, _STORE = _column("partition", _INT), _column("store")
_SESSION = _column("session_id", _LONG, null=True)

SCHEMA: Mapping[str, tuple[Column, ...]] = {
    "groups": (
        _GROUP,
        _column("taken_at_ms", _LONG),
        _column("type"),
        _column("state"),
        _column("protocol_type", null=True),
        _column("protocol", null=True),
        _column("generation", _LONG, null=True),
        _column("assignment_epoch", _LONG, null=True),
        _column("coordinator", _INT, null=True),
        _column("mode_text", null=True),
        _column("mode_version", _INT),
        _column("mode_identity"),
        _column("effective_mode"),
        _column("kafka_state"),
    ),
    "members": (
        _GROUP,
        _MEMBER,
        _column("kind"),
        _column("client_id", null=True),
        _column("instance_id", null=True),
        _column("host", null=True),
        _column("member_epoch", _INT, null=True),
        _column("member_type", null=True),
        _column("pattern"),
        _column("fence", _INT, null=True),
        _column("mode", null=True),
        _column("acting_on", null=True),
        _column("version", null=True),
        _SESSION,
    ),
    "subscriptions": (_GROUP, _MEMBER, _TOPIC, _column("streams", _INT)),
    "assignments": (
        _GROUP,
        _MEMBER,
        _TOPIC,
        _PARTITION,
        _STORE,
        _column("thread_id", null=True),
        _column("czxid", _LONG, null=True),
        _SESSION,
    ),
    # offset < 0 is "never committed" and the same as no row at all (group-coordinator.md §6.2).
    "offsets": (
        _GROUP,
        _TOPIC,
        _PARTITION,
        _STORE,
        _column("offset", _LONG),
        _column("leader_epoch", _INT, null=True),
        _column("metadata", null=True),
        _column("commit_timestamp_ms", _LONG, null=True),
        _column("expire_timestamp_ms", _LONG, null=True),
        _column("topic_id", null=True),
        _column("record_sha256", null=True),
    ),
    "log_ends": (_TOPIC, _PARTITION, _column("log_start", _LONG), _column("log_end", _LONG)),
    # The highest offset any member reported as delivered; absent partitions: never delivered.
    "ledger": (_TOPIC, _PARTITION, _column("last_delivered", _LONG)),
    # The brokers' view, and what could not be read: said, never compared.
    "brokers": (
        _column("node_id", _INT),
        _column("host"),
        _column("port", _INT),
        _column("rack", null=True),
        _column("groups_listed", _INT),
        _column("groups_coordinated", _INT),
    ),
    "problems": (_column("group", null=True), _column("problem")),
}
"""Every column of every snapshot, of any move: the one place where its name, type and nullability stand. A
kind of snapshot is a selection of these (`part`)."""


def part(
    of: str,
    columns: str = "",
    *,
    key: str,
    name: str = "",
    required: str = "",
) -> Table:
    """A table with these ``columns`` of `SCHEMA`'s table ``of``, in this order (names with blanks between
    them; none: all), called ``name`` (none: as there); ``required`` ones may not be null here."""
    known = {column.name: column for column in SCHEMA[of]}
    needed = required.split()
    chosen = (known[each] for each in (columns.split() or known))
    return Table(
        name=name or of,
        columns=tuple(replace(each, nullable=False) if each.name in needed else each for each in chosen),
        key=tuple(key.split()),
    )


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        part(
            "groups",
            "group taken_at_ms mode_text mode_version mode_identity effective_mode kafka_state",
            key="group",
            name="group",
        ),
        part(
            "members",
            "member_id kind client_id host pattern fence mode acting_on version session_id",
            key="member_id",
        ),
        part("subscriptions", "member_id topic streams", key="member_id topic"),
        part(
            "assignments",
            "topic partition store member_id thread_id czxid session_id",
            key="topic partition",
            name="owners",
        ),
        part(
            "offsets",
            "topic partition store offset metadata",
            key="topic partition store",
            required="metadata",
        ),
        part("log_ends", key="topic partition"),
        part("ledger", key="topic partition"),
    )
}
"""Every table of a stage's snapshot, of one group, by name. ``owners`` holds what is in force: in both modes
the owner nodes (F1: they always name the real consumer), plus the Kafka assignment of plain members."""

MANIFEST = "manifest.json"

FORM = 1
"""The form of snapshots that is written now, as manifests name it: tables, columns and types as above. A
change of what is written raises it; older forms stay readable."""

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


_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""


def file_entry(data: Mapping[str, Any]) -> FileEntry:
    """An entry of a manifest that somebody else may have written. Raises `Rejected` or `KeyError`."""
    for name in ("table", "file", "sha256"):
        if not isinstance(data[name], str):
            raise Rejected(f"it: {name} is {shown_value(data[name])}, no text")
    return FileEntry(
        table=data["table"],
        file=data["file"],
        rows=whole_number(data["rows"], "it: rows"),
        bytes=whole_number(data["bytes"], "it: bytes"),
        sha256=data["sha256"],
    )


def instant(value: object) -> int:
    """A time in epoch milliseconds from such a manifest. Raises `Rejected`."""
    return whole_number(value, "it: taken_at_ms", high=_LATEST_MS)


def refuse_newer(where: str, form: int) -> None:
    """Raise `Rejected` for a snapshot that a newer release wrote in a form that is not known here."""
    if form > FORM:
        raise Rejected(
            f"{where} is of form {form}, this release reads forms up to {FORM}: use the release that "
            "wrote it, or a newer one"
        )


KEY = ("group", "topic", "partition")

CLUSTER_TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        part(
            "offsets",
            "group topic partition offset leader_epoch metadata commit_timestamp_ms expire_timestamp_ms "
            "topic_id record_sha256",
            key="group topic partition",
        ),
        part(
            "groups",
            "group type state protocol_type protocol generation assignment_epoch coordinator",
            key="group",
        ),
        part(
            "members",
            "group member_id client_id instance_id host member_epoch member_type",
            key="group member_id",
        ),
        part("subscriptions", "group member_id topic", key="group member_id topic"),
        part("assignments", "group member_id topic partition", key="group member_id topic partition"),
        part("log_ends", key="topic partition"),
        part("brokers", key="node_id"),
        part("problems", key="group problem"),
    )
}
"""Every table of a cluster snapshot, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterManifest:
    """What a cluster snapshot holds. ``digest`` is the SHA-256 of the manifest's bytes; ``unique_keys``
    is the writer's word that it saw every key once; ``plan_made_at_ms`` is None without a plan,
    ``migration`` then empty."""

    cluster_id: str
    taken_at_ms: int
    digest: str
    files: tuple[FileEntry, ...]
    unique_keys: bool = False
    read_from: ReadFrom = ReadFrom.KAFKA
    migration: str = ""
    plan_hash: str = ""
    plan_made_at_ms: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    def of_table(self, name: str) -> tuple[FileEntry, ...]:
        """The files of one table, in their order."""
        return tuple(entry for entry in self.files if entry.table == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOf:
    """The plan of a migration as the journal keeps it: its SHA-256, and when it was made (epoch ms)."""

    migration: str
    hash: str
    made_at_ms: int


def refuse_older(what: str, taken_at_ms: int, plan: PlanOf) -> None:
    """Raise `Rejected` when ``what`` (the beginning of the sentence) was taken before its plan was made."""
    if taken_at_ms < plan.made_at_ms:
        raise Rejected(
            f"{what} was taken at {clock(taken_at_ms)}, before its plan of {clock(plan.made_at_ms)} "
            f"(run {plan.migration}) was made: it says nothing about this move; take it again"
        )


def refuse_other(what: str, manifest: ClusterManifest, plan: PlanOf) -> None:
    """As `refuse_older`, and when the snapshot says that it was taken for another plan."""
    refuse_older(what, manifest.taken_at_ms, plan)
    if manifest.plan_hash and manifest.plan_hash != plan.hash:
        raise Rejected(
            f"{what} was taken for the plan {manifest.plan_hash[:12]}… of migration "
            f"{manifest.migration or '?'}, that of migration {plan.migration} is {plan.hash[:12]}…: "
            "name the snapshots of this migration"
        )


def refuse_mixed(before: ClusterManifest, after: ClusterManifest) -> None:
    """Raise `Rejected` when two snapshots say that they were taken for two plans."""
    if before.plan_hash and after.plan_hash and before.plan_hash != after.plan_hash:
        raise Rejected(
            f"the snapshots were taken for two plans ({before.plan_hash[:12]}… of migration "
            f"{before.migration or '?'}, {after.plan_hash[:12]}… of {after.migration or '?'}): "
            "compare two of one migration"
        )


def clock(at_ms: int) -> str:
    """A time as a person reads it."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
