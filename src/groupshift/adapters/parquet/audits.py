"""Audits as folders of evidence, a folder each, named by its path or URI."""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from groupshift.adapters.parquet.evidence import draft_of, entry_of, schema_of, store_of, versions
from groupshift.audit.offsets import DIFFERENCES, Audit, audit_of, summary
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.foreign_text import without_login
from groupshift.errors import Broken, Rejected, Transient
from groupshift.foreign_files import read

_FILE, _REPORT = "differences.parquet", "report.html"


class ParquetAudits:
    """Local folders, or any URI that Arrow's file systems open. A local one is put in place whole: written
    beside its place under another name, then renamed. Elsewhere an audit is its manifest, written last."""

    def write(self, folder: str, audit: Audit, report: str) -> None:
        """Write every difference (Parquet), its ``report`` (HTML) and a summary; the folder appears whole or
        not at all.

        Raises:
            Rejected: as `refuse`.
            Transient: it cannot be written (disk full)."""
        self.refuse(folder)
        files = _files(audit, report)
        store, path = _opened(folder)
        try:
            if isinstance(store, fs.LocalFileSystem):
                with draft_of(Path(path)) as draft:
                    for name, data in files.items():
                        (draft / name).write_bytes(data)
                return
            store.create_dir(path, recursive=True)
            for name, data in files.items():
                with store.open_output_stream(f"{path}/{name}") as out:
                    out.write(data)
        except OSError as failed:
            raise Transient(
                f"audit {folder} cannot be written ({failed.strerror or failed}): "
                "make room or choose another folder, then audit again"
            ) from failed

    def refuse(self, folder: str) -> None:
        """Raise `Rejected` when ``folder`` cannot become an audit: it is there and not empty."""
        store, path = _opened(folder)
        (there,) = store.get_file_info([path])
        if there.type is fs.FileType.File or store.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            raise Rejected(f"{folder} is not an empty folder: an audit is never overwritten; name another")

    def read(self, folder: str) -> Audit:
        """The audit that is kept there, as it was given to `write`.

        Raises:
            Rejected: there is none.
            Broken: it is not what was written."""
        told = self.summary(folder)
        store, path = _opened(folder)
        try:
            (entry,) = told["files"]
            if entry["file"] != _FILE:
                raise Broken(
                    f"the audit in {folder} names {entry['file']!r}: it is no longer what was written"
                )
            data = _bytes(store, path, _FILE)
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                raise Broken(f"{folder}/{entry['file']} is no longer what was written (its SHA-256 differs)")
            return audit_of(told, pq.read_table(io.BytesIO(data)).to_pylist())
        except (OSError, KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as wrong:
            raise Broken(f"the audit in {folder} is no longer what was written ({wrong})") from wrong

    def names(self, root: str) -> tuple[str, ...]:
        """The folders of audits right below ``root``, by name; none where it is not there.

        Raises `Transient` when it cannot be listed."""
        store, path = _opened(root)
        try:
            found = store.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        except OSError as failed:
            raise Transient(
                f"the audits in {root} cannot be listed ({failed.strerror or failed}): try again"
            ) from failed
        kept = (Path(each.path) for each in found if each.base_name == MANIFEST)
        return tuple(sorted(each.parent.name for each in kept if each.parent.parent == Path(path)))

    def summary(self, folder: str) -> Mapping[str, Any]:
        """What `groupshift.audit.offsets.summary` said of the audit that is kept there.

        Raises:
            Rejected: there is none.
            Broken: it cannot be read."""
        store, path = _opened(folder)
        try:
            return load_object(_bytes(store, path, MANIFEST), "it", at_most=FILE_BYTES)
        except FileNotFoundError:
            raise Rejected(f"there is no audit in {folder}: name the folder of one, or audit again") from None
        except (OSError, ValueError, Rejected) as wrong:
            raise Broken(f"{folder}/{MANIFEST} is no longer what was written ({wrong})") from wrong


def _bytes(store: fs.FileSystem, folder: str, name: str) -> bytes:
    """A file of an audit; of a local folder only a regular one, reached by no link."""
    if isinstance(store, fs.LocalFileSystem):
        return read(f"{folder}/{name}", FILE_BYTES, below=posixpath.dirname(folder))
    with store.open_input_stream(f"{folder}/{name}") as stream:
        data: bytes = stream.read()
        return data


def _opened(folder: str) -> tuple[fs.FileSystem, str]:
    where = folder if "://" in folder else str(Path(folder).absolute())
    return store_of(where, repr(without_login(folder)), "name")


def _files(audit: Audit, report: str) -> dict[str, bytes]:
    """The files by name, manifest last."""
    rows = audit.looked.mismatches
    schema = schema_of(DIFFERENCES)
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pydict(columns, schema=schema), out, compression="zstd")
    data = out.getvalue()
    entry = entry_of(DIFFERENCES.name, _FILE, len(rows), data)
    document = {"version": 1, **summary(audit), "files": [asdict(entry)], "versions": versions()}
    return {_FILE: data, _REPORT: report.encode(), MANIFEST: (json.dumps(document, indent=1) + "\n").encode()}
