"""Running a Spark job from a use case (Airflow runs the same request through its own operator)."""

from __future__ import annotations

from typing import Protocol

from groupshift.domain.judgement import ProofRequest


class ProofRunner(Protocol):
    """Runs one job to its end, bounded in time."""

    def run(self, request: ProofRequest) -> None:
        """Run the job. Raises `Transient` when it fails or exceeds its time; the sentence holds the
        last lines it wrote and the path of its log."""
        ...
