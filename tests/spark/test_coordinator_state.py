"""State out of coordinator records in Spark: scenarios 10 to 12, and equality with the rules in Python."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from groupshift.log import LogRecord, decode
from groupshift.log.group_states import State, materialise, retention_risks
from groupshift.spark import coordinator_log as states
from groupshift.spark.coordinator_log import decoded
from groupshift.spark.segments import SCHEMA, segments
from support.batch_encoder import TRANSACTIONAL, Record, batch, marker
from support.coordinator_story import (
    PARTITIONS,
    Line,
    T,
    classic,
    commit,
    consumer_group,
    current,
    epoch,
    gone,
    member,
    record,
    target,
    to_classic,
)

COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")
RAW = pa.schema(
    list(zip(COLUMNS, (pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary()), strict=True))
)
DAY = 86_400_000


def frame(spark: SparkSession, records: list[LogRecord]) -> DataFrame:
    """Raw records as the sources give them."""
    columns = [[getattr(each, name) for each in records] for name in COLUMNS]
    return spark.createDataFrame(pa.table(columns, schema=RAW), SCHEMA)


def won(records: DataFrame) -> dict[tuple[str, str, int], int | None]:
    """(group, topic, partition) → committed offset, None for a tombstone, of what won at home."""
    rows = states.commits(decoded(states.winners(records).select(*COLUMNS), PARTITIONS)).collect()
    return {(r.group_id, r.topic, r["partition"]): r.offset for r in rows if not r.is_foreign}


def test_coordinator_10_aborted_commits_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """Aborted is ignored, committed counts from its own offset, not its marker's; from a segment file."""

    def write(line: Line, at: int, producer: int = -1) -> bytes:
        raw = record(line, at)
        entry = Record(offset=at, timestamp_ms=T, key=raw.key, value=raw.value)
        return batch([entry], attributes=TRANSACTIONAL if producer >= 0 else 0, producer=producer)

    parts = (
        write(commit(partition=0, offset=10), 0),
        write(commit(partition=0, offset=11), 1, producer=7),
        marker(2, 7, commit=False),
        write(commit(partition=1, offset=20), 3, producer=8),
        write(commit(partition=1, offset=21), 4),
        marker(5, 8, commit=True),
        write(commit(partition=2, offset=30), 6),
        write(commit(partition=2, offset=31), 7, producer=9),
        marker(8, 9, commit=True),
    )
    home = record(commit(), 0).partition
    path = tmp_path / f"__consumer_offsets-{home}" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(b"".join(parts))
    assert won(segments(spark, str(tmp_path))) == {("g", "t1", 0): 10, ("g", "t1", 1): 21, ("g", "t1", 2): 31}


def test_coordinator_11_both_commit_types_are_one_offset(spark: SparkSession) -> None:
    """Type 0, then type 1, for the same partition: the later wins, whichever type it has."""
    lines = [commit(offset=1, kind=0), commit(offset=2, kind=1), commit(partition=1, offset=3, kind=1)]
    lines.append(commit(partition=1, offset=4, kind=0))
    records = [record(line, at) for at, line in enumerate(lines)]
    assert won(frame(spark, records)) == {("g", "t1", 0): 2, ("g", "t1", 1): 4}


def test_coordinator_12_offset_order_beats_timestamps(spark: SparkSession) -> None:
    """A commit after a tombstone wins although its timestamp is older; a tombstone after a commit too."""
    lines = [
        gone(commit()),
        commit(offset=7, at=T - DAY),
        commit(partition=1, at=T + DAY),
        gone(commit(partition=1)),
    ]
    records = [record(line, at) for at, line in enumerate(lines)]
    random.Random(1).shuffle(records)
    assert won(frame(spark, records)) == {("g", "t1", 0): 7, ("g", "t1", 1): None}


