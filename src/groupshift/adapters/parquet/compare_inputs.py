"""Input and outcome of a comparison of cluster snapshots: files checked before Spark starts; plain data.

`verify` proves that a snapshot is whole, `comparable` that two belong together. `Outcome` holds findings by
rule, counts by class, and the files that a comparison leaves.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupshift.domain.equality_rules import FIELDS, Comparison, EqualityRule
from groupshift.domain.evidence import (
    CLUSTER_TABLES,
    MANIFEST,
    ClusterManifest,
    ColumnType,
    FileEntry,
    clock,
    file_entry,
    instant,
    refuse_mixed,
)
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.rows import ReadFrom
from groupshift.domain.seal import is_beside
from groupshift.domain.verdict import Finding, Verdict, worst
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened, read

_VERSION = 1
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")
_TYPES: Mapping[ColumnType, frozenset[str]] = {
    ColumnType.STRING: frozenset({"string", "large_string", "binary", "large_binary"}),
    ColumnType.INT: frozenset({"int32"}),
    ColumnType.LONG: frozenset({"int64", "int32"}),
    ColumnType.BOOL: frozenset({"bool"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One snapshot that was proven whole. ``columns`` are those found, by table."""

    folder: Path
    manifest: ClusterManifest
    columns: Mapping[str, frozenset[str]]

    def paths(self, table: str) -> tuple[str, ...]:
        """Absolute paths of the files of a table."""
        return tuple(str(self.folder / entry.file) for entry in self.manifest.of_table(table))


def read_manifest(folder: Path) -> ClusterManifest:
    """The manifest of a cluster snapshot.

    Raises `Rejected` when there is none, `Broken` when it cannot be understood."""
    path = folder / MANIFEST
    try:
        text = read(path, FILE_BYTES, below=folder)
    except (FileNotFoundError, NotADirectoryError):
        raise Rejected(f"snapshot {folder} has no {MANIFEST}: it is not finished; take it again") from None
    except (OSError, ValueError) as wrong:
        raise Broken(f"{path} cannot be read ({wrong}); take the snapshot again") from wrong
    try:
        return _parse(text)
    except (ValueError, KeyError, TypeError, AttributeError, Rejected) as wrong:
        raise Broken(
            f"{path} is not the manifest of a cluster snapshot ({wrong!r}); take it again"
        ) from wrong


def _parse(text: bytes) -> ClusterManifest:
    data = load_object(text, "it", at_most=FILE_BYTES)
    if data["version"] != _VERSION:
        raise ValueError(f"version {data['version']!r} is not {_VERSION}")
    plan = data.get("plan") or {}
    return ClusterManifest(
        cluster_id=str(data["cluster_id"]),
        taken_at_ms=instant(data["taken_at_ms"]),
        digest=hashlib.sha256(text).hexdigest(),
        files=tuple(file_entry(entry) for entry in data["files"]),
        unique_keys=bool(data.get("unique_keys", False)),
        read_from=ReadFrom(data.get("read_from", ReadFrom.KAFKA)),
        migration=str(plan.get("migration", "")),
        plan_hash=str(plan.get("hash", "")),
        plan_made_at_ms=instant(plan["made_at_ms"]) if plan else None,
        versions={str(key): str(value) for key, value in data.get("versions", {}).items()},
    )


def verify(folder: Path, told: Callable[[int], None] = lambda _: None) -> Input:
    """Read every file of a snapshot and compare it with its manifest; ``told`` gets the bytes read.

    Raises `Rejected` without a manifest, `Broken` (naming the file) when one is missing, truncated,
    altered, not a Parquet file of its table, or not in the manifest."""
    manifest = read_manifest(folder)
    _complete(folder, manifest)
    columns: dict[str, frozenset[str]] = {}
    with ThreadPoolExecutor(2) as pool:
        for entry, names in zip(
            manifest.files, pool.map(lambda one: _file(folder, one), manifest.files), strict=True
        ):
            columns[entry.table] = columns.get(entry.table, names) & names
            told(entry.bytes)
    return Input(folder=folder, manifest=manifest, columns=columns)


def _complete(folder: Path, manifest: ClusterManifest) -> None:
    where = folder / MANIFEST
    if not manifest.of_table("offsets"):
        raise Broken(f"{where} lists no file of table offsets; take the snapshot again")
    for entry in manifest.files:
        if entry.table not in CLUSTER_TABLES:
            raise Broken(
                f"{where} lists the unknown table {entry.table}; compare with the release that took it"
            )
        if not _PLAIN.fullmatch(entry.file):
            raise Broken(f"{where} names {entry.file!r}, which is no plain Parquet file of its own folder")
    named = {entry.file for entry in manifest.files}
    there = {path.name for path in folder.glob("*.parquet") if not is_beside(path.name)}
    if strays := sorted(there - named):
        raise Broken(f"{folder / strays[0]} is not in the manifest; take the snapshot again")


def _file(folder: Path, entry: FileEntry) -> frozenset[str]:
    path = folder / entry.file
    if not path.exists():
        raise Broken(f"{path} is named in the manifest and missing; take the snapshot again")
    if (size := path.stat().st_size) != entry.bytes:
        raise Broken(
            f"{path} has {size} bytes where its manifest promises {entry.bytes}: truncated or altered; "
            "nothing was compared; take the snapshot again"
        )
    try:
        with opened(path, below=folder) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as wrong:
        raise Broken(f"{path} cannot be read ({wrong}); take the snapshot again") from wrong
    if found != entry.sha256:
        raise Broken(
            f"{path} was altered after its manifest was written (SHA-256 {found[:12]}…, manifest "
            f"{entry.sha256[:12]}…); nothing was compared; take the snapshot again"
        )
    return _columns(path, entry)


