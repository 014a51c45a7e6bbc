"""Segment files copied from brokers become rows: what counts, what is kept apart, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.spark_submit.java import java_home
from groupshift.errors import Broken, Rejected
from groupshift.spark.segments import read_segments, scan_segments, segments
from support.batch_encoder import TRANSACTIONAL, Record, batch, marker, message_set

TOPIC = "__consumer_offsets"


def records(*offsets: int) -> list[Record]:
    """A record at each offset; every third is a tombstone."""
    return [
        Record(
            offset=at,
            timestamp_ms=1_000_000 + at,
            key=b"key-%d" % at,
            value=None if at % 3 == 2 else b"value-%d" % at,
        )
        for at in offsets
    ]


def transaction(producer: int, *offsets: int) -> bytes:
    """Records of a transaction."""
    return batch(records(*offsets), attributes=TRANSACTIONAL, producer=producer)


def write(folder: Path, partition: int, base: int, log: bytes) -> Path:
    """One segment file."""
    path = folder / f"{TOPIC}-{partition}" / f"{base:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log)
    return path


def rows(offsets: Sequence[int], partition: int = 0) -> list[tuple[object, ...]]:
    """What is read of `records`."""
    return [(partition, each.offset, each.timestamp_ms, each.key, each.value) for each in records(*offsets)]


def values(frame: DataFrame) -> list[tuple[object, ...]]:
    """The rows of a frame, in order."""
    return [
        tuple(bytes(field) if isinstance(field, bytearray) else field for field in row)
        for row in frame.collect()
    ]


def read(spark: SparkSession, folder: Path) -> list[tuple[object, ...]]:
    """The rows of a folder."""
    return values(segments(spark, str(folder)))


def test_segments_of_several_partitions_are_read_in_log_order(spark: SparkSession, tmp_path: Path) -> None:
    """Old and new formats, gaps, an empty active segment, and files that are no segments."""
    write(tmp_path, 0, 0, message_set(records(0, 1, 2), 0, "gzip") + message_set(records(5), 1))
    write(tmp_path, 0, 6, b"".join(batch(records(at, at + 1), "zstd") for at in range(6, 90, 3)))
    write(tmp_path, 0, 90, b"")
    write(tmp_path, 12, 40, batch(records(41, 44), "lz4"))
    write(tmp_path, 12, 40, batch(records(41, 44), "lz4")).with_suffix(".index").write_bytes(b"x")
    (tmp_path / f"{TOPIC}-12" / "00000000000000000000.log.deleted").write_bytes(b"gone")
    write(tmp_path / "stray", 0, 0, b"").parent.rename(tmp_path / f"{TOPIC}-0.abc-delete")
    log = scan_segments(spark, str(tmp_path))
    got = values(read_segments(spark, log))
    first = [row for row in got if row[0] == 0]
    written = [at + more for at in range(6, 90, 3) for more in (0, 1)]
    assert [(row[1], row[3], row[4]) for row in first] == [
        (row[1], row[3], row[4]) for row in rows([0, 1, 2, 5, *written])
    ]
    assert [row[2] for row in first][:4] == [-1, -1, -1, 1_000_005]  # format 0 has no times
    assert [row for row in got if row[0] == 12] == rows([41, 44], 12)
    assert [(each.log_start, each.log_end, each.torn) for each in log.partitions] == [(2, 90, 0), (41, 45, 0)]


def test_the_partitions_folder_itself_can_be_named(spark: SparkSession, tmp_path: Path) -> None:
    """One partition's folder, by path and by URI."""
    path = write(tmp_path, 3, 0, batch(records(0, 1))).parent
    assert read(spark, path) == rows([0, 1], 3)
    assert segments(spark, path.as_uri()).count() == 2


def test_transactions_count_once_they_are_committed(spark: SparkSession, tmp_path: Path) -> None:
    """Committed, aborted, open: across segments, interleaved, one producer several times."""
    write(
        tmp_path,
        0,
        0,
        batch(records(0))
        + transaction(7, 1, 2)
        + transaction(8, 3)
        + transaction(9, 4)
        + marker(5, 7, commit=True)
        + transaction(7, 6)
        + batch([], base=7, last=7, attributes=TRANSACTIONAL, producer=10),  # emptied: its marker is gone
    )
    write(
        tmp_path,
        0,
        8,
        transaction(9, 8)
        + marker(9, 9, commit=False)
        + marker(10, 7, commit=False)
        + transaction(7, 11)
        + batch(records(12))
        + transaction(9, 13)
        + marker(14, 9, commit=True)
        + marker(15, 8, commit=True)
        + marker(16, 55, commit=False)  # of a transaction that compaction took away
        + batch(records(17)),
    )
    assert [row[1] for row in read(spark, tmp_path)] == [0, 1, 2, 3, 12, 13, 17]
    (facts,) = scan_segments(spark, str(tmp_path)).partitions
    assert (facts.last_stable_offset, facts.log_end) == (11, 18)
    assert facts.transactions.open == {7: 11}