def story() -> list[LogRecord]:
    """A log of all families: commits of both types, conversions, tombstones, foreign and odd records."""
    dice = random.Random(5)
    lines: list[Line] = []
    for number in range(40):
        group = f"group-{number % 9}"
        kinds = [
            [
                commit(
                    group,
                    "t1",
                    dice.randrange(4),
                    offset=number,
                    at=T + dice.randrange(DAY),
                    kind=dice.choice((0, 1)),
                )
            ],
            [commit(group, "t2", 0, offset=number, version=dice.choice((1, 3, 4)))],
            [gone(commit(group, "t1", dice.randrange(4)))],
            consumer_group(group, "m1"),
            to_classic(group, "m1"),
            [classic(group), epoch(group, 9, kind=dice.choice((3, 11)))],
            [member(group, "m2", topics=("t2",)), target(group, "m2"), current(group, "m2")],
        ]
        lines += dice.choice(kinds)
    records = [record(line, at) for at, line in enumerate(lines)]
    stray = [record(commit(f"group-{n}", offset=900 + n), 500 + n, partition=4) for n in range(9)]
    odd = [(b"\x7f\xff\x00\x02g1", b"x"), (b"\x00", b"x"), (records[0].key, b"\x00\x09")]
    return (
        records
        + stray
        + [
            LogRecord(partition=1, offset=600 + n, timestamp_ms=T, key=k, value=v)
            for n, (k, v) in enumerate(odd)
        ]
    )


def at(records: list[LogRecord], up_to: dict[int, int] | None) -> State:
    """What the rules in Python say."""
    return materialise((decode(each, partitions=PARTITIONS) for each in records), up_to)


POSITIONS = (None, dict.fromkeys(range(PARTITIONS), 60), {0: 80, 1: 20, 4: 10_000})


@pytest.mark.parametrize("up_to", POSITIONS, ids=["end", "middle", "uneven"])
def test_state_at_any_position_equals_the_rules(spark: SparkSession, up_to: dict[int, int] | None) -> None:
    """Commits at home and foreign, groups, retention: field by field, at the end and at two positions."""
    records = story()
    wanted = at(records, up_to)
    best = states.winners(frame(spark, records), up_to).cache()
    found = states.commits(decoded(best.select(*COLUMNS), PARTITIONS)).cache()
    rows = {(r.src_partition, r.group_id, r.topic, r["partition"]): r for r in found.collect()}
    at_home = [one for group in wanted.groups.values() for one in group.commits]
    assert len(rows) == len(at_home) + len(wanted.foreign_commits)
    for one in at_home + [each.commit for each in wanted.foreign_commits]:
        got = rows[one.src_partition, one.group_id, one.topic, one.partition].asDict()
        assert got.pop("is_foreign") is (one not in at_home)
        assert got.pop("expected_partition") is not None
        assert got == {name: getattr(one, name) for name in got}
    strays = {
        (r.group_id, r.topic, r["partition"]): (r.offset, r.home_offset, r.newer)
        for r in states.foreign(found).collect()
    }
    assert strays == {
        (each.commit.group_id, each.commit.topic, each.commit.partition):
        (each.commit.offset, each.home and each.home.offset, each.newer)
        for each in wanted.foreign_commits
    }  # fmt: skip
    assert_groups(best, wanted)


def assert_groups(best: DataFrame, wanted: State) -> None:
    """One row per group, and the rule of each of its live commits."""
    rows = {row.group_id: row for row in states.groups(best, PARTITIONS).collect()}
    assert set(rows) == set(wanted.groups)
    for name, group in wanted.groups.items():
        row = rows[name]
        assert (row.family, row.epoch, row.protocol_type) == (group.family, group.epoch, group.protocol_type)
        assert (row.members, row.subscribed) == (
            list(group.members),
            None if group.subscribed is None else sorted(group.subscribed),
        )
        assert (row.live_commits, row.live_records, row.tombstones) == (
            len(group.offsets), len(group.records), len(group.removed)
        )  # fmt: skip
    given = {"retention_ms": 7 * DAY, "now_ms": T + 8 * DAY}
    found = states.retention(best, PARTITIONS, **given).collect()
    expected = [risk for group in wanted.groups.values() for risk in retention_risks(group, **given)]
    assert sorted((r.group_id, r.topic, r["partition"], r.rule, r.overdue) for r in found) == sorted(
        (r.group_id, r.topic, r.partition, r.rule, r.overdue) for r in expected
    )
    assert len(expected) > 5
