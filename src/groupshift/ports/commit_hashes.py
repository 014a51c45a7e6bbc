"""Keeping the hashes of live commits beside the snapshots of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from groupshift.log.commit_hashes import LiveCommit


class CommitHashes(Protocol):
    """Writes what the log held at one moment, and reads it again."""

    def write(self, path: Path, commits: Sequence[LiveCommit]) -> str:
        """Put the file there whole; the SHA-256 of its bytes, in hex.

        Raises `Rejected` when it is there already or nobody may write, `Transient` when the disk is full."""
        ...

    def read(self, path: Path, sha256: str) -> tuple[LiveCommit, ...]:
        """What `write` wrote. Raises `Broken` when the file is gone or has other bytes than these."""
        ...
