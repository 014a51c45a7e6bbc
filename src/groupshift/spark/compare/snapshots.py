"""Comparing two snapshots for a run: `groupshift.ports.spark_jobs.SnapshotCompare` over Spark."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from groupshift.adapters.parquet.comparisons import files_of
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.verdict import Verdict
from groupshift.ports.spark_jobs import Compared
from groupshift.spark.compare import comparing


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSnapshotCompare:
    """``java_home`` where the environment names none (empty: the Java on the PATH); ``memory`` is the heap of
    Spark's driver. The session stays for the next comparison of this process."""

    java_home: str
    memory: str = "1g"

    def __call__(self, before: Path, after: Path, comparison: Comparison, *, live: bool) -> Compared:
        """The whole outcome is left beside ``after``."""
        if self.java_home:
            os.environ.setdefault("JAVA_HOME", self.java_home)
        request = comparing.Request(
            before=before,
            after=after,
            output=after.with_name(f"{after.name}-{comparison}"),
            comparison=comparison,
            live=live,
            memory=self.memory,
        )
        outcome = comparing.compare(request)
        bad = [each for each in outcome.findings if each.verdict in {Verdict.FAIL, Verdict.ERROR}]
        return Compared(
            verdict=outcome.verdict,
            reasons=tuple(f"{each.rule}: {each.reason}" for each in bad),
            files=files_of(request.output),
        )
