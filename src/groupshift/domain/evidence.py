"""The manifests of snapshots as data, shared by every writer and reader.

The tables are in `groupshift.domain.snapshot`. Layout on disk::

    <evidence>/<run>/<phase>/<moment>/<table>.parquet + manifest.json
    <evidence>/<run>/<comparison>/{verdict.json, differences.parquet, report.html}

A snapshot of all groups of a cluster is one folder with ``manifest.json`` and Parquet files, several to a
table where it is large (a file is the unit in which a comparison is resumed; a million rows is a good size)::

    {"version": 1, "cluster_id": "...", "taken_at_ms": 0, "unique_keys": true,
     "read_from": "kafka",                                # or zookeeper, in-force; absent: kafka
     "plan": {"run": "...", "hash": "...", "made_at_ms": 0},       # null without a plan
     "files": [{"table": "offsets", "file": "offsets-00000.parquet", "rows": 0, "bytes": 0, "sha256": "..."}],
     "versions": {"groupshift": "0.1.0"}}

Only ``offsets`` must be there. A table or a nullable column that is absent on either side is not
compared, and the verdict says so. A snapshot belongs to a plan if it was taken after the plan was made, and
for no other plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from groupshift.domain.foreign_json import FILE_BYTES, load_object, whole_number
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plain import built
from groupshift.domain.rows import ReadFrom
from groupshift.errors import Broken, Rejected


class Moment(StrEnum):
    """When a snapshot of a phase was taken."""

    BEFORE = "before"
    AFTER = "after"


class SnapshotOf(StrEnum):
    """What a snapshot is of: one group, around a phase, or all groups of a cluster."""

    GROUP = "group"
    CLUSTER = "cluster"


class Store(StrEnum):
    """Where a committed offset or an owner was read from."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


MANIFEST = "manifest.json"

FORM = 1
"""The form of snapshots that is written now, as manifests name it: tables, columns and types as above. A
change of what is written raises it; older forms stay readable."""

Value = str | int | bool | None
Row = Mapping[str, Value]


def at_of(row: Row) -> TopicPartition:
    """Return the partition that a row of a snapshot is about."""
    return TopicPartition(str(row["topic"]), int(row["partition"] or 0))


def long_of(row: Row, column: str) -> int:
    """Return the number in a column of a row; 0 where there is none."""
    return int(row[column] or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a manifest: rows, size in bytes and SHA-256 of the file's bytes."""

    table: str
    file: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOf:
    """The plan of a run as the journal keeps it: the run's name (empty: not told), the plan's SHA-256, and
    when it was made (epoch ms)."""

    run: str = ""
    hash: str
    made_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``manifest.json``: what a snapshot holds. ``digest`` is the SHA-256 of its bytes, ``taken_at_ms`` epoch
    milliseconds.

    Of a phase's snapshot it names ``run``, ``phase`` and ``moment``; of a cluster's the
    ``cluster_id``, whether its writer saw every key once (``unique_keys``), where groups were read, and the
    ``plan`` that it was taken for."""

    taken_at_ms: int
    digest: str
    files: tuple[FileEntry, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    phase: str = ""
    moment: Moment | None = None
    cluster_id: str = ""
    unique_keys: bool = False
    read_from: ReadFrom = ReadFrom.KAFKA
    plan: PlanOf | None = None

    def of_table(self, name: str) -> tuple[FileEntry, ...]:
        """Return the files of one table, in their order; none where the snapshot has no such table."""
        return tuple(entry for entry in self.files if entry.table == name)


def manifest_of(text: bytes, where: str, of: SnapshotOf) -> Manifest:
    """Return the manifest of a snapshot, which somebody else may have written to ``where``.

    Raises:
        Rejected: a newer release wrote it, in a form that is not known here.
        Broken: it cannot be understood.
    """
    try:
        data = load_object(text, "it", at_most=FILE_BYTES)
        form = whole_number(data["version"], "it: version", low=1)
        if form <= FORM:
            for name in ("run", "phase", "moment") if of is SnapshotOf.GROUP else ("cluster_id",):
                data[name]
            manifest: Manifest = built(Manifest, {**data, "digest": hashlib.sha256(text).hexdigest()})
            for at_ms in (manifest.taken_at_ms, manifest.plan.made_at_ms if manifest.plan else 0):
                whole_number(at_ms, "it: a time", high=_LATEST_MS)
            return manifest
    except (ValueError, KeyError, TypeError, AttributeError, Rejected) as wrong:
        raise Broken(
            f"{where} is not the manifest of a {of} snapshot ({wrong!r}): it was altered; take it again"
        ) from wrong
    raise Rejected(
        f"{where} is of form {form}, this release reads forms up to {FORM}: use the release that "
        "wrote it, or a newer one"
    )


_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""


def refuse_older(what: str, taken_at_ms: int, plan: PlanOf) -> None:
    """Check that a snapshot (``what`` begins the sentence) was taken after its plan was made.

    Raises:
        Rejected: it was taken before; then it says nothing about the move.
    """
    if taken_at_ms < plan.made_at_ms:
        raise Rejected(
            f"{what} was taken at {clock(taken_at_ms)}, before its plan of {clock(plan.made_at_ms)} "
            f"(run {plan.run or '?'}) was made: it says nothing about this move; take it again"
        )


def refuse_other(what: str, manifest: Manifest, plan: PlanOf) -> None:
    """Check that a snapshot was taken after its plan was made, and for no other plan.

    Raises:
        Rejected: as `refuse_older`, or the snapshot names another plan.
    """
    refuse_older(what, manifest.taken_at_ms, plan)
    own = manifest.plan
    if own and own.hash != plan.hash:
        raise Rejected(
            f"{what} was taken for the plan {own.hash[:12]}… of run {own.run or '?'}, that of "
            f"run {plan.run} is {plan.hash[:12]}…: name the snapshots of this run"
        )


def clock(at_ms: int) -> str:
    """Return a time (epoch ms) as a person reads it, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
