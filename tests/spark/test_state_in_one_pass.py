"""The decoded state of a log, found by the tasks that read it, against the rules applied to its records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from batch_encoder import TRANSACTIONAL, Record, batch, marker
from coordinator_vectors import KEYS, VALUES
from groupshift.errors import Rejected
from groupshift.spark.batches.records import Keep
from groupshift.spark.coordinator_log import decoded, decoding
from groupshift.spark.coordinator_state import winners
from groupshift.spark.segments import OFFSETS_TOPIC, read_segments, scan_segments

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
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(log)


def test_equals_the_decoded_winners(spark: SparkSession, tmp_path: Path) -> None:
    """Every column of every row; files are cut, so that a partition is several pieces of one task."""
    write_log(tmp_path)
    log = scan_segments(spark, str(tmp_path), cut=2_000)
    assert any(len(facts.cuts) > 1 for each in log.partitions for facts in each.facts)
    wanted = lines(decoded(winners(read_segments(spark, log)), PARTITIONS))
    assert wanted == lines(read_segments(spark, log, into=decoding(PARTITIONS, Keep.WINNERS)))
    assert len(wanted) > PARTITIONS * 5


def test_a_count_below_one_is_refused() -> None:
    """As for a frame."""
    with pytest.raises(Rejected, match="give the partition count, 1 or more"):
        decoding(0)
