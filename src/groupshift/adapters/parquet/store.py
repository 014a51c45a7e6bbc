"""Where files of evidence lie: a local folder, or any URI that Arrow's file systems open (``hdfs://``,
``s3://``); and how tables and manifests become such files.

Every file is put in place whole. A manifest is written last, and names each file with its SHA-256: a folder
without one holds nothing.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from groupshift.domain.evidence import FORM, MANIFEST, FileEntry
from groupshift.domain.snapshot import ColumnType, Table
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.foreign_files import kind_of, made_anew, opened

TABLE_LIMIT = 1 << 30
"""The longest table that is read into memory (bytes)."""
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError)
"""What Arrow raises for bytes that are no Parquet file."""
_MOST_ROWS = 20_000_000
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TYPES: Mapping[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.LONG: pa.int64(),
    ColumnType.BOOL: pa.bool_(),
}


def schema_of(table: Table, names: Iterable[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of one table of a snapshot, of these columns only (None: of all)."""
    chosen = {column.name for column in table.columns} if names is None else set(names)
    return pa.schema(
        pa.field(column.name, _TYPES[column.type], nullable=column.nullable)
        for column in table.columns
        if column.name in chosen
    )


def encoded(table: Table, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Return a Parquet file of these columns of a table (values by column, all of one length).

    Raises:
        Rejected: a value is of another type, too large, or null where the table allows none.
    """
    out = pa.BufferOutputStream()
    try:
        arrow = pa.Table.from_pydict(dict(columns), schema=schema_of(table, columns))
        pq.write_table(arrow, out, compression="zstd")
    except (pa.ArrowException, OverflowError) as wrong:
        raise Rejected(f"a row of table {table.name} does not fit its schema: {wrong}") from wrong
    data: bytes = out.getvalue().to_pybytes()
    return data


def decoded(where: str, data: bytes) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file; ``where`` names it for people.

    Raises:
        Broken: it is none, or has more rows than groupshift ever writes into one.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.metadata.num_rows > _MOST_ROWS:
            raise ValueError(f"{file.metadata.num_rows} rows")
        rows: list[dict[str, Any]] = file.read().to_pylist()
    except _UNREADABLE as wrong:
        raise Broken(f"evidence file {where} cannot be read ({wrong}): it was altered or torn") from wrong
    return rows


def entry_of(table: str, file: str, rows: int, data: bytes) -> FileEntry:
    """Return what a manifest says of a file that holds ``data``, ``rows`` rows of a table."""
    digest = hashlib.sha256(data).hexdigest()
    return FileEntry(table=table, file=file, rows=rows, bytes=len(data), sha256=digest)


def manifest_bytes(about: Mapping[str, Any], files: Iterable[FileEntry]) -> bytes:
    """Return the bytes of ``manifest.json``: what it is ``about``, its files, and what wrote them."""
    versions = {
        "groupshift": version("kafka-groupshift"),
        "pyarrow": str(pa.__version__),
        "python": platform.python_version(),
    }
    entries = [asdict(each) for each in files]
    document = {"version": FORM, **about, "files": entries, "versions": versions}
    return (json.dumps(document, indent=1) + "\n").encode()


@dataclass(frozen=True, slots=True)
class StorePath:
    """A file or a folder: a file system of Arrow, and a path there.

    Of a local one only regular files are read, and no part of the path behind ``root`` may be a link: it
    would lead out of the folder that a person looks at."""

    system: fs.FileSystem
    path: str
    root: str

    @classmethod
    def of(cls, where: str, what: str, then: str) -> StorePath:
        """Open an absolute path or a URI.

        Raises:
            Rejected: it cannot be opened: ``what`` begins the sentence, ``then`` is what to do.
        """
        if "://" not in where:
            return cls.local(where)
        try:
            system, path = fs.FileSystem.from_uri(where)
        except (pa.ArrowException, OSError) as wrong:
            raise Rejected(
                f"{what} cannot be opened ({type(wrong).__name__}): {then} a folder or a URI that Arrow knows"
            ) from None  # its words may hold the key of a store
        return cls(system, path, path)

    @classmethod
    def local(cls, path: str | Path) -> StorePath:
        """Return a path of the operating system, which is its own root."""
        where = str(Path(path).absolute())
        return cls(fs.LocalFileSystem(), where, where)

    @property
    def is_local(self) -> bool:
        """True where the operating system opens the files."""
        return isinstance(self.system, fs.LocalFileSystem)

    def __truediv__(self, below: str) -> StorePath:
        return replace(self, path=f"{self.path}/{below}")

    def opened(self) -> Any:
        """Open the file to read bytes. Raises `OSError` or `ValueError` as `groupshift.foreign_files.opened`
        and Arrow do."""
        if self.is_local:
            return opened(self.path, below=self.root)
        return self.system.open_input_file(self.path)

    def read(self, limit: int = TABLE_LIMIT) -> bytes | None:
        """Return all of the file, None where it is not there.

        Raises:
            Broken: it is no regular file, cannot be read, or is longer than ``limit`` bytes.
        """
        try:
            with self.opened() as file:
                data: bytes = file.read(limit + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as wrong:
            raise unreadable(self.path, wrong) from wrong
        if len(data) > limit:
            raise Broken(f"evidence file {self.path} is longer than {limit} bytes, which nothing here writes")
        return data

    def measured(self) -> tuple[str, int]:
        """Return the SHA-256 (hex) and the size of the file, which is read in pieces. Raises as `opened`."""
        with self.opened() as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()

    def required(self) -> bytes:
        """Return all of the file.

        Raises:
            Broken: it is gone, or as `read`.
        """
        if (data := self.read()) is None:
            raise Broken(
                f"evidence file {self.path} is gone: bring it back, and take no decision on this evidence"
            )
        return data

    def verified(self, sha256: str) -> bytes:
        """Return all of the file, which has to be the one that its manifest or the journal names.

        Raises:
            Broken: it was altered, or as `required`.
        """
        data = self.required()
        digest = hashlib.sha256(data).hexdigest()
        if digest != sha256:
            raise Broken(
                f"evidence file {self.path} has SHA-256 {digest}, its manifest or the journal says {sha256}: "
                "the file was altered after it was written; take no decision on this evidence"
            )
        return data

    def put(self, files: Mapping[str, bytes]) -> None:
        """Put files into the folder whole: all are written beside their places, then moved onto them in their
        order; a manifest goes last, and its predecessor first, so that no manifest is beside another's files.

        Raises:
            Transient: the disk is full; then everything is as it was.
            Rejected: nobody may write there.
            Broken: a link lies behind the root: what is written through it would be somebody else's.
        """
        inner = Path(self.root)
        for part in Path(self.path).relative_to(inner).parts if self.is_local else ():
            inner /= part
            if inner.is_symlink():
                raise Broken(f"evidence folder {inner} is a symbolic link: nothing was written through it")
        parts = [f"{self.path}/{name}.part" for name in files]
        try:
            self.system.create_dir(self.path, recursive=True)
            for part, data in zip(parts, files.values(), strict=True):
                if self.is_local:
                    made_anew(part)
                with self.system.open_output_stream(part, compression=None) as out:
                    out.write(data)
        except OSError as failed:
            for part in parts:
                with suppress(OSError):
                    self._remove(part)
            raise unwritable(f"evidence below {self.path}", failed) from failed
        try:
            if MANIFEST in files:
                self._remove(f"{self.path}/{MANIFEST}")
            for part in parts:
                self.system.move(part, part.removesuffix(".part"))
        except OSError as failed:
            raise unwritable(f"evidence below {self.path}", failed) from failed

    def _remove(self, path: str) -> None:
        if self.system.get_file_info(path).type != fs.FileType.NotFound:
            self.system.delete_file(path)

    def below(self) -> Iterator[tuple[str, str]]:
        """Yield path (relative, with ``/``) and kind (empty: a regular file) of everything below the folder
        that is no folder, in no order; links are named and not followed.

        Raises:
            Broken: a local folder cannot be listed.
        """
        if not self.is_local:
            chosen = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
            for each in self.system.get_file_info(chosen):
                if each.type == fs.FileType.File:
                    yield each.path.removeprefix(self.path).lstrip("/"), ""
            return
        folders = [""]
        while folders:
            inner = folders.pop()
            try:
                entries = list(os.scandir(os.path.join(self.path, inner)))  # noqa: PTH118 - paths of any bytes
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as wrong:
                raise unreadable(f"{self.path}/{inner}", wrong) from wrong
            for entry in entries:
                path = f"{inner}/{entry.name}" if inner else entry.name
                try:
                    path.encode()
                except UnicodeEncodeError:
                    yield os.fsencode(path).decode("utf-8", "backslashreplace"), "a name that is no UTF-8"
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    yield path, kind_of(entry.stat(follow_symlinks=False).st_mode)


@contextmanager
def draft_of(folder: Path) -> Iterator[Path]:
    """Make a folder beside ``folder`` that takes its place whole when all is written, and is removed else.

    Raises:
        OSError: it cannot be made or written; nothing is left.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        draft.chmod(0o755)
        yield draft
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def unwritable(what: str, failed: OSError) -> GroupshiftError:
    """Return the error to raise for ``what`` cannot be written: `Transient` where the disk is full, else
    `Rejected`."""
    if failed.errno in _FULL:
        return Transient(
            f"{what} cannot be written ({failed.strerror or failed}), nothing of it was left: "
            "make room, then run the same command again"
        )
    return Rejected(f"{what} cannot be written ({failed.strerror or failed}): name a place that can be")


def unreadable(where: str, wrong: OSError | ValueError) -> Broken:
    """Return the error to raise for evidence that is there and cannot be read."""
    why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else wrong
    return Broken(f"evidence {where} cannot be read ({why}): a person must look before anything goes on")
