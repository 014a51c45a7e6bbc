"""Snapshots on disk: first proven whole, then read by Spark.

Spark schemas of their tables follow from `groupshift.domain.evidence.TABLES`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from groupshift.domain.evidence import (
    MANIFEST,
    TABLES,
    ColumnType,
    FileEntry,
    Manifest,
    Moment,
    Table,
    file_entry,
    instant,
    refuse_newer,
)
from groupshift.domain.foreign_json import FILE_BYTES, load_object, whole_number
from groupshift.domain.seal import is_beside
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot that was proven whole: its manifest, and one cached frame per table."""

    folder: Path
    manifest: Manifest
    tables: Mapping[str, DataFrame]


def _parse(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        text = read(path, below=folder)
        data = load_object(text, "it", at_most=FILE_BYTES)
        refuse_newer(str(path), whole_number(data["version"], "it: version"))
        files = tuple(file_entry(entry) for entry in data["files"])
        return Manifest(
            migration=str(data["migration"]),
            stage=str(data["stage"]),
            moment=Moment(data["moment"]),
            taken_at_ms=instant(data["taken_at_ms"]),
            digest=hashlib.sha256(text).hexdigest(),
            files=files,
            versions={str(key): str(value) for key, value in data.get("versions", {}).items()},
        )
    except FileNotFoundError:
        raise Rejected(f"snapshot {folder} has no {MANIFEST}; take the snapshot again") from None
    except OSError as error:
        raise Broken(f"{path} cannot be read ({error.strerror or error}); take the snapshot again") from error
    except (ValueError, KeyError, TypeError, AttributeError, Rejected) as error:
        if isinstance(error, Rejected) and not str(error).startswith("it:"):
            raise
        raise Broken(f"{path} is not a manifest ({error}); take the snapshot again") from error


def _check_file(folder: Path, entry: FileEntry) -> None:
    path = folder / entry.file
    if path.parent != folder:
        raise Broken(f"{folder / MANIFEST} names the file {entry.file} outside its own folder")
    if not path.exists():
        raise Broken(f"{path} is named in the manifest and missing; take the snapshot again")
    try:
        with opened(path, below=folder) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as wrong:
        raise Broken(f"{path} cannot be read ({wrong}); take the snapshot again") from wrong
    if found != entry.sha256:
        raise Broken(
            f"{path} was changed after its manifest was written (SHA-256 {found[:12]}…, manifest "
            f"{entry.sha256[:12]}…); nothing was compared; take the snapshot again"
        )
    try:
        rows = pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise Broken(f"{path} is no Parquet file ({wrong}); take the snapshot again") from wrong
    if rows != entry.rows:
        raise Broken(f"{path} has {rows} rows where its manifest promises {entry.rows}")


def verify(folder: Path) -> Manifest:
    """The manifest of a snapshot whose every file is the one that was written.

    Needs no Spark. Raises `Rejected` when there is no manifest, `Broken` (naming the file) when the
    manifest cannot be read, or a file is missing, was changed, or is not in the manifest.
    """
    manifest = _parse(folder)
    for entry in manifest.files:
        _check_file(folder, entry)
    listed = {entry.table for entry in manifest.files}
    if missing := sorted(set(TABLES) - listed):
        raise Broken(f"{folder / MANIFEST} lists no table {', '.join(missing)}; take the snapshot again")
    named = {entry.file for entry in manifest.files}
    there = {path.name for path in folder.glob("*.parquet") if not is_beside(path.name)}
    if strays := sorted(there - named):
        raise Broken(f"{folder / strays[0]} is not in the manifest; take the snapshot again")
    return manifest


def schema_deviations(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """Sentences about every column whose name or type is not the promised one."""
    found: list[str] = []
    for entry in manifest.files:
        schema = pq.read_schema(folder / entry.file)
        columns = {field.name: str(field.type) for field in schema}
        found.extend(deviations(TABLES[entry.table], columns) if entry.table in TABLES else ())
    return tuple(found)


def load(spark: SparkSession, folder: Path, manifest: Manifest) -> Snapshot:
    """The tables of a verified snapshot as cached frames of one partition each."""
    frames = {
        entry.table: spark.read.schema(struct_of(TABLES[entry.table]))
        .parquet(str(folder / entry.file))
        .coalesce(1)
        .cache()
        for entry in manifest.files
        if entry.table in TABLES
    }
    return Snapshot(folder=folder, manifest=manifest, tables=frames)


def register(snapshot: Snapshot, moment: Moment) -> None:
    """Make the tables visible to SQL as ``<moment>_<table>``."""
    for name, frame in snapshot.tables.items():
        frame.createOrReplaceTempView(f"{moment.value}_{name}")


_SPARK: dict[ColumnType, DataType] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT: IntegerType(),
    ColumnType.LONG: LongType(),
    ColumnType.BOOL: BooleanType(),
}

_ARROW: dict[ColumnType, frozenset[str]] = {
    ColumnType.STRING: frozenset({"string", "large_string"}),
    ColumnType.INT: frozenset({"int32"}),
    ColumnType.LONG: frozenset({"int64"}),
    ColumnType.BOOL: frozenset({"bool"}),
}


def struct_of(table: Table) -> StructType:
    """The table's columns in their order, every one with the nullability the contract gives it."""
    return StructType(
        [StructField(column.name, _SPARK[column.type], column.nullable) for column in table.columns]
    )


def deviations(table: Table, found: dict[str, str]) -> tuple[str, ...]:
    """Sentences about columns of a Parquet file (name to Arrow type name) that break the contract."""
    wanted = {column.name: column for column in table.columns}
    missing = tuple(f"table {table.name} lacks column {name}" for name in wanted if name not in found)
    extra = tuple(f"table {table.name} has the unknown column {name}" for name in found if name not in wanted)
    wrong = tuple(
        f"column {name} of table {table.name} is {found[name]} where {column.type.value} is promised"
        for name, column in wanted.items()
        if name in found and found[name] not in _ARROW[column.type]
    )
    return missing + extra + wrong
