"""Spark job: compare two snapshots of a group under the rules of one stage.

``spark-submit validate.py --before DIR --after DIR --output DIR --stage S --moment M --rules FILE``

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

from groupshift.domain.verdict import Verdict
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.spark import sources, validation
from groupshift.spark import validation_report as report
from groupshift.spark.checks import Outcome, to_json
from groupshift.spark.expectations import FAILING_COLUMNS, Library, failing_rows
from groupshift.spark.output import fresh, room_in, write_parquet, write_text
from groupshift.spark.session import local_session
from groupshift.spark.transforms import Rules, read

VERDICT, REPORT, DIFFERENCES = "verdict.json", "report.html", "differences.parquet"
FAILING = "failing_rows.parquet"
_COLUMNS = {
    "table": "string",
    "class": "string",
    "topic": "string",
    "partition": "int",
    "store": "string",
    "subject": "string",
    "before": "string",
    "after": "string",
    "allowed": "bool",
}


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="validate", description="Compare two snapshots of a group.")
    parser.add_argument("--before", type=Path, required=True, help="folder of the earlier snapshot")
    parser.add_argument("--after", type=Path, required=True, help="folder of the later snapshot")
    parser.add_argument("--output", type=Path, required=True, help="folder that gets verdict and report")
    parser.add_argument("--stage", required=True, help="name of the stage")
    parser.add_argument("--moment", required=True, choices=["before", "after"])
    parser.add_argument("--rules", type=Path, required=True, help="JSON made by groupshift.domain.equality")
    return parser.parse_args(argv)


def _rules(given: argparse.Namespace) -> Rules:
    rules = read(given.rules)
    if (rules.stage, rules.moment) != (given.stage, given.moment):
        raise Rejected(
            f"{given.rules} holds the rules of {rules.stage}/{rules.moment}, not of "
            f"{given.stage}/{given.moment}; give the rules of this stage"
        )
    return rules


def _leave(output: Path, outcome: Outcome, page: str) -> None:
    write_text(output / REPORT, page)
    write_text(output / VERDICT, to_json(outcome.to_data()))


def _validate(given: argparse.Namespace) -> Verdict:
    rules = _rules(given)
    folders = {"before": given.before, "after": given.after}
    manifests = {moment: sources.verify(folder) for moment, folder in folders.items()}
    shape = validation.schemas(folders, manifests)
    if shape.offences:
        raise Broken(shape.finding.reason)
    library = Library()
    spark = local_session(f"groupshift validate {given.stage} {given.moment}")
    compared = validation.compare(spark, library, folders, manifests, rules)
    write_parquet(given.output / DIFFERENCES, compared.differences, _COLUMNS)
    write_parquet(given.output / FAILING, failing_rows(compared.expectations), FAILING_COLUMNS)
    _leave(given.output, compared.outcome, report.render(compared))
    return compared.outcome.verdict


def _clear(output: Path) -> None:
    """Nothing of an earlier run survives, nor of one that could not be finished."""
    fresh(output, (VERDICT, REPORT, DIFFERENCES, FAILING))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code (see the module text)."""
    given = _arguments(argv)
    try:
        with room_in(given.output, ""):
            _clear(given.output)
            verdict = _validate(given)
    except GroupshiftError as error:
        if isinstance(error, Transient):
            _clear(given.output)
        if isinstance(error, Broken):
            migration = given.after.parent.parent.name
            outcome = validation.refusal(given.stage, given.moment, migration, str(error))
            _leave(given.output, outcome, report.refused(outcome))
        print(f"validate: {error}", file=sys.stderr)
        return error.exit_code
    print(f"validate: {verdict}; report at {given.output / REPORT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
