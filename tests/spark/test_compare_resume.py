"""A comparison that is killed, or runs out of disk, and is run again."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.verdict import Verdict
from groupshift.errors import Transient
from groupshift.spark.compare.comparing import DIFFERENCES, compare
from groupshift.spark.compare.find_by_checksums import Request
from spark.cluster_snapshots import commit, commits, write

PART = 200
KILLED = """
import os, signal
from groupshift.spark.output import Progress
from groupshift.jobs import compare

kept = Progress.table

def table(self, name, make):
    found = kept(self, name, make)
    if name == "segments-before-0002":
        os.killpg(0, signal.SIGKILL)
    return found

Progress.table = table
compare.main()
"""
"""The job, which is killed with its JVM as soon as this part is in place."""


@pytest.fixture
def request_of(tmp_path: Path) -> Callable[..., Request]:
    """Two snapshots of 1,000 rows in four files each, with three differences, read in parts of one file."""
    rows = commits(groups=100, partitions=10)
    after = [commit("extra", 0, 1), *rows[2:], {**rows[1], "offset": 1}]
    before, later = (
        write(tmp_path / name, {"offsets": side}, files=4) for name, side in (("a", rows), ("b", after))
    )

    def request(**changes: object) -> Request:
        usual = {"comparison": Comparison.DOWNGRADE, "part_rows": PART}
        return Request(before=before, after=later, output=tmp_path / "out", **{**usual, **changes})

    return request


def killed(request: Request) -> int:
    """Run the job as a process group of its own until it is killed; how it ended."""
    command = [sys.executable, "-c", KILLED, str(request.before), str(request.after)]
    command += ["--output", str(request.output), "--move", request.comparison, "--part-rows", str(PART)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(240)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_killed_job_does_only_the_rest(spark: SparkSession, request_of: Callable[..., Request]) -> None:
    """SIGKILL in the middle: no verdict is left; the next run takes what was finished and is right."""
    request = request_of()
    progress = request.output / ".progress"
    assert killed(request) == -signal.SIGKILL
    assert (progress / "segments-before-0002.parquet").is_file()
    assert {path.name for path in request.output.iterdir()} == {".progress"}
    (progress / "rows-before-0000.part").mkdir(exist_ok=True)  # as if it had been writing
    outcome = compare(request, session=lambda: spark)
    assert outcome.parts["kept"] >= 3  # checksums of segments
    counts = {name: count for name, count in outcome.counts.items() if count}
    assert counts == {"lost": 1, "extra": 1, "regressed": 1}
    assert {path.name for path in request.output.iterdir()} == {DIFFERENCES, "manifest.json", "verdict.json"}


def test_progress_of_other_inputs_is_not_used(
    tmp_path: Path, spark: SparkSession, request_of: Callable[..., Request]
) -> None:
    """Parts are bound to both manifests, the move and its rules: anything else starts anew."""
    request = request_of()
    with full_disk(os.getpid(), 600), pytest.raises(Transient):
        compare(request, session=lambda: spark)
    kept = len(list((request.output / ".progress").glob("segments-*.parquet")))
    other = request_of(live=True)
    outcome = compare(other, session=lambda: spark)
    assert outcome.parts["kept"] == 0
    assert kept == 0 or outcome.parts["made"] > kept


@contextmanager
def full_disk(process: int, size: int) -> Iterator[None]:
    """No file of that process may grow beyond ``size`` bytes: writes fail as on a full disk. Where it is this
    one, the interpreter writes none of its own meanwhile."""
    soft, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = bytecode


@pytest.mark.parametrize(("who", "size"), [("driver", 100), ("driver", 1000), ("spark", 40_000)])
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(
    tmp_path: Path, spark: SparkSession, who: str, size: int
) -> None:
    """In the driver's own files as in Spark's; with room again the same command ends well."""
    drawn = random.Random(5)
    rows = commits(groups=300, partitions=10)
    noisy = [{**row, "metadata": drawn.randbytes(60).hex()} for row in rows]
    request = Request(
        before=write(tmp_path / "a", {"offsets": rows}),
        after=write(tmp_path / "b", {"offsets": noisy}),
        output=tmp_path / "out",
        comparison=Comparison.DOWNGRADE,
    )
    gateway = SparkContext._gateway
    assert gateway is not None
    victim = os.getpid() if who == "driver" else gateway.proc.pid
    with (
        full_disk(victim, size),
        pytest.raises(Transient, match="is full: make room and run the same command"),
    ):
        compare(request, session=lambda: spark)
    assert {path.name for path in request.output.iterdir()} <= {".progress"}
    assert not [*request.output.rglob("*.part"), *request.output.rglob("_temporary")]
    outcome = compare(request, session=lambda: spark)
    assert (outcome.verdict, outcome.counts["metadata_only"]) == (Verdict.FAIL, 3000)
    found = [pq.read_metadata(path).num_rows for path in (request.output / DIFFERENCES).glob("*.parquet")]
    assert sum(found) == 3000
    manifest = json.loads((request.output / "manifest.json").read_text())
    assert {entry["file"] for entry in manifest["files"]} >= {"verdict.json"}
