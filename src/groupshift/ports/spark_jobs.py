"""Spark jobs that a use case runs, and what they leave of two cluster snapshots.

Airflow runs the same request through its own operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from groupshift.domain.verdict import Finding, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The verdict, the sentences of what differs, and SHA-256 of every file of the outcome, by its path below
    the folder that the outcome's folder lies in (none: it left no files). ``findings`` has every rule, in the
    order of its number; ``inputs`` are the SHA-256 of the manifests of both snapshots, the earlier one
    first."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    inputs: tuple[str, ...] = ()


class ComparisonOutcomes(Protocol):
    """Reads what Spark jobs left that compare two snapshots of a cluster."""

    def read(self, output: Path) -> Compared | None:
        """Return what the job left in its folder, None where there is no whole outcome.

        Raises `Broken` for an outcome that cannot be read."""
