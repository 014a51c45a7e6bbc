"""A snapshot of all groups of a cluster: its tables, and what its manifest promises.

Layout: one folder with ``manifest.json`` and Parquet files, several to a table where it is large (a file
is the unit in which a comparison is resumed; a million rows is a good size)::

    {"version": 1, "cluster_id": "...", "taken_at_ms": 0, "unique_keys": true,
     "read_from": "kafka",                                # or zookeeper, in-force; absent: kafka
     "plan": {"migration": "...", "hash": "...", "made_at_ms": 0},       # null without a plan
     "files": [{"table": "offsets", "file": "offsets-00000.parquet", "rows": 0, "bytes": 0, "sha256": "..."}],
     "versions": {"groupshift": "0.1.0"}}

Only ``offsets`` must be there. A table or a nullable column that is absent on either side is not
compared, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.cluster_rows import ReadFrom
from groupshift.domain.evidence import Column, ColumnType, FileEntry, Table


def _column(name: str, type_: ColumnType = ColumnType.STRING, *, null: bool = False) -> Column:
    return Column(name=name, type=type_, nullable=null)


KEY = ("group", "topic", "partition")

_GROUP, _MEMBER, _TOPIC = _column("group"), _column("member_id"), _column("topic")
_PARTITION = _column("partition", ColumnType.INT)

CLUSTER_TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        # offset < 0 is "never committed" and the same as no row at all (§6.2).
        Table(
            name="offsets",
            columns=(
                _GROUP,
                _TOPIC,
                _PARTITION,
                _column("offset", ColumnType.LONG),
                _column("leader_epoch", ColumnType.INT, null=True),
                _column("metadata", null=True),
                _column("commit_timestamp_ms", ColumnType.LONG, null=True),
                _column("expire_timestamp_ms", ColumnType.LONG, null=True),
                _column("topic_id", null=True),
                _column("record_sha256", null=True),
            ),
            key=KEY,
        ),
        Table(
            name="groups",
            columns=(
                _GROUP,
                _column("type"),
                _column("state"),
                _column("protocol_type", null=True),
                _column("protocol", null=True),
                _column("generation", ColumnType.LONG, null=True),
                _column("assignment_epoch", ColumnType.LONG, null=True),
                _column("coordinator", ColumnType.INT, null=True),
            ),
            key=("group",),
        ),
        Table(
            name="members",
            columns=(
                _GROUP,
                _MEMBER,
                _column("client_id", null=True),
                _column("instance_id", null=True),
                _column("host", null=True),
                _column("member_epoch", ColumnType.INT, null=True),
                _column("member_type", null=True),
            ),
            key=("group", "member_id"),
        ),
        Table(
            name="subscriptions",
            columns=(_GROUP, _MEMBER, _TOPIC),
            key=("group", "member_id", "topic"),
        ),
        Table(
            name="assignments",
            columns=(_GROUP, _MEMBER, _TOPIC, _PARTITION),
            key=("group", "member_id", "topic", "partition"),
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
        # The brokers' view, and what could not be read: said, never compared.
        Table(
            name="brokers",
            columns=(
                _column("node_id", ColumnType.INT),
                _column("host"),
                _column("port", ColumnType.INT),
                _column("rack", null=True),
                _column("groups_listed", ColumnType.INT),
                _column("groups_coordinated", ColumnType.INT),
            ),
            key=("node_id",),
        ),
        Table(
            name="problems",
            columns=(_column("group", null=True), _column("problem")),
            key=("group", "problem"),
        ),
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
