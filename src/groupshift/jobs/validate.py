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

from groupshift.adapters.parquet.compare_inputs import verify
from groupshift.domain.equality import AllowedChanges
from groupshift.domain.evidence import SnapshotOf
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.verdict import Verdict
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.foreign_files import read, text_of
from groupshift.spark import validation
from groupshift.spark import validation_report as report
from groupshift.spark.checks import to_json
from groupshift.spark.expectations import FAILING_COLUMNS, Library, failing_rows
from groupshift.spark.output import fresh, room_in, write_parquet, write_text
from groupshift.spark.session import local_session
from groupshift.spark.validation import Outcome

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


def _rules(given: argparse.Namespace) -> AllowedChanges:
    """What the file of ``--rules`` allows. Raises `Rejected` when it is missing, no such file, or of another
    stage."""
    changes = read_rules(given.rules)
    if (changes.stage, changes.moment) != (given.stage, given.moment):
        raise Rejected(
            f"{given.rules} holds the rules of {changes.stage}/{changes.moment}, not of "
            f"{given.stage}/{given.moment}; give the rules of this stage"
        )
    return changes


def read_rules(path: Path) -> AllowedChanges:
    """What may have changed, from a JSON file. Raises `Rejected` when it is missing or not such a file."""
    try:
        data = load_object(text_of(read(path)), "it", at_most=FILE_BYTES)
    except FileNotFoundError:
        raise Rejected(f"the rules file {path} does not exist; give --rules an existing file") from None
    except OSError as error:
        why = error.strerror or error
        raise Rejected(f"the rules file {path} cannot be read ({why}); give --rules another") from error
    except (ValueError, Rejected) as error:
        raise Rejected(f"the rules file {path} is not JSON ({error})") from error
    return AllowedChanges.from_data(data)


def _leave(output: Path, outcome: Outcome, page: str) -> None:
    write_text(output / REPORT, page)
    write_text(output / VERDICT, to_json(outcome.to_data()))


def _validate(given: argparse.Namespace) -> Verdict:
    changes = _rules(given)
    folders = {"before": given.before, "after": given.after}
    inputs = {moment: verify(folder, of=SnapshotOf.GROUP) for moment, folder in folders.items()}
    library = Library()
    spark = local_session(f"groupshift validate {given.stage} {given.moment}")
    compared = validation.compare(spark, library, inputs, changes)
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
