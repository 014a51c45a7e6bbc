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
from groupshift.domain.evidence import FileEntry, Table, part

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
