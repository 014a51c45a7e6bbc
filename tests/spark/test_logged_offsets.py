"""A snapshot against the bytes of the log, by Spark, and against what the same rules in Python say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.log import LogRecord
from groupshift.moves.expansion.logged_offsets import LoggedPlaces, LogReading
from groupshift.moves.expansion.restore import agreement
from groupshift.spark.compare.differences import committed
from groupshift.spark.coordinator_log import commits, decoding
from groupshift.spark.segments import OFFSETS_TOPIC, read_segments, scan_segments
from groupshift.spark.verify_log import unlike
from groupshift_testing.log_encoder import encode_key, encode_value
from support.batch_encoder import Record, batch

COUNT = 8
GROUPS = ("a", "gruppe-äöü", "emoji-🚀", "polygenelubricants", "my-group", "orders", "billing", "ledger")
_KEPT = "`group` string, topic string, partition int, offset bigint, leader_epoch int, metadata string"


def written(at: int, row: OffsetRow, *, place: int | None = None, dead: bool = False) -> LogRecord:
    """The record of a commit where its group belongs, or elsewhere."""
    said = {
        "offset": row.offset,
        "leaderEpoch": -1 if row.leader_epoch is None else row.leader_epoch,
        "metadata": row.metadata or "",
        "commitTimestamp": 1_000 + at,
    }
    return LogRecord(
        partition=partition_of(row.group, COUNT) if place is None else place,
        offset=at,
        timestamp_ms=1_000 + at,
        key=encode_key(1, {"group": row.group, "topic": row.topic, "partition": row.partition}),
        value=None if dead else encode_value(1, 3, said),
    )


def in_spark(spark: SparkSession, folder: Path, kept: list[OffsetRow], log: list[LogRecord]) -> DataFrame:
    """The check over segment files with these records."""
    for partition in range(COUNT):
        mine = [each for each in log if each.partition == partition]
        path = folder / f"{OFFSETS_TOPIC}-{partition}" / f"{0:020}.log"
        path.parent.mkdir(parents=True)
        records = (
            Record(offset=each.offset, timestamp_ms=each.timestamp_ms, key=each.key, value=each.value)
            for each in mine
        )
        path.write_bytes(b"".join(batch([each]) for each in records))
    found = read_segments(spark, scan_segments(spark, str(folder)), into=decoding(COUNT, winners=True))
    rows = [(r.group, r.topic, r.partition, r.offset, r.leader_epoch, r.metadata) for r in kept]
    frame = spark.createDataFrame(rows, _KEPT).selectExpr(
        "*",
        "-1L AS commit_timestamp_ms",
        "-1L AS expire_timestamp_ms",
        "'' AS topic_id",
        "'' AS record_sha256",
    )
    return unlike(committed(frame), commits(found))


def row(group: str, offset: int = 7, epoch: int | None = 2, metadata: str = "grüße") -> OffsetRow:
    """A commit of partition 0 of topic t."""
    return OffsetRow(
        group=group, topic="t", partition=0, offset=offset, leader_epoch=epoch, metadata=metadata
    )


def test_nothing_is_said_of_offsets_that_lie_where_they_belong(spark: SparkSession, tmp_path: Path) -> None:
    """Older records, records elsewhere, deleted ones and a committed -1 are no differences."""
    kept = [row(group, number) for number, group in enumerate(GROUPS[:-1])]
    log = [written(number, row(group, 99)) for number, group in enumerate(GROUPS)]
    log += [written(20 + number, each) for number, each in enumerate(kept)]
    log += [written(40, row(GROUPS[-1]), dead=True), written(41, row("never", -1))]
    stray = (partition_of("a", COUNT) + 1) % COUNT
    log += [written(42, row("a", 55), place=stray)]
    assert in_spark(spark, tmp_path, kept, log).collect() == []


DIFFERING = {
    "offset 7 of the snapshot is not in the log": ([row("a")], [written(0, row("a"), dead=True)]),
    "offset 7 is in the log, and not in the snapshot": ([], [written(0, row("a"))]),
    "offset 7 of the snapshot is 8 in the log": ([row("a")], [written(0, row("a", 8))]),
    "leader epoch 2 of the snapshot is -1 in the log": ([row("a")], [written(0, row("a", epoch=None))]),
    "5 characters of metadata of the snapshot are 5 others in the log": (
        [row("a")],
        [written(0, row("a", metadata="Grüße"))],
    ),
    "0 characters of metadata of the snapshot are 1 others in the log": (
        [row("a", metadata="")],
        [written(0, row("a", metadata="\0"))],
    ),
}


@pytest.mark.parametrize("said", DIFFERING)
def test_each_difference_is_said(spark: SparkSession, tmp_path: Path, said: str) -> None:
    """In words, with both values."""
    kept, log = DIFFERING[said]
    found = in_spark(spark, tmp_path, kept, log).collect()
    assert [tuple(each) for each in found] == [("a", "t", 0, said)]


def test_says_what_the_same_rules_in_python_say(spark: SparkSession, tmp_path: Path) -> None:
    """Of commits drawn at random, some in the log only, some elsewhere, some deleted."""
    draw = random.Random(7)
    drawn = [row(draw.choice(GROUPS), draw.randrange(-1, 3), draw.choice([None, 1])) for _ in range(400)]
    log = [
        written(at, each, place=draw.choice([None, None, 3]), dead=draw.random() < 0.2)
        for at, each in enumerate(drawn)
    ]
    kept = list({each.group: each for each in draw.sample(drawn, 12)}.values())
    wanted = sorted({group for group, _ in agreement(kept, LoggedPlaces(LogReading(log), COUNT))})
    found = in_spark(spark, tmp_path, kept, log).collect()
    assert sorted({each["group"] for each in found}) == wanted
    assert wanted
