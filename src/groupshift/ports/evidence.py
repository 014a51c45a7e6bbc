"""Storing evidence: snapshots and what was derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from groupshift.domain.evidence import Manifest, Moment, Row
from groupshift.domain.seal import StoredFile


class EvidenceStore(Protocol):
    """Parquet tables with a manifest below one root (see `groupshift.domain.evidence`).

    Writing is atomic: the manifest is written last, so a folder without one is no snapshot.
    Writing the same (migration, stage, moment) again replaces it unless ``keep`` says otherwise.
    """

    def write(
        self, manifest_of: tuple[str, str, Moment], taken_at_ms: int, tables: Mapping[str, Sequence[Row]]
    ) -> Manifest:
        """Write every table of `TABLES` (missing ones empty) for (migration, stage, moment)."""
        ...

    def manifest(self, migration: str, stage: str, moment: Moment) -> Manifest | None:
        """The manifest of a snapshot, or None when there is no complete one.

        Raises `Broken` when a file's SHA-256 is not the one the manifest names."""
        ...

    def read(self, migration: str, stage: str, moment: Moment) -> Mapping[str, Sequence[Row]]:
        """All tables of a verified snapshot. Raises `Broken` as `manifest`, `Rejected` when absent."""
        ...

    def path(self, migration: str, *parts: str) -> str:
        """Absolute path or URI below the migration's evidence folder."""
        ...

    def write_text(self, migration: str, *parts: str, text: str) -> str:
        """Atomically write a small text file (``rules.json``) below the folder; returns its path."""
        ...

    def read_text(self, migration: str, *parts: str) -> str | None:
        """The text of a small file (``verdict.json``), or None when there is no such file.

        Raises `Broken` for something else in its place, and for one that is far too long."""
        ...

    def rows(self, migration: str, *parts: str) -> Sequence[Row] | None:
        """The rows of a derived Parquet file (``differences.parquet``), or None when there is none.

        Raises `Broken` for one that cannot be read."""
        ...

    def row_count(self, migration: str, path: str) -> int | None:
        """How many rows one of `files`, a Parquet file, says that it has; None: it cannot be read."""
        ...

    def files(self, migration: str) -> tuple[str, ...]:
        """Paths of all regular files below the migration's folder, relative to it, with ``/``, sorted."""
        ...

    def irregular(self, migration: str) -> Mapping[str, str]:
        """What lies there and is neither a file nor a folder, by path: a symbolic link, a named pipe. Nothing
        of it is ever opened; stores without such things have none."""
        ...

    def measured(self, migration: str, path: str) -> StoredFile | None:
        """Size and SHA-256 of one of `files`, or None when it is gone; read in pieces, never whole."""
        ...
