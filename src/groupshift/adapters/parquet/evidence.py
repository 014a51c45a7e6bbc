"""Snapshots of groups and small texts of runs: `groupshift.ports.evidence.EvidenceStore`."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path

from groupshift.adapters.parquet.store import (
    StorePath,
    decoded,
    encoded,
    entry_of,
    manifest_bytes,
    unreadable,
)
from groupshift.domain.evidence import MANIFEST, Manifest, Moment, Row, SnapshotOf, manifest_of
from groupshift.domain.foreign_text_quoting import without_login
from groupshift.domain.seal import StoredFile
from groupshift.domain.snapshot import TABLES
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import TEXT_LIMIT


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
        """See the port."""
        run, phase, moment = manifest_of
        files, entries = {}, []
        for name, table in TABLES.items():
            rows, file = tables.get(name, ()), f"{name}.parquet"
            names = [each.name for each in table.columns]
            files[file] = encoded(table, {each: [row.get(each) for row in rows] for each in names})
            entries.append(entry_of(name, file, len(rows), files[file]))
        about = {"run": run, "phase": phase, "moment": moment.value, "taken_at_ms": taken_at_ms}
        text = manifest_bytes(about, entries)
        folder = self._at(run, phase, moment)
        folder.put({**files, MANIFEST: text})
        return _parsed(folder, text)

    def manifest(self, run: str, phase: str, moment: Moment) -> Manifest | None:
        """See the port."""
        verified = self._verified(run, phase, moment)
        return verified[0] if verified else None

    def read(self, run: str, phase: str, moment: Moment) -> Mapping[str, Sequence[Row]]:
        """See the port."""
        verified = self._verified(run, phase, moment)
        if verified is None:
            raise Rejected(
                f"there is no snapshot {moment} of phase {phase} of run {run} below "
                f"{without_login(self._root)}: take it first"
            )
        manifest, files = verified
        folder = without_login(self.path(run, phase, moment))
        return {
            entry.table: decoded(f"{folder}/{entry.file}", data)
            for entry, data in zip(manifest.files, files, strict=True)
        }

    def _verified(self, run: str, phase: str, moment: Moment) -> tuple[Manifest, list[bytes]] | None:
        """The manifest and the bytes of its files, each of which was found to be what it says."""
        folder = self._at(run, phase, moment)
        text = (folder / MANIFEST).read(TEXT_LIMIT)
        if text is None:
            return None
        manifest = _parsed(folder, text)
        if (manifest.run, manifest.phase, manifest.moment) != (run, phase, moment):
            raise Broken(
                f"manifest {folder.path}/{MANIFEST} is that of {manifest.run}/{manifest.phase}/"
                f"{manifest.moment}: it was copied here, so this snapshot proves nothing"
            )
        return manifest, [(folder / entry.file).verified(entry.sha256) for entry in manifest.files]

    def path(self, run: str, *parts: str) -> str:
        """See the port.

        Raises:
            Rejected: a part is no plain name.
        """
        for part in (run, *parts):
            if part in {"", ".", ".."} or "/" in part or "\\" in part:
                raise Rejected(f"{part!r} cannot be part of an evidence path: use one plain name")
        return posixpath.join(self._root, run, *parts)

    def write_text(self, run: str, *parts: str, text: str) -> str:
        """See the port."""
        where = self.path(run, *parts)
        self._at(run, *parts[:-1]).put({parts[-1]: text.encode()})
        return where

    def read_text(self, run: str, *parts: str) -> str | None:
        """See the port."""
        data = self._at(run, *parts).read(TEXT_LIMIT)
        return None if data is None else data.decode(errors="replace")

    def rows(self, run: str, *parts: str) -> Sequence[Row] | None:
        """See the port."""
        data = self._at(run, *parts).read()
        return None if data is None else decoded(without_login(self.path(run, *parts)), data)

    def files(self, run: str) -> tuple[str, ...]:
        """See the port."""
        return tuple(sorted(path for path, kind in self._at(run).below() if not kind))

    def irregular(self, run: str) -> Mapping[str, str]:
        """See the port."""
        return {path: kind for path, kind in self._at(run).below() if kind}

    def measured(self, run: str, path: str) -> StoredFile | None:
        """See the port."""
        place = self._at(run) / path
        try:
            digest, size = place.measured()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as wrong:
            raise unreadable(place.path, wrong) from wrong
        return StoredFile(path=path, bytes=size, sha256=digest)

    def _at(self, run: str, *parts: str) -> StorePath:
        self.path(run, *parts)
        root = StorePath.of(
            self._root, f"evidence root {without_login(self._root)!r}", "set [evidence] root to"
        )
        return root / "/".join((run, *parts))


def _parsed(folder: StorePath, text: bytes) -> Manifest:
    """The manifest of a snapshot of a group, which names each table once, and no other file."""
    where = f"{folder.path}/{MANIFEST}"
    manifest = manifest_of(text, where, SnapshotOf.GROUP)
    if {entry.file: entry.table for entry in manifest.files} != {f"{name}.parquet": name for name in TABLES}:
        raise Broken(f"manifest {where} does not name the files of a snapshot: it was altered")
    return manifest
