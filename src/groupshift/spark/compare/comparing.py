"""Compare two cluster snapshots under the rules of a move: files, segments, rows, then the rules."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from groupshift.adapters.parquet import compare_inputs
from groupshift.adapters.parquet.store import entry_of, manifest_bytes
from groupshift.domain.equality_rules import RULES, in_force
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.errors import Rejected
from groupshift.foreign_files import read
from groupshift.spark.checks import to_json
from groupshift.spark.compare import differences, find_by_checksums
from groupshift.spark.compare.differences import Class
from groupshift.spark.compare.find_by_checksums import SIDES, Request, Told, Work
from groupshift.spark.compare.judging import (
    ComparisonOutcome,
    counted,
    incomplete,
    judged,
    needs_spark,
)
from groupshift.spark.output import FOLDER, Progress, fresh, room_in, write_text
from groupshift.spark.session import large_session

VERDICT, DIFFERENCES = "verdict.json", "differences"
_PART = f"{DIFFERENCES}.part"
_OF_COMPARISON = {"verdict", "counts", "inputs", "files"}
"""Keys of the manifest that a comparison leaves."""
_STEPS = 3
"""Raised when a step computes something else: parts of an older release are not used."""


def compare(
    request: Request, progress: Told = lambda *_: None, session: Callable[[], SparkSession] | None = None
) -> ComparisonOutcome:
    """Compare, and leave ``verdict.json``, ``manifest.json`` and the folder ``differences`` (Parquet) below
    ``output``: the folder first, the manifest last. Killed and called again on the same inputs it does what
    is missing. ``progress`` gets the progress; ``session`` gives Spark where this process has it.

    Raises:
        Rejected: the snapshots cannot be compared, or ``output`` holds something else.
        Broken: a snapshot was altered or truncated.
        Transient: a disk is full.
    """
    output, inputs = request.output, _verified(request, progress)
    rules = {rule.field: rule for rule in in_force(RULES[request.comparison], live=request.live)}
    values = differences.compared_fields(rules, (inputs[side].columns["offsets"] for side in SIDES))
    identity = {
        "steps": _STEPS,
        "move": request.comparison.value,
        "commits_went_on": request.live,
        "values": [field.value for field in values],
        "manifests": {side: inputs[side].manifest.digest for side in SIDES},
        "sizes": [request.part_rows, request.rows_at_once],
    }

    def started() -> SparkSession:
        brief = job.few_left and not needs_spark(job)
        return large_session("groupshift compare", request.memory, brief=brief)

    with room_in(output):
        fresh(output, (MANIFEST, VERDICT, f"{MANIFEST}.part", f"{VERDICT}.part"))  # no verdict survives
        for name in (DIFFERENCES, _PART):
            shutil.rmtree(output / name, ignore_errors=True)
        job = Work(
            request=request,
            inputs=inputs,
            rules=rules,
            values=values,
            progress=Progress(root=output / FOLDER, identity=identity),
            session=session or started,
            tell=progress,
        )
        try:
            outcome, parts = _compared(job)
            _leave(output, outcome, parts)
        finally:
            job.progress.sweep()
            shutil.rmtree(output / _PART, ignore_errors=True)
        job.progress.remove()
    return outcome


def _verified(request: Request, progress: Told) -> Mapping[str, compare_inputs.Input]:
    """Both snapshots by side, proven whole and fit to be compared."""
    folders = {"before": request.before, "after": request.after}
    manifests = {side: compare_inputs.read_manifest(folder) for side, folder in folders.items()}
    compare_inputs.comparable(manifests["before"], manifests["after"], request.comparison)
    if request.output.resolve() in {folder.resolve() for folder in folders.values()}:
        raise Rejected(f"--output {request.output} is one of the snapshots: name another folder")
    _refuse_foreign(request.output)
    total = sum(entry.bytes for manifest in manifests.values() for entry in manifest.files) >> 20
    done = 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        progress("MiB hashed", done >> 20, total)

    return {side: compare_inputs.verify(folder, count) for side, folder in folders.items()}


def _refuse_foreign(output: Path) -> None:
    """Raises `Rejected` for a folder with a manifest, a verdict or differences that no comparison left there:
    this one would remove them (of another snapshot, an audit, a proof)."""
    manifest = output / MANIFEST
    keys: Collection[str] = ()
    with suppress(OSError, Rejected):
        keys = load_object(read(manifest), "it", at_most=FILE_BYTES)
    ours = _OF_COMPARISON.issubset(keys)
    killed = (output / FOLDER).is_dir() and not manifest.exists()
    there = [name for name in (MANIFEST, VERDICT, DIFFERENCES) if (output / name).exists()]
    if there and not (ours or killed):
        raise Rejected(
            f"--output {output} holds {there[0]}, which no comparison wrote: name another folder "
            "(a new one, or that of an earlier comparison)"
        )


def _compared(job: Work) -> tuple[ComparisonOutcome, list[Path]]:
    """What was found, and folders with the differences. Each step leaves less to the next one: files of other
    bytes, segments with other checksums, rows."""
    settled_by, paths, segments = "files of the same bytes", list[Path](), dict[str, int]()
    left = find_by_checksums.left_by_bytes(job)
    if any(left.values()):
        settled_by, numbers = "checksums of segments", find_by_checksums.differing_segments(job, left)
        segments = {"differing": len(numbers), "all": job.segments}
        if len(numbers):
            settled_by, paths = "rows", find_by_checksums.found_differences(job, numbers)
    others = [
        Counter((one.table, one.sha256) for one in job.inputs[side].manifest.files if one.table != "offsets")
        for side in SIDES
    ]
    alike = others[0] == others[1] and settled_by != "rows"
    totals = {class_.value: 0 for class_ in Class}
    allowed, refused = dict(totals), Counter[str]()
    for row in counted(paths):
        totals[row["class"]] += row["count_all"]
        if row["allowed"]:
            allowed[row["class"]] += row["count_all"]
        else:
            refused[row["rule"]] += row["count_all"]
    results = judged(job, paths, refused, alike=alike and not needs_spark(job))
    outcome = ComparisonOutcome(
        move=job.request.comparison,
        commits_went_on=job.request.live,
        results=tuple(sorted(results, key=lambda one: one.finding.rule)),
        counts=totals,
        allowed=allowed,
        rows={side: sum(entry.rows for entry in job.entries(side)) for side in SIDES},
        manifests={side: job.inputs[side].manifest.digest for side in SIDES},
        settled_by=settled_by,
        incomplete=tuple(incomplete(job)),
        segments=segments,
        parts={"kept": job.progress.kept, "made": job.progress.made},
    )
    return outcome, paths


def _leave(output: Path, outcome: ComparisonOutcome, parts: list[Path]) -> None:
    """Put the results in place whole: differences, verdict, and the manifest that names them last."""
    part = output / _PART
    part.mkdir()
    for number, folder in enumerate(parts):
        for piece, path in enumerate(sorted(folder.glob("*.parquet"))):
            shutil.copyfile(path, part / f"differences-{number:04d}-{piece:04d}.parquet")
    os.replace(part, output / DIFFERENCES)  # noqa: PTH105 - the atomic one
    write_text(output / VERDICT, to_json(outcome.to_data()))
    entries = []
    for path in (output / VERDICT, *sorted((output / DIFFERENCES).glob("*.parquet"))):
        rows = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else 1
        name = path.relative_to(output).as_posix()
        entries.append(entry_of(DIFFERENCES, name, rows, path.read_bytes()))
    about = {"verdict": outcome.verdict.value, "counts": outcome.counts, "inputs": outcome.manifests}
    write_text(output / MANIFEST, manifest_bytes(about, entries).decode())
