"""The compiled decoder of coordinator records against its oracle in Python: one Spark job, every column."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession

from groupshift.errors import Rejected
from groupshift.log import LogRecord, decode
from groupshift.spark.batches.coordinator_records import COLUMNS, cell, decoded_batches
from groupshift.spark.coordinator_log import decoded
from groupshift_testing.log_encoder import encode_key, encode_value
from support.coordinator_damage import damaged_records
from support.coordinator_vectors import KEYS, REAL_VALUES, VALUES

PARTITIONS = 50
GROUP = "gä".encode()
RAW = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.text("abc-._19", min_size=0, max_size=300) | TEXT
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


def frame(spark: SparkSession, records: list[LogRecord]) -> DataFrame:
    """Raw records as the transforms want them."""
    columns = zip(*((r.partition, r.offset, r.timestamp_ms, r.key, r.value) for r in records), strict=True)
    return spark.createDataFrame(pa.table([list(c) for c in columns], schema=RAW)).repartition(2)


def record(key: bytes | None, value: bytes | None) -> LogRecord:
    """A record that lies anywhere."""
    return LogRecord(partition=12, offset=0, timestamp_ms=1_700_000_000_000, key=key, value=value)


def vectors() -> list[LogRecord]:
    """Every vector, keys alone and values behind a key of their type; what scenarios 3 and 4 name."""
    fields = {"group": "my-group", "groupId": "my-group", "topic": "t1", "partition": -3, "memberId": "m1"}
    keys = [record(bytes.fromhex(text), None) for text in KEYS.values()]
    values = [
        record(encode_key(number, fields | {"regularExpression": "foo.*"}), bytes.fromhex(text))
        for number, text in (*VALUES.values(), *REAL_VALUES.values())
    ]
    odd = [
        (b"\x7f\xff", None),
        (bytes.fromhex("001800026731"), b""),
        (None, b""),
        (b"", b"x"),
        (b"\0\1", None),
    ]
    return keys + values + [record(key, value) for key, value in odd]


def damaged() -> list[LogRecord]:
    """Ten thousand damaged records; the group's name is of ASCII in every other one."""
    records = damaged_records(10_000, seed=7)
    for number in range(0, len(records), 2):
        key = records[number].key
        records[number] = replace(records[number], key=key and key.replace(GROUP, b"gab"))
    return records


def commits() -> list[LogRecord]:
    """Commits of every version that Hypothesis thinks of."""
    found: list[LogRecord] = []

    @settings(
        max_examples=200,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        version=st.integers(0, 4),
        numbers=st.tuples(INT64, INT64, INT64, INT32, INT32),
        names=st.tuples(NAMES, NAMES, st.text("ä€x", max_size=200) | NAMES),
        topic_id=st.none() | st.just("ABEiM0RVZneImaq7zN3u_w"),
        legacy=st.booleans(),
    )
    def draw(version, numbers, names, topic_id, legacy) -> None:
        key = encode_key(0 if legacy else 1, {"group": names[0], "topic": names[1], "partition": numbers[4]})
        fields = {
            "offset": numbers[0],
            "commitTimestamp": numbers[1],
            "expireTimestamp": numbers[2],
            "leaderEpoch": numbers[3],
            "metadata": names[2],
        }
        fields |= {"topicId": topic_id} if version == 4 and topic_id else {}
        found.append(record(key, encode_value(1, version, fields)))

    draw()
    return found


def corpus() -> list[LogRecord]:
    """All of it, numbered through."""
    records = vectors() + commits() + damaged()
    return [replace(each, offset=number) for number, each in enumerate(records)]


@pytest.fixture(scope="module")
def records() -> list[LogRecord]:
    """The corpus."""
    return corpus()


@pytest.fixture(scope="module")
def rows(spark: SparkSession, records: list[LogRecord]) -> dict[int, Row]:
    """What one Spark job made of the corpus, by offset."""
    made = decoded(frame(spark, records), PARTITIONS)
    return {row["src_offset"]: row for row in made.collect()}


def test_every_row_equals_the_oracle(rows: dict[int, Row], records: list[LogRecord]) -> None:
    """Vectors, generated and damaged records: no row is lost, none failed its task, every column is equal."""
    assert len(rows) == len(records)
    for each in records:
        wanted, got = decode(each, partitions=PARTITIONS), rows[each.offset].asDict()
        expected = {name: cell(wanted, name) for name in COLUMNS} | {
            "unknown_tags": dict(wanted.unknown_tags)
        }
        assert got == expected, each


def test_the_corpus_holds_every_status(rows: dict[int, Row]) -> None:
    """The equality above speaks of good and of bad records."""
    found = Counter(row["decode_status"] for row in rows.values())
    assert set(found) == {"ok", "unknown_type", "unknown_version", "trailing_bytes", "error"}
    assert min(found.values()) > 20


def test_ordinary_records_never_go_to_python() -> None:
    """Keys of all types, and values of commits and of types 2 to 8 in the versions that brokers write."""
    fields = {"group": "orders-app", "groupId": "orders-app", "topic": "t", "partition": 1, "memberId": "m"}
    ordinary = [record(encode_key(n, fields | {"regularExpression": "a.*"}), None) for n in range(24)]
    ordinary += [
        record(encode_key(number, fields), bytes.fromhex(text))
        for name, (number, text) in VALUES.items()
        if number <= 8 and name not in {"GMV4", "CG5c"}  # flexible classic group; classic member of a new one
    ]
    columns = zip(*((r.partition, r.offset, r.timestamp_ms, r.key, r.value) for r in ordinary), strict=True)
    (usual,) = decoded_batches(pa.record_batch([list(each) for each in columns], schema=RAW), PARTITIONS)
    assert len(usual) == len(ordinary) > 40


def test_a_count_below_one_is_refused(spark: SparkSession, records: list[LogRecord]) -> None:
    """A topic of no partitions holds no group."""
    with pytest.raises(Rejected, match="0 partitions"):
        decoded(frame(spark, records[:1]), 0)


def test_without_a_count_nothing_is_foreign(spark: SparkSession, records: list[LogRecord]) -> None:
    """No expected partition, no verdict about it."""
    found = decoded(frame(spark, records[:40]), None).select("expected_partition", "is_foreign").distinct()
    assert found.collect() == [Row(expected_partition=None, is_foreign=None)]
