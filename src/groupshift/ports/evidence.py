"""Evidence: a store for snapshots and results, signatures, the sealed pack of a run, the members' ledger.

A pack is signed, and anyone can check who signed it. The ledger is what the
members say they delivered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NewType, Protocol

from groupshift.domain.evidence import Manifest, Moment, Row
from groupshift.domain.ownership_history import OwnershipInterval
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.seal import StoredFile

EvidenceFolder = NewType("EvidenceFolder", Path)
"""The folder below which runs keep their snapshots and what is sealed of them."""


class EvidenceStore(Protocol):
    """Parquet tables with a manifest below one root (see `groupshift.domain.evidence`).

    Writing is atomic: the manifest is written last, so a folder without one is no snapshot.
    Writing the same (run, phase, moment) again replaces it unless ``keep`` says otherwise.
    """

    def write(
        self, manifest_of: tuple[str, str, Moment], taken_at_ms: int, tables: Mapping[str, Sequence[Row]]
    ) -> Manifest:
        """Write every table of `TABLES` (missing ones empty) for (run, phase, moment)."""

    def manifest(self, run: str, phase: str, moment: Moment) -> Manifest | None:
        """The manifest of a snapshot, or None when there is no complete one.

        Raises `Broken` when a file's SHA-256 is not the one the manifest names."""

    def read(self, run: str, phase: str, moment: Moment) -> Mapping[str, Sequence[Row]]:
        """All tables of a verified snapshot. Raises `Broken` as `manifest`, `Rejected` when absent."""

    def path(self, run: str, *parts: str) -> str:
        """Absolute path or URI below the run's evidence folder."""

    def write_text(self, run: str, *parts: str, text: str) -> str:
        """Atomically write a small text file (``rules.json``) below the folder; returns its path."""

    def read_text(self, run: str, *parts: str) -> str | None:
        """The text of a small file (``verdict.json``), or None when there is no such file.

        Raises `Broken` for something else in its place, and for one that is far too long."""

    def rows(self, run: str, *parts: str) -> Sequence[Row] | None:
        """The rows of a derived Parquet file (``differences.parquet``), or None when there is none.

        Raises `Broken` for one that cannot be read."""

    def files(self, run: str) -> tuple[str, ...]:
        """Paths of all regular files below the run's folder, relative to it, with ``/``, sorted."""

    def irregular(self, run: str) -> Mapping[str, str]:
        """What lies there and is neither a file nor a folder, by path: a symbolic link, a named pipe. Nothing
        of it is ever opened; stores without such things have none."""

    def measured(self, run: str, path: str) -> StoredFile | None:
        """Size and SHA-256 of one of `files`, or None when it is gone; read in pieces, never whole."""


class Signer(Protocol):
    """Holds a private key; neither it nor anything derived but signatures leaves it."""

    def sign(self, data: bytes) -> str:
        """The text of ``pack.sig``. Raises `Rejected` for a key that cannot be used."""


class Verifier(Protocol):
    """Holds a public key."""

    def holds(self, data: bytes, signature: str) -> bool:
        """Whether ``signature`` was made of exactly these bytes with the key's private half.

        Raises `Rejected` for a key that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """``deliveries`` of records, how many of them had been delivered ``again``, offsets between the first and
    the last one of a partition that were ``passed_over``, and the ``longest_pause_ms`` between two deliveries
    of a partition; ``source`` is where the ledgers are."""

    deliveries: int
    again: int
    passed_over: int
    longest_pause_ms: int
    source: str = ""


class Ledger(Protocol):
    """The records members write of every delivered record (one JSON object a line)."""

    def last_delivered(self, group: str) -> Mapping[TopicPartition, int]:
        """The highest offset delivered by any member of the group, present or gone, per partition.

        Partitions never delivered are absent; without ledgers the mapping is empty. A torn last line
        (its writer was killed or is writing) is not there yet. Raises `Broken` naming file and line
        for a complete line that is no ledger record.
        """

    def delivered_below(
        self, group: str, bounds: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """The highest offset below each of ``bounds`` that any member of the group was delivered; absent
        where there is none. Raises as above."""

    def delivered(self, group: str, from_ms: int, to_ms: int) -> Delivered | None:
        """What the members were handed between two times (epoch ms), in figures; None without a ledger of
        the group. Raises as above."""

    def intervals(self, group: str, from_ms: int, to_ms: int) -> Sequence[OwnershipInterval]:
        """Runs of deliveries by one member between two times (epoch ms), per partition: from the first to
        the last record before another member delivered. Empty without ledgers. Raises as above."""
