"""Spark job: compare two cluster snapshots under the rules of a move.

``spark-submit compare.py BEFORE AFTER --output DIR --move MOVE [--live]``

Leaves ``verdict.json``, ``differences/*.parquet`` and ``manifest.json`` below ``--output``. Exit code 0 when
a verdict was reached (whatever it says: the next step reads it), 2 when an argument or a pair of snapshots
cannot be used, 4 when a disk is full (run it again: it goes on), 5 when a snapshot was altered or truncated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from groupshift.domain.equality_rules import Comparison
from groupshift.jobs import ended, progress_of
from groupshift.spark.compare.comparing import VERDICT, compare
from groupshift.spark.compare.find_by_checksums import PART_ROWS, Request


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code (see the module text)."""
    parser = argparse.ArgumentParser(prog="compare", description="Compare two snapshots of a cluster.")
    parser.add_argument("before", type=Path, help="folder of the earlier snapshot")
    parser.add_argument("after", type=Path, help="folder of the later snapshot")
    parser.add_argument("--output", type=Path, required=True, help="folder that gets verdict and differences")
    parser.add_argument("--move", type=Comparison, choices=list(Comparison), required=True)
    parser.add_argument("--live", action="store_true", help="commits went on between the snapshots")
    parser.add_argument("--memory", default="2g", help="heap of the driver where this process starts it")
    parser.add_argument("--part-rows", type=int, default=PART_ROWS, help="rows read as one part")
    parsed = parser.parse_args(argv)
    request = Request(
        before=parsed.before,
        after=parsed.after,
        output=parsed.output,
        comparison=parsed.move,
        live=parsed.live,
        memory=parsed.memory,
        part_rows=parsed.part_rows,
    )

    def run() -> str:
        outcome = compare(request, progress_of("compare"))
        return f"{outcome.verdict}; verdict at {request.output / VERDICT}"

    return ended("compare", run)


if __name__ == "__main__":
    sys.exit(main())
