"""Input of a comparison of snapshots, looked at before Spark is started.

`verify` proves that a snapshot is whole, `comparable` that two of them belong together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupshift.adapters.parquet.store import StorePath
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.evidence import (
    MANIFEST,
    FileEntry,
    Manifest,
    SnapshotOf,
    clock,
    manifest_of,
    refuse_older,
    refuse_other,
)
from groupshift.domain.foreign_json import FILE_BYTES
from groupshift.domain.seal import is_beside
from groupshift.domain.snapshot import CLUSTER_TABLES, TABLES, ColumnType, Table
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")
_TYPES: Mapping[ColumnType, frozenset[str]] = {
    ColumnType.STRING: frozenset({"string", "large_string", "binary", "large_binary"}),
    ColumnType.INT: frozenset({"int32"}),
    ColumnType.LONG: frozenset({"int64", "int32"}),
    ColumnType.BOOL: frozenset({"bool"}),
}
"""What Arrow may call the type of a column, whoever wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One snapshot that was proven whole: the ``tables`` that such a snapshot may have, and the ``columns``
    found, by table."""

    folder: Path
    manifest: Manifest
    tables: Mapping[str, Table]
    columns: Mapping[str, frozenset[str]]

    def paths(self, table: str) -> tuple[str, ...]:
        """Return the absolute paths of the files of a table; none where the snapshot has no such table."""
        return tuple(str(self.folder / entry.file) for entry in self.manifest.of_table(table))

    def rows(self, table: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a small table (with these columns; None: all), in the order of its files."""
        return [row for path in self.paths(table) for row in pq.read_table(path, columns=columns).to_pylist()]


def read_manifest(folder: Path, of: SnapshotOf = SnapshotOf.CLUSTER) -> Manifest:
    """Return the manifest of a snapshot in a folder.

    Raises:
        Rejected: there is none, or a newer release wrote it.
        Broken: it cannot be read or understood.
    """
    text = (StorePath.local(folder) / MANIFEST).read(FILE_BYTES)
    if text is None:
        raise Rejected(f"snapshot {folder} has no {MANIFEST}: it is not finished; take it again")
    return manifest_of(text, str(folder / MANIFEST), of)


def verify(
    folder: Path, progress: Callable[[int], None] = lambda _: None, of: SnapshotOf = SnapshotOf.CLUSTER
) -> Input:
    """Read every file of a snapshot and compare it with its manifest; ``progress`` gets the bytes read.

    A snapshot of a group has all its tables with exactly their columns, one of a cluster at least the
    offsets, and columns that may be null may be absent.

    Raises:
        Rejected: as `read_manifest`.
        Broken: as `read_manifest`; or a file (which is named) is missing, truncated, altered, not a Parquet
            file of its table, or not in the manifest.
    """
    manifest = read_manifest(folder, of)
    tables = TABLES if of is SnapshotOf.GROUP else CLUSTER_TABLES
    where = folder / MANIFEST
    required = tables if of is SnapshotOf.GROUP else ("offsets",)
    if missing := [name for name in required if not manifest.of_table(name)]:
        raise Broken(f"{where} lists no file of table {', '.join(missing)}; take the snapshot again")
    for entry in manifest.files:
        if entry.table not in tables:
            raise Broken(
                f"{where} lists the unknown table {entry.table}; compare with the release that took it"
            )
        if not _PLAIN.fullmatch(entry.file):
            raise Broken(f"{where} names {entry.file!r}, which is no plain Parquet file of its own folder")
    there = {path.name for path in folder.glob("*.parquet") if not is_beside(path.name)}
    if strays := sorted(there - {entry.file for entry in manifest.files}):
        raise Broken(f"{folder / strays[0]} is not in the manifest; take the snapshot again")
    columns: dict[str, frozenset[str]] = {}

    def proven(entry: FileEntry) -> frozenset[str]:
        return _proven(folder / entry.file, entry, tables[entry.table], whole=of is SnapshotOf.GROUP)

    with ThreadPoolExecutor(2) as pool:
        for entry, names in zip(manifest.files, pool.map(proven, manifest.files), strict=True):
            columns[entry.table] = columns.get(entry.table, names) & names
            progress(entry.bytes)
    return Input(folder=folder, manifest=manifest, tables=tables, columns=columns)


def _proven(path: Path, entry: FileEntry, table: Table, *, whole: bool) -> frozenset[str]:
    """The columns of a file, which was found to be the one that the manifest names; ``whole``: it has to have
    all columns of its table and no other."""
    if not path.exists():
        raise _altered(path, "is named in the manifest and missing")
    if (size := path.stat().st_size) != entry.bytes:
        raise _altered(
            path, f"has {size} bytes where its manifest promises {entry.bytes}: truncated or altered"
        )
    try:
        with opened(path, below=path.parent) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != entry.sha256:
            digests = f"(SHA-256 {digest[:12]}…, manifest {entry.sha256[:12]}…)"
            raise _altered(path, f"was altered after its manifest was written {digests}")
        file = pq.ParquetFile(path)
        rows, columns = file.metadata.num_rows, {one.name: str(one.type) for one in file.schema_arrow}
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise _altered(path, f"is not a Parquet file ({wrong})") from wrong
    if rows != entry.rows:
        raise _altered(path, f"has {rows} rows where its manifest promises {entry.rows}")
    for column in table.columns:
        if column.name not in columns and (whole or not column.nullable):
            raise _altered(path, f"lacks the column {column.name}")
        if column.name in columns and columns[column.name] not in _TYPES[column.type]:
            held = f"{columns[column.name]} where {column.type} is promised"
            raise Broken(f"column {column.name} of {path} is {held}; take the snapshot again")
    if whole and len(columns) > len(table.columns):
        raise _altered(path, f"has columns that table {table.name} has not")
    return frozenset(columns)


def _altered(path: Path, why: str) -> Broken:
    return Broken(f"{path} {why}; nothing was compared; take the snapshot again")


def comparable(before: Manifest, after: Manifest, comparison: Comparison) -> None:
    """Check that two snapshots of clusters can be compared.

    Raises:
        Rejected: they are of different clusters (of one, where copies are compared), one is older than its
            plan, they belong to two plans, or the earlier one comes second.
    """
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
        if manifest.plan:
            refuse_older(f"the {name} snapshot", manifest.taken_at_ms, manifest.plan)
    if before.plan and after.plan:
        refuse_other("the later snapshot", after, before.plan)
    if after.taken_at_ms < before.taken_at_ms:
        raise Rejected(
            f"the second snapshot ({clock(after.taken_at_ms)}) is older than the first "
            f"({clock(before.taken_at_ms)}): name the earlier one first"
        )
