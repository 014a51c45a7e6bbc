"""A Parquet dump read by the tasks: the rows that Spark reads; winners only where footers promise order."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from groupshift.errors import Broken, Rejected
from groupshift.spark.coordinator_log import decoded, decoding, winners
from groupshift.spark.segments import AS_READ, Into
from support.coordinator_vectors import KEYS, VALUES

PARTITIONS = 3


def table(partition: int, offsets: list[int]) -> pa.Table:
    """Records with the vectors' keys, which come again, and values."""
    keys, made = list(KEYS.values()), [bytes.fromhex(value) for _, value in VALUES.values()]
    return pa.table(
        {
            "key": [bytes.fromhex(keys[at % len(keys)]) for at in offsets],
            "value": pa.array([None if at % 5 == 0 else made[at % len(made)] for at in offsets], pa.binary()),
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp_ms": pa.array([1_000 + at for at in offsets], pa.int64()),
        }
    )


def lines(frame: DataFrame) -> list[str]:
    """The rows in one order."""
    return sorted(map(repr, frame.collect()))


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Two files a partition: the later one comes first by name, the rows of the other are reversed."""
    for partition in range(PARTITIONS):
        low, high = list(range(300)), list(range(300, 500))
        pq.write_table(table(partition, low[::-1]), tmp_path / f"b-{partition}.parquet")
        pq.write_table(table(partition, high), tmp_path / f"a-{partition}.parquet", row_group_size=64)
    return tmp_path


def test_gives_the_rows_that_spark_reads(spark: SparkSession, parquet_log: ModuleType, dump: Path) -> None:
    """All columns, in the schema of raw records."""
    rows = parquet_log.read_dump(spark, str(dump))
    assert lines(rows) == lines(spark.read.parquet(str(dump)).select(*rows.columns))
    assert rows.count() == PARTITIONS * 500


def test_decodes_what_it_reads_and_finds_winners(
    spark: SparkSession, parquet_log: ModuleType, dump: Path
) -> None:
    """As the frames do."""
    raw = spark.read.parquet(str(dump))
    assert lines(parquet_log.read_dump(spark, str(dump), decoding(PARTITIONS))) == lines(
        decoded(raw, PARTITIONS)
    )
    state = lines(parquet_log.read_dump(spark, str(dump), decoding(PARTITIONS, winners=True)))
    assert state == lines(decoded(winners(raw), PARTITIONS))
    assert 0 < len(state) < PARTITIONS * 500


@pytest.mark.parametrize("what", ["overlap", "mixed"])
def test_winners_of_a_dump_out_of_order_are_refused(
    spark: SparkSession, parquet_log: ModuleType, dump: Path, what: str
) -> None:
    """Two row groups with offsets between each other's, or one of two partitions."""
    more = table(1, [250, 350]) if what == "overlap" else pa.concat_tables([table(0, [600]), table(1, [600])])
    pq.write_table(more, dump / "c.parquet")
    assert not parquet_log.in_order(parquet_log.row_groups(str(dump)))
    with pytest.raises(Rejected, match="not in log order, partition by partition"):
        parquet_log.read_dump(spark, str(dump), Into(winners=True))
    assert parquet_log.read_dump(spark, str(dump), AS_READ).count() == PARTITIONS * 500 + 2


def test_files_that_cannot_be_used_are_named(parquet_log: ModuleType, dump: Path, tmp_path: Path) -> None:
    """Cut off, a column of another type, none at all."""
    with pytest.raises(Rejected, match="holds no Parquet file"):
        parquet_log.row_groups(str(tmp_path / "nothing"))
    wrong = table(0, [1]).drop(["timestamp_ms"])
    pq.write_table(wrong, dump / "c.parquet")
    with pytest.raises(Rejected, match=r"c\.parquet has no column for timestamp_ms; it must be int64"):
        parquet_log.row_groups(str(dump))
    whole = (dump / "a-0.parquet").read_bytes()
    (dump / "a-0.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Broken, match=r"a-0\.parquet is not a whole Parquet file"):
        parquet_log.row_groups(str(dump))