def test_a_torn_end_is_left_out_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    """A live copy may end within a batch; a preallocated file ends in zeros."""
    whole = batch(records(0, 1)) + batch(records(2))
    write(tmp_path, 0, 0, whole + batch(records(3, 4, 5))[:-7])
    write(tmp_path, 1, 0, whole + bytes(1000))
    log = scan_segments(spark, str(tmp_path))
    assert [each.torn for each in log.partitions] == [len(batch(records(3, 4, 5))) - 7, 0]
    assert [row[1] for row in read_segments(spark, log).collect()] == [0, 1, 2, 0, 1, 2]


def damage(log: bytes, at: int, value: int) -> bytes:
    """The log with one byte changed."""
    changed = bytearray(log)
    changed[at] = value
    return bytes(changed)


BATCH = batch(records(0, 1, 2))


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (70, 0xFF, "its checksum does not match its bytes"),
        (8, 0x00 ^ 0x10, r"its length leads past a whole batch at byte \d+"),
        (11, 0, "its length cannot be right|its checksum"),
        (16, 9, "its format is none of 0, 1 and 2"),
        (7, 1, r"its offset 1 is not above those before it"),
    ],
)
def test_damage_in_the_middle_names_file_and_byte(
    spark: SparkSession, tmp_path: Path, at: int, value: int, why: str
) -> None:
    """Each kind of damage is one sentence, before any row is read."""
    later = batch(records(10)) + batch(records(20))
    log = BATCH + damage(batch(records(5)), at, value) + later
    path = write(tmp_path, 0, 0, log)
    with pytest.raises(Broken, match=rf"{path}: byte {len(BATCH)}: the batch there is damaged, ({why})"):
        segments(spark, str(tmp_path))


def test_zeros_before_more_batches_are_damage(spark: SparkSession, tmp_path: Path) -> None:
    """A hole in a sparse copy is not the end of the log."""
    write(tmp_path, 0, 0, BATCH + bytes(64) + batch(records(9)))
    with pytest.raises(Broken, match=f"byte {len(BATCH)}: the batch there is damaged, zeros where"):
        segments(spark, str(tmp_path))


def test_only_the_last_segment_may_be_torn(spark: SparkSession, tmp_path: Path) -> None:
    """A segment that others follow is finished: a shorter one was not copied whole."""
    write(tmp_path, 0, 0, BATCH + batch(records(5))[:-1])
    write(tmp_path, 0, 6, batch(records(6)))
    with pytest.raises(Broken, match=f"byte {len(BATCH)}: the batch there is cut off, and later segments"):
        segments(spark, str(tmp_path))


def test_a_copy_made_during_a_compaction_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Overlapping segments, and one that was about to replace others."""
    write(tmp_path, 0, 0, batch(records(0, 7)))
    write(tmp_path, 0, 5, batch(records(5, 9)))
    with pytest.raises(Broken, match="begins at offset 5, and an earlier segment already reaches 8"):
        segments(spark, str(tmp_path))
    swap = tmp_path / f"{TOPIC}-0" / f"{0:020}.log.swap"
    swap.write_bytes(b"")
    with pytest.raises(Rejected, match=f"{swap} was about to replace other segments"):
        segments(spark, str(tmp_path))


def test_two_brokers_copies_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A partition in two folders is ambiguous."""
    write(tmp_path / "broker-1", 0, 0, batch(records(0, 1)))
    write(tmp_path / "broker-2", 0, 0, batch(records(0, 1, 2)))
    write(tmp_path / "broker-2", 1, 0, batch(records(4)))
    with pytest.raises(Rejected, match=r"partition 0 of __consumer_offsets is in .*broker-1.* and in .*-2"):
        segments(spark, str(tmp_path))


def test_a_place_without_segments_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """No folder, no topic, no file system: each in one sentence."""
    with pytest.raises(Rejected, match="cannot be listed"):
        segments(spark, str(tmp_path / "nowhere"))
    write(tmp_path, 0, 0, BATCH)
    with pytest.raises(Rejected, match="holds no segment file of orders; give a broker's log folder"):
        segments(spark, str(tmp_path), topic="orders")
    with pytest.raises(Rejected, match="cannot be opened"):
        segments(spark, "gopher://there/here")


ALONE = """
import sys
from groupshift.spark.segments import segments
from groupshift.spark.session import local_session
spark = local_session("daemons")
segments(spark, sys.argv[1]).collect()
children = spark.sparkContext._jvm.java.lang.ProcessHandle.current().children().toArray()
print(sum("daemon" in each.info().commandLine().orElse("") for each in children))
spark.stop()
"""
"""In a session that has run nothing before: how many processes Spark forks workers from."""


def test_the_tasks_that_scan_and_those_that_read_are_forked_from_one_process(tmp_path: Path) -> None:
    """Spark forks the workers of an RDD from a second one, which loads all our code again."""
    write(tmp_path, 0, 0, batch(records(0)))
    environment = {**os.environ, "JAVA_HOME": str(java_home())}
    alone = [sys.executable, "-c", ALONE, str(tmp_path)]
    told = subprocess.run(alone, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert told.stdout.split()[-1:] == ["1"], told.stderr
