"""Snapshots as Parquet files with a manifest: `groupshift.ports.evidence.EvidenceStore`.

Every file is put in place whole; `unwritable` says why one cannot be written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import posixpath
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from groupshift.domain.evidence import (
    FORM,
    MANIFEST,
    FileEntry,
    Manifest,
    Moment,
    Row,
    SnapshotOf,
    manifest_of,
)
from groupshift.domain.foreign_text import without_login
from groupshift.domain.seal import StoredFile
from groupshift.domain.snapshot import TABLES, ColumnType, Table
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.foreign_files import TEXT_LIMIT, kind_of, made_anew, opened

_PIECE = 1 << 20
_TABLE_LIMIT = 1 << 30
"""The longest table that is read (bytes)."""
_MOST_ROWS = 20_000_000
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError)
"""What Arrow raises for bytes that are no Parquet file."""
_TYPES: Mapping[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.LONG: pa.int64(),
    ColumnType.BOOL: pa.bool_(),
}


def schema_of(table: Table) -> pa.Schema:
    """The Arrow schema of one table of a snapshot."""
    return pa.schema(
        [pa.field(column.name, _TYPES[column.type], nullable=column.nullable) for column in table.columns]
    )


class ParquetEvidence:
    """Below ``root``: a folder, or any URI that Arrow's file systems open (``hdfs://``, ``s3://``).

    A snapshot is its manifest: writing removes the old one first and puts the new one last, so a
    writer killed in between leaves no snapshot rather than a mixed one.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = str(root) if "://" in str(root) else str(Path(root).absolute())

    def write(
        self, manifest_of: tuple[str, str, Moment], taken_at_ms: int, tables: Mapping[str, Sequence[Row]]
    ) -> Manifest:
        """Write every table of `TABLES` (missing ones empty) and the manifest.

        Raises `Rejected` for a table or a value that the snapshot's schema does not have."""
        migration, stage, moment = manifest_of
        unknown = set(tables) - set(TABLES)
        if unknown:
            raise Rejected(f"{sorted(unknown)} are no tables of a snapshot: use {sorted(TABLES)}")
        encoded = {name: _encode(table, tables.get(name, ())) for name, table in TABLES.items()}
        store, folder = self._folder(migration, stage, moment)
        self._demand_no_link(store, folder)
        document = {
            "version": FORM,
            "migration": migration,
            "stage": stage,
            "moment": moment.value,
            "taken_at_ms": taken_at_ms,
            "files": [
                asdict(entry_of(name, _file(name), len(tables.get(name, ())), data))
                for name, data in encoded.items()
            ],
            "versions": {**versions(), "python": platform.python_version()},
        }
        text = (json.dumps(document, indent=2) + "\n").encode()
        put_together(store, folder, {**{_file(name): data for name, data in encoded.items()}, MANIFEST: text})
        return _parse(f"{folder}/{MANIFEST}", text)

    def manifest(self, migration: str, stage: str, moment: Moment) -> Manifest | None:
        """The manifest, after every file was found to be what it says; None without a snapshot."""
        store, folder = self._folder(migration, stage, moment)
        text = self._bytes(store, f"{folder}/{MANIFEST}", TEXT_LIMIT)
        if text is None:
            return None
        manifest = _parse(f"{folder}/{MANIFEST}", text)
        if (manifest.migration, manifest.stage, manifest.moment) != (migration, stage, moment):
            raise Broken(
                f"manifest {folder}/{MANIFEST} is that of {manifest.migration}/{manifest.stage}/"
                f"{manifest.moment}: it was copied here, so this snapshot proves nothing"
            )
        for entry in manifest.files:
            self._verified(store, folder, entry)
        return manifest

    def read(self, migration: str, stage: str, moment: Moment) -> Mapping[str, Sequence[Row]]:
        """All tables of a verified snapshot."""
        manifest = self.manifest(migration, stage, moment)
        store, folder = self._folder(migration, stage, moment)
        if manifest is None:
            raise Rejected(
                f"there is no snapshot {moment} of stage {stage} of migration {migration} below "
                f"{without_login(self._root)}: take it first"
            )
        return {
            entry.table: _decode(f"{folder}/{entry.file}", self._verified(store, folder, entry))
            for entry in manifest.files
        }

    def path(self, migration: str, *parts: str) -> str:
        """Absolute path or URI below the migration's evidence folder."""
        return posixpath.join(self._root, *(_element(part) for part in (migration, *parts)))

    def write_text(self, migration: str, *parts: str, text: str) -> str:
        """Atomically write a small text file below the migration's folder; returns its path."""
        store, where = self._open(self.path(migration, *parts))
        self._demand_no_link(store, posixpath.dirname(where))
        put_together(store, posixpath.dirname(where), {posixpath.basename(where): text.encode()})
        return self.path(migration, *parts)

    def read_text(self, migration: str, *parts: str) -> str | None:
        """The text of a small file, or None when there is no such file."""
        store, where = self._open(self.path(migration, *parts))
        data = self._bytes(store, where, TEXT_LIMIT)
        return None if data is None else data.decode(errors="replace")

    def rows(self, migration: str, *parts: str) -> Sequence[Row] | None:
        """The rows of a derived Parquet file, or None when there is none."""
        where = self.path(migration, *parts)
        store, path = self._open(where)
        data = self._bytes(store, path)
        return None if data is None else _decode(without_login(where), data)

    def row_count(self, migration: str, path: str) -> int | None:
        """See the port."""
        store, where = self._open(posixpath.join(self.path(migration), path))
        try:
            with self._stream(store, where) as stream:
                return int(pq.read_metadata(stream).num_rows)
        except _UNREADABLE:
            return None

    def files(self, migration: str) -> tuple[str, ...]:
        """See the port."""
        store, folder = self._open(self.path(migration))
        if _is_local(store):
            return tuple(sorted(path for path, kind in _below(folder) if not kind))
        chosen = fs.FileSelector(folder, recursive=True, allow_not_found=True)
        found = [each.path for each in store.get_file_info(chosen) if each.type == fs.FileType.File]
        return tuple(sorted(path.removeprefix(folder).lstrip("/") for path in found))

    def irregular(self, migration: str) -> Mapping[str, str]:
        """See the port."""
        store, folder = self._open(self.path(migration))
        return {path: kind for path, kind in _below(folder) if kind} if _is_local(store) else {}

    def measured(self, migration: str, path: str) -> StoredFile | None:
        """See the port."""
        store, where = self._open(posixpath.join(self.path(migration), path))
        digest, size = hashlib.sha256(), 0
        try:
            with self._stream(store, where) as stream:
                while piece := stream.read(_PIECE):
                    digest.update(piece)
                    size += len(piece)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as wrong:
            raise _unreadable(where, wrong) from wrong
        return StoredFile(path=path, bytes=size, sha256=digest.hexdigest())

    def _folder(self, migration: str, stage: str, moment: Moment) -> tuple[fs.FileSystem, str]:
        return self._open(self.path(migration, stage, moment.value))

    def _demand_no_link(self, store: fs.FileSystem, folder: str) -> None:
        """Raise `Broken` where writing into a folder would follow a link out of the evidence."""
        if not _is_local(store):
            return
        inner = Path(self._open(self._root)[1])
        for part in Path(folder).relative_to(inner).parts:
            inner /= part
            if inner.is_symlink():
                raise Broken(f"evidence folder {inner} is a symbolic link: nothing was written through it")

    def _stream(self, store: fs.FileSystem, path: str) -> Any:
        """A file to read, of a local folder only a regular one that no link leads to."""
        if _is_local(store):
            return opened(path, below=self._open(self._root)[1])
        return store.open_input_file(path)

    def _bytes(self, store: fs.FileSystem, path: str, limit: int = _TABLE_LIMIT) -> bytes | None:
        """All of a file, None where it is not there. Raises `Broken` for one that is none, or is longer than
        ``limit`` bytes."""
        try:
            with self._stream(store, path) as file:
                data: bytes = file.read(limit + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as wrong:
            raise _unreadable(path, wrong) from wrong
        if len(data) > limit:
            raise Broken(f"evidence file {path} is longer than {limit} bytes, which nothing here writes")
        return data

    def _verified(self, store: fs.FileSystem, folder: str, entry: FileEntry) -> bytes:
        path = f"{folder}/{entry.file}"
        data = self._bytes(store, path)
        if data is None:
            raise Broken(
                f"evidence file {path} is gone, its manifest names it: take no decision on this snapshot"
            )
        found = hashlib.sha256(data).hexdigest()
        if found != entry.sha256:
            raise Broken(
                f"evidence file {path} has SHA-256 {found}, its manifest says {entry.sha256}: "
                "the file was altered after it was written; take no decision on this snapshot"
            )
        return data

    def _open(self, where: str) -> tuple[fs.FileSystem, str]:
        return store_of(where, f"evidence root {without_login(self._root)!r}", "set [evidence] root to")


def store_of(where: str, what: str, then: str) -> tuple[fs.FileSystem, str]:
    """The file system of an absolute path or a URI, and the path there.

    Raises `Rejected` where it cannot be opened: ``what`` begins the sentence, ``then`` is what to do."""
    if "://" not in where:
        return fs.LocalFileSystem(), where
    try:
        store, path = fs.FileSystem.from_uri(where)
    except (pa.ArrowException, OSError) as wrong:
        raise Rejected(
            f"{what} cannot be opened ({type(wrong).__name__}): {then} a folder or a URI that Arrow knows"
        ) from None  # its words may hold the key of a store
    return store, path


def _element(part: str) -> str:
    if not part or part in {".", ".."} or "/" in part or "\\" in part:
        raise Rejected(f"{part!r} cannot be part of an evidence path: use one plain name")
    return part


def _file(table: str) -> str:
    return f"{table}.parquet"


def _encode(table: Table, rows: Sequence[Row]) -> bytes:
    columns = {column.name for column in table.columns}
    for row in rows:
        if set(row) != columns:
            raise Rejected(
                f"a row of table {table.name} has the columns {sorted(row)}: it needs {sorted(columns)}"
            )
    try:
        arrow = pa.Table.from_pylist([dict(row) for row in rows], schema=schema_of(table))
        arrow.validate(full=True)
        empty = [
            column.name
            for column in table.columns
            if not column.nullable and arrow.column(column.name).null_count
        ]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as wrong:
        raise Rejected(f"a row of table {table.name} does not fit its schema: {wrong}") from wrong
    if empty:
        raise Rejected(f"table {table.name} has no value in a row of {', '.join(empty)}: it must have one")
    sink = pa.BufferOutputStream()
    pq.write_table(arrow, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _is_local(store: fs.FileSystem) -> bool:
    return isinstance(store, fs.LocalFileSystem)


def _below(folder: str) -> Iterator[tuple[str, str]]:
    """Path (relative, with ``/``) and kind (empty: a regular file) of everything below a local folder that is
    no folder; links are named and not followed."""
    folders = [""]
    while folders:
        inner = folders.pop()
        try:
            entries = list(os.scandir(posixpath.join(folder, inner)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as wrong:
            raise _unreadable(posixpath.join(folder, inner), wrong) from wrong
        for entry in entries:
            path = posixpath.join(inner, entry.name)
            if not path.isprintable() and not _is_utf8(path):
                yield os.fsencode(path).decode("utf-8", "backslashreplace"), "a name that is no UTF-8"
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path, kind_of(entry.stat(follow_symlinks=False).st_mode)


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unreadable(where: str, wrong: OSError | ValueError) -> Broken:
    why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else wrong
    return Broken(f"evidence {where} cannot be read ({why}): a person must look before anything goes on")


def _decode(where: str, data: bytes) -> Sequence[Row]:
    """The rows of a Parquet file. Raises `Broken` for what is none, or has more rows than we ever write."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.metadata.num_rows > _MOST_ROWS:
            raise ValueError(f"{file.metadata.num_rows} rows")
        rows: list[Row] = file.read().to_pylist()
    except _UNREADABLE as wrong:
        raise Broken(f"evidence file {where} cannot be read ({wrong}): it was altered or torn") from wrong
    return rows


def _parse(path: str, text: bytes) -> Manifest:
    manifest = manifest_of(text, path, SnapshotOf.GROUP)
    odd = [each.file for each in manifest.files if each.file != _file(each.table) or each.table not in TABLES]
    if odd:
        raise Broken(f"manifest {path} names {odd[0]!r}, which is no file of a snapshot: it was altered")
    missing = set(TABLES) - {entry.table for entry in manifest.files}
    if missing:
        raise Broken(f"manifest {path} lacks the tables {sorted(missing)}: it was altered")
    return manifest


def versions() -> dict[str, str]:
    """What wrote the files, for their manifest."""
    return {"groupshift": version("kafka-groupshift"), "pyarrow": str(pa.__version__)}


def entry_of(table: str, file: str, rows: int, data: bytes) -> FileEntry:
    """What a manifest says of a file that holds ``data``."""
    digest = hashlib.sha256(data).hexdigest()
    return FileEntry(table=table, file=file, rows=rows, bytes=len(data), sha256=digest)


@contextmanager
def draft_of(folder: Path) -> Iterator[Path]:
    """A folder beside ``folder`` that takes its place whole when all is written, and is removed else."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        draft.chmod(0o755)
        yield draft
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def unwritable(what: str, failed: OSError) -> GroupshiftError:
    """The error to raise: `Transient` where the disk is full, else `Rejected`."""
    if failed.errno in _FULL:
        return Transient(
            f"{what} cannot be written ({failed.strerror or failed}), nothing of it was left: "
            "make room, then run the same command again"
        )
    return Rejected(f"{what} cannot be written ({failed.strerror or failed}): name a place that can be")


def put_together(store: fs.FileSystem, folder: str, files: Mapping[str, bytes]) -> None:
    """Put the files there whole: all are written beside their places, then moved onto them in their order; a
    manifest goes last, and its predecessor first, so that no manifest is beside another's files.

    Raises `Transient` on a full disk, `Rejected` where nobody may write; then everything is as it was."""
    parts = [f"{folder}/{name}.part" for name in files]
    try:
        store.create_dir(folder, recursive=True)
        for part, data in zip(parts, files.values(), strict=True):
            if isinstance(store, fs.LocalFileSystem):
                made_anew(part)
            with store.open_output_stream(part, compression=None) as out:
                out.write(data)
    except OSError as failed:
        for part in parts:
            with suppress(OSError):
                _remove(store, part)
        raise unwritable(f"evidence below {folder}", failed) from failed
    try:
        if MANIFEST in files:
            _remove(store, f"{folder}/{MANIFEST}")
        for part in parts:
            store.move(part, part.removesuffix(".part"))
    except OSError as failed:
        raise unwritable(f"evidence below {folder}", failed) from failed


def _remove(store: fs.FileSystem, path: str) -> None:
    if store.get_file_info(path).type != fs.FileType.NotFound:
        store.delete_file(path)
