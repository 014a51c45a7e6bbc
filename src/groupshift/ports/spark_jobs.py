"""Spark jobs that a use case runs, and the comparison of two cluster snapshots under the rules of a move.

Airflow runs the same request through its own operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRequest:
    """One Spark job: path of the job file, its arguments, and the folder it writes into."""

    job: str
    arguments: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The verdict, the sentences of what differs, and SHA-256 of every file of the outcome, by its path below
    the folder that the outcome's folder lies in (none: it left no files)."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


class SnapshotCompare(Protocol):
    """Compares two folders and leaves the whole outcome in a third."""

    def __call__(self, before: Path, after: Path, comparison: Comparison, *, live: bool) -> Compared:
        """Raises `Rejected` for snapshots that cannot be compared, `Broken` for one that was altered."""
        ...


class ProofRunner(Protocol):
    """Runs one job to its end, bounded in time."""

    def run(self, request: ProofRequest) -> None:
        """Run the job. Raises `Transient` when it fails or exceeds its time; the sentence holds the
        last lines it wrote and the path of its log."""
        ...