def _columns(path: Path, entry: FileEntry) -> frozenset[str]:
    try:
        file = pq.ParquetFile(path)
        rows, found = file.metadata.num_rows, {one.name: str(one.type) for one in file.schema_arrow}
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise Broken(f"{path} is not a Parquet file ({wrong}); take the snapshot again") from wrong
    if rows != entry.rows:
        raise Broken(f"{path} has {rows} rows where its manifest promises {entry.rows}")
    for column in CLUSTER_TABLES[entry.table].columns:
        if column.name not in found and not column.nullable:
            raise Broken(f"{path} lacks the column {column.name}; take the snapshot again")
        if column.name in found and found[column.name] not in _TYPES[column.type]:
            raise Broken(
                f"column {column.name} of {path} is {found[column.name]} where {column.type} is promised"
            )
    return frozenset(found)


def comparable(before: ClusterManifest, after: ClusterManifest, comparison: Comparison) -> None:
    """Refuse (`Rejected`) what cannot be compared: mixed clusters, a snapshot older than its plan,
    two plans, the wrong order."""
    same = before.cluster_id == after.cluster_id
    if comparison is Comparison.CLUSTER and same:
        raise Rejected(
            f"both snapshots are of cluster {before.cluster_id!r}: move {comparison} compares two clusters; "
            "name the move that was made"
        )
    if comparison is not Comparison.CLUSTER and not same:
        raise Rejected(
            f"the snapshots are of different clusters ({before.cluster_id!r}, {after.cluster_id!r}): "
            f"take both from one, or compare with --move {Comparison.CLUSTER}"
        )
    for name, manifest in (("earlier", before), ("later", after)):
        made = manifest.plan_made_at_ms
        if made is not None and manifest.taken_at_ms < made:
            raise Rejected(
                f"the {name} snapshot was taken at {clock(manifest.taken_at_ms)}, before its plan of "
                f"{clock(made)} was made: it says nothing about this move; take it again"
            )
    refuse_mixed(before, after)
    if after.taken_at_ms < before.taken_at_ms:
        raise Rejected(
            f"the second snapshot ({clock(after.taken_at_ms)}) is older than the first "
            f"({clock(before.taken_at_ms)}): name the earlier one first"
        )


OUTCOME_VERSION = 1
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A rule with what it said: ``count`` offending rows (0: it holds)."""

    rule: EqualityRule
    finding: Finding
    count: int = 0

    def to_data(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rule": self.finding.rule,
            "field": self.rule.field.value,
            "demand": self.rule.text,
            "verdict": self.finding.verdict.value,
            "reason": self.finding.reason,
            "hint": self.finding.hint,
            "count": self.count,
        }


def held(rule: EqualityRule) -> Judged:
    """The rule holds."""
    reason = f"{FIELDS[rule.field].title}: {rule.text}"
    return Judged(rule=rule, finding=Finding(rule=rule.number, verdict=Verdict.PASS, reason=reason))


def broken(rule: EqualityRule, offending: list[Mapping[str, Any]], count: int) -> Judged:
    """The rule is broken by ``count`` rows, of which the first are named."""
    named = "; ".join(_sentence(row) for row in offending[:_NAMED])
    more = f"; and {count - _NAMED:,} more" if count > _NAMED else ""
    hint = f"{rule.demand.reason} ({rule.demand.source})"
    finding = Finding(rule=rule.number, verdict=Verdict.FAIL, reason=named + more, hint=hint)
    return Judged(rule=rule, finding=finding, count=count)


def unmeasured(rule: EqualityRule, lacking: str) -> Judged:
    """The rule asks for something that a snapshot does not hold."""
    reason = f"{FIELDS[rule.field].title} was not compared: {lacking}"
    hint = "take both snapshots with it, or see that it does not matter here"
    finding = Finding(rule=rule.number, verdict=Verdict.INCONCLUSIVE, reason=reason, hint=hint)
    return Judged(rule=rule, finding=finding)


def _sentence(row: Mapping[str, Any]) -> str:
    where = f"group {row['group']}"
    if row["topic"] is not None:
        where += f", {row['topic']}" + (f"-{row['partition']}" if row["partition"] is not None else "")
    return f"{where}: {row['reason']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found. ``counts`` are differing (group, topic, partition) per class; ``settled_by`` says
    which step decided about offsets; ``incomplete`` is what the snapshots themselves say that they lack;
    ``manifests`` are SHA-256."""

    comparison: Comparison
    live: bool
    results: tuple[Judged, ...]
    counts: Mapping[str, int]
    allowed: Mapping[str, int]
    rows: Mapping[str, int]
    manifests: Mapping[str, str]
    settled_by: str
    incomplete: tuple[Finding, ...] = ()
    segments: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Fail when a rule is broken, error when a snapshot is incomplete. A table or column that a
        snapshot does not hold is said, and decides nothing."""
        verdicts = [finding.verdict for finding in self.findings]
        return worst(one for one in verdicts if one is not Verdict.INCONCLUSIVE)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, what is incomplete first."""
        return (*self.incomplete, *(one.finding for one in self.results))

    def to_data(self) -> dict[str, Any]:
        """``verdict.json`` as plain values."""
        return {
            "version": OUTCOME_VERSION,
            "move": self.comparison.value,
            "commits_went_on": self.live,
            "verdict": self.verdict.value,
            "incomplete": [finding.reason for finding in self.incomplete],
            "findings": [one.to_data() for one in self.results],
            "counts": dict(self.counts),
            "allowed": dict(self.allowed),
            "rows": dict(self.rows),
            "settled_by": self.settled_by,
            "segments": dict(self.segments),
            "parts": dict(self.parts),
            "manifests": dict(self.manifests),
        }
