"""Spark job: the three-way audit of committed offsets, for clusters with groups by the thousand.

``spark-submit audit_offsets.py --request FILE``

``FILE`` is what `groupshift.bootstrap.audit_jobs` writes: the clusters with their logins, the groups, and
the folder to make. The driver asks coordinators and ZooKeeper, executors read ``__consumer_offsets`` from its
leaders and hold the sources against each other; the result is ``differences.parquet`` and ``manifest.json``,
as of an audit without Spark. Exit code 0 when they were written, 2 when the request cannot be used, 4 when a
source did not answer, 5 for damage; ``refusal.json`` beside the request then says why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from groupshift.bootstrap.audit_jobs import leave_refusal, read_request, run_audit
from groupshift.errors import GroupshiftError
from groupshift.jobs import ended, progress_of
from groupshift.spark.session import large_session


def main(argv: Sequence[str] | None = None) -> int:
    """Run the audit; returns the exit code (see the module text)."""
    parser = argparse.ArgumentParser(prog="audit_offsets", description="Audit committed offsets in Spark.")
    parser.add_argument("--request", type=Path, required=True, help="file with what to audit")
    path: Path = parser.parse_args(argv).request

    def run() -> str:
        try:
            request = read_request(path)
            looked = run_audit(
                request, progress_of("audit"), lambda: large_session("groupshift audit")
            ).looked
        except GroupshiftError as error:
            leave_refusal(path, error)
            raise
        return f"{looked.agreeing} of {looked.keys} agree; {request.output}"

    return ended("audit", run)


if __name__ == "__main__":
    sys.exit(main())
