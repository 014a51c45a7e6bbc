"""The decoded state of a log, found by the tasks that read it, against the rules applied to its records."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from groupshift.errors import Rejected
from groupshift.spark.coordinator_log import decoded, decoding, winners
from groupshift.spark.segments import OFFSETS_TOPIC, Into, read_segments, scan_segments
from support.batch_encoder import TRANSACTIONAL, Record, batch, marker
from support.coordinator_vectors import KEYS, VALUES

PARTITIONS = 3


def lines(frame: DataFrame) -> list[str]:
    """The rows in one order."""
    return sorted(map(repr, frame.collect()))


def write_log(folder: Path) -> None:
    """Three partitions of two segments each; keys come again, some tombstones, one transaction is aborted."""
    draw = random.Random(11)
    keys = [bytes.fromhex(key) for key in KEYS.values()]
    values = [bytes.fromhex(value) for _, value in VALUES.values()]
    for partition in range(PARTITIONS):
        for base in (0, 200):
            made = [
                Record(
                    offset=at,
                    timestamp_ms=1_000 + at,
                    key=draw.choice(keys),
                    value=draw.choice([None, *values]),
                )
                for at in range(base, base + 150)
            ]
            log = b"".join(batch(made[at : at + 10]) for at in range(0, 150, 10))
            undone = Record(offset=base + 150, timestamp_ms=9, key=keys[0], value=b"never")
            log += batch([undone], attributes=TRANSACTIONAL, producer=9) + marker(base + 151, 9, commit=False)
            path = folder / f"{OFFSETS_TOPIC}-{partition}" / f"{base:020}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(log)


def test_equals_the_decoded_winners(spark: SparkSession, tmp_path: Path) -> None:
    """Every column of every row; a partition has several files, which are pieces of one task."""
    write_log(tmp_path)
    log = scan_segments(spark, str(tmp_path))
    assert any(len(each.facts) > 1 for each in log.partitions)
    wanted = lines(decoded(winners(read_segments(spark, log)), PARTITIONS))
    assert wanted == lines(read_segments(spark, log, into=decoding(PARTITIONS, winners=True)))
    assert len(wanted) > PARTITIONS * 5


def test_tasks_write_the_same_rows_in_place_of_what_was_there(
    spark: SparkSession, parquet_log: ModuleType, tmp_path: Path
) -> None:
    """Files of the tasks hold what the frame gives; the folder is replaced whole."""
    write_log(tmp_path / "log")
    log = scan_segments(spark, str(tmp_path / "log"))
    state, output = decoding(PARTITIONS, winners=True), tmp_path / "state"
    output.mkdir()
    (output / "old.parquet").write_bytes(b"of a run before")
    rows = parquet_log.write_by_tasks(lambda into: read_segments(spark, log, into=into), state, output)
    frame = read_segments(spark, log, into=state)
    found = spark.read.parquet(str(output))
    assert lines(found.select(*frame.columns)) == lines(frame)
    assert rows == frame.count()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "state"]


def test_an_attempt_that_failed_leaves_nothing(
    spark: SparkSession, parquet_log: ModuleType, tmp_path: Path
) -> None:
    """A file that no finished task named is removed; a job that fails puts nothing in place."""
    write_log(tmp_path / "log")
    log = scan_segments(spark, str(tmp_path / "log"))
    state, output = decoding(PARTITIONS, winners=True), tmp_path / "state"

    def beside(into: Into) -> DataFrame:
        (tmp_path / "state.part" / "part-lost.parquet").write_bytes(b"half")
        return read_segments(spark, log, into=into)

    parquet_log.write_by_tasks(beside, state, output)
    assert not (output / "part-lost.parquet").exists()
    kept = sorted(path.name for path in output.iterdir())
    (tmp_path / "log" / f"{OFFSETS_TOPIC}-1" / f"{0:020}.log").unlink()
    with pytest.raises(PySparkException):
        parquet_log.write_by_tasks(lambda into: read_segments(spark, log, into=into), state, output)
    assert sorted(path.name for path in output.iterdir()) == kept
    assert not (tmp_path / "state.part").exists()


def test_a_count_below_one_is_refused() -> None:
    """As for a frame."""
    with pytest.raises(Rejected, match="give the partition count, 1 or more"):
        decoding(0)
