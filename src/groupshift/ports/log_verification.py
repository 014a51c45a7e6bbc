"""Holding a snapshot of all groups against the bytes of the offsets topic."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from groupshift.ports.snapshot_compare import Compared


class LogVerification(Protocol):
    """Reads the log as far as it goes now, and leaves every difference in a folder of its own."""

    def __call__(self, snapshot: Path, digest: str, count: int, output: Path) -> Compared:
        """Whether each offset of ``snapshot`` (a folder, whose manifest has the SHA-256 ``digest``) lies live
        where ``count`` partitions put its group, with the same epoch and metadata, and no other does. Records
        elsewhere do not count.

        ``output`` is made, or made anew. Raises `Broken` for a snapshot that was altered, `Transient` when
        brokers do not answer or a disk is full."""
        ...
