"""Comparing two snapshots of a cluster's groups under the rules of a move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The verdict, and the sentences of what differs."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


class SnapshotCompare(Protocol):
    """Compares two folders and leaves the whole outcome in a third."""

    def __call__(self, before: Path, after: Path, comparison: Comparison, *, live: bool) -> Compared:
        """Raises `Rejected` for snapshots that cannot be compared, `Broken` for one that was altered."""
        ...
