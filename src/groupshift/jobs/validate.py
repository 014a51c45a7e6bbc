"""Spark job: compare two snapshots of a group under the rules of one phase.

``spark-submit validate.py --before DIR --after DIR --output DIR --rules FILE``

Writes ``verdict.json``, ``differences.parquet``, ``failing_rows.parquet`` (what Great Expectations named),
and ``report.html`` below ``--output``. Exit code 0 when a verdict was reached (whatever it says: the next
step reads it), 5 when the evidence was altered (the verdict is then ``fail`` and names the file), 2 when an
argument cannot be used, 4 when a disk is full.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from groupshift.adapters.parquet.compare_inputs import verify
from groupshift.domain.evidence import SnapshotOf
from groupshift.domain.phase_rules import AllowedChanges
from groupshift.errors import Broken, Transient
from groupshift.jobs import ended
from groupshift.spark import validation
from groupshift.spark import validation_report as report
from groupshift.spark.checks import to_json
from groupshift.spark.expectations import FAILING_COLUMNS, Library, failing_rows
from groupshift.spark.output import fresh, json_object, room_in, write_parquet, write_text
from groupshift.spark.session import local_session
from groupshift.spark.validation import ValidationOutcome

VERDICT, REPORT, DIFFERENCES = "verdict.json", "report.html", "differences.parquet"
FAILING = "failing_rows.parquet"
_ALL = (VERDICT, REPORT, DIFFERENCES, FAILING)
_COLUMNS = (
    "table string, class string, topic string, partition int, store string, subject string, before string, "
    "after string, allowed boolean"
)


def read_rules(path: Path) -> AllowedChanges:
    """Return what may have changed, from the JSON file of ``--rules``.

    Raises:
        Rejected: the file is missing, no JSON object, or lacks a key.
    """
    return AllowedChanges.from_data(json_object(path, "--rules"))


def _leave(output: Path, outcome: ValidationOutcome, page: str) -> None:
    write_text(output / REPORT, page)
    write_text(output / VERDICT, to_json(outcome.to_data()))


def _validate(arguments: argparse.Namespace) -> ValidationOutcome:
    changes = read_rules(arguments.rules)
    folders = {"before": arguments.before, "after": arguments.after}
    try:
        inputs = {moment: verify(folder, of=SnapshotOf.GROUP) for moment, folder in folders.items()}
    except Broken as altered:
        run = arguments.after.parent.parent.name
        outcome = validation.refusal(changes.phase, changes.moment, run, str(altered))
        _leave(arguments.output, outcome, report.refused(outcome))
        raise
    library = Library()
    spark = local_session(f"groupshift validate {changes.phase} {changes.moment}")
    compared = validation.compare(spark, library, inputs, changes)
    write_parquet(arguments.output / DIFFERENCES, compared.differences, _COLUMNS)
    write_parquet(arguments.output / FAILING, failing_rows(compared.expectations), FAILING_COLUMNS)
    _leave(arguments.output, compared.outcome, report.render(compared))
    return compared.outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code (see the module text). Nothing of an earlier run survives,
    nor of one that could not be finished."""
    parser = argparse.ArgumentParser(prog="validate", description="Compare two snapshots of a group.")
    parser.add_argument("--before", type=Path, required=True, help="folder of the earlier snapshot")
    parser.add_argument("--after", type=Path, required=True, help="folder of the later snapshot")
    parser.add_argument("--output", type=Path, required=True, help="folder that gets verdict and report")
    parser.add_argument("--rules", type=Path, required=True, help="JSON that domain.phase_rules makes")
    arguments = parser.parse_args(argv)

    def run() -> str:
        try:
            with room_in(arguments.output, ""):
                fresh(arguments.output, _ALL)
                verdict = _validate(arguments).verdict
        except Transient:
            fresh(arguments.output, _ALL)
            raise
        return f"{verdict}; report at {arguments.output / REPORT}"

    return ended("validate", run)


if __name__ == "__main__":
    sys.exit(main())
