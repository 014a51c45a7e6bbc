"""Cluster snapshots as folders of Parquet files, and hashes of live commits as JSON files.

Implements `groupshift.ports.cluster.ClusterSnapshotStore` and `groupshift.ports.log.CommitHashes`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupshift.adapters.parquet.evidence import draft_of, entry_of, schema_of, unwritable, versions
from groupshift.domain.evidence import FORM, MANIFEST, FileEntry, Manifest, PlanOf, SnapshotOf, manifest_of
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.rows import ROWS, ClusterState, OffsetRow
from groupshift.domain.snapshot import CLUSTER_TABLES, Table
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import made_anew, read
from groupshift.log.commit_hashes import LiveCommit

_ROWS_A_FILE = 1_000_000


class ParquetClusterSnapshots:
    """Folders on a local file system. A snapshot is put in place whole: written beside its place under
    another name, manifest last, then renamed; whatever goes wrong leaves nothing behind."""

    def write(self, folder: Path, state: ClusterState, plan: PlanOf | None = None) -> Manifest:
        """See the port."""
        folder = folder.absolute()
        self.refuse(folder)
        try:
            with draft_of(folder) as draft:
                manifest = _written(draft, state, plan)
        except OSError as failed:
            raise unwritable(f"snapshot {folder}", failed) from failed
        return manifest

    def refuse(self, folder: Path) -> None:
        """See the port."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Rejected(f"{folder} is not an empty folder: a snapshot is never overwritten; name another")

    def digest(self, folder: Path) -> str:
        """See the port."""
        return hashlib.sha256(_bytes_of(folder / MANIFEST, FILE_BYTES)).hexdigest()

    def offsets(self, folder: Path, digest: str) -> tuple[OffsetRow, ...]:
        """See the port."""
        document = load_object(_as_written(folder / MANIFEST, digest), "it", at_most=FILE_BYTES)
        (table,) = {name for name, row in ROWS.items() if row is OffsetRow}
        found: list[OffsetRow] = []
        for entry in document["files"]:
            if entry["table"] == table:
                data = _as_written(folder / entry["file"], entry["sha256"])
                rows = pq.read_table(pa.BufferReader(data)).to_pylist()
                found += [OffsetRow(**{name: row[name] for name in row if name in _TOLD}) for row in rows]
        return tuple(found)


_TOPIC_ID = "topic_id"
_FILE_LIMIT = 4 << 30
_TOLD = frozenset(each.name for each in fields(OffsetRow))


def _bytes_of(path: Path, at_most: int) -> bytes:
    try:
        return read(path, at_most, below=path.parent)
    except (OSError, ValueError) as failed:
        raise Broken(
            f"{path} of a snapshot cannot be read ({failed}): bring it back, nothing was changed"
        ) from failed


def _as_written(path: Path, digest: str) -> bytes:
    data = _bytes_of(path, _FILE_LIMIT)
    if hashlib.sha256(data).hexdigest() != digest:
        raise Broken(f"{path} was altered since the snapshot was taken: bring it back, nothing was changed")
    return data


def _written(draft: Path, state: ClusterState, plan: PlanOf | None) -> Manifest:
    tables = state.tables()
    files = [
        entry
        for name, table in CLUSTER_TABLES.items()
        for entry in _files(draft, table, tables.get(name, ()))
    ]
    document = _document(state, plan, files)
    text = (json.dumps(document, indent=1) + "\n").encode()
    (draft / MANIFEST).write_bytes(text)
    return manifest_of(text, str(draft / MANIFEST), SnapshotOf.CLUSTER)


def _document(state: ClusterState, plan: PlanOf | None, files: Sequence[FileEntry]) -> dict[str, Any]:
    return {
        "version": FORM,
        "cluster_id": state.cluster_id,
        "taken_at_ms": state.taken_at_ms,
        "unique_keys": _unique(state),
        "read_from": state.read_from.value,
        "plan": None if plan is None else asdict(plan),
        "files": [asdict(entry) for entry in files],
        "versions": versions(),
    }


def _unique(state: ClusterState) -> bool:
    keys = {(row.group, row.topic, row.partition) for row in state.offsets}
    return len(keys) == len(state.offsets)


def _files(draft: Path, table: Table, rows: Sequence[Any]) -> Iterator[FileEntry]:
    """Write the rows of a table, a million a file; an empty table is one empty file."""
    for number, start in enumerate(range(0, max(1, len(rows)), _ROWS_A_FILE)):
        path = draft / f"{table.name}-{number:05}.parquet"
        part = rows[start : start + _ROWS_A_FILE]
        pq.write_table(_arrow(table, part), path, compression="zstd")
        yield entry_of(table.name, path.name, len(part), path.read_bytes())


def _arrow(table: Table, rows: Sequence[Any]) -> pa.Table:
    """The columns that such rows have. Those that a live snapshot cannot know (when an offset was committed;
    topic ids, of brokers before 4.1) are left out, which is not the same as null."""
    known = schema_of(table)
    told = {each.name for each in fields(ROWS[table.name])}
    if all(getattr(row, _TOPIC_ID, None) is None for row in rows):
        told.discard(_TOPIC_ID)
    names = [name for name in known.names if name in told]
    schema = pa.schema([known.field(name) for name in names])
    columns: Mapping[str, list[Any]] = {name: [*map(attrgetter(name), rows)] for name in names}
    return pa.Table.from_pydict(dict(columns), schema=schema)


_FORM = 1


class CommitHashFiles:
    """One file a snapshot: ``{"version": 1, "commits": [{"group": …, "sha256": …}, …]}``."""

    def write(self, path: Path, commits: Sequence[LiveCommit]) -> str:
        """See the port; the file is written beside its place, then moved to it."""
        if path.exists():
            raise Rejected(f"{path} is there already: the hashes of a snapshot are never overwritten")
        document = {"version": _FORM, "commits": [asdict(each) for each in commits]}
        data = (json.dumps(document, indent=0, ensure_ascii=False) + "\n").encode()
        draft = path.with_name(f".{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            made_anew(draft)
            draft.write_bytes(data)
            draft.rename(path)
        except OSError as failed:
            with suppress(OSError):
                draft.unlink()
            raise unwritable(str(path), failed) from failed
        return hashlib.sha256(data).hexdigest()

    def read(self, path: Path, sha256: str) -> tuple[LiveCommit, ...]:
        """See the port."""
        try:
            data = read(path, FILE_BYTES, below=path.parent)
        except (OSError, ValueError) as failed:
            raise Broken(
                f"{path} cannot be read ({getattr(failed, 'strerror', failed)}): "
                "the evidence of the run is not whole"
            ) from failed
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Broken(f"{path} is not what the journal says was written: the evidence was altered")
        return tuple(
            LiveCommit(**each) for each in load_object(data, str(path), at_most=FILE_BYTES)["commits"]
        )
