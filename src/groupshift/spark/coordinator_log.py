"""Records of ``__consumer_offsets`` → decoded rows: SQL for what brokers write all day, Python for the rest.

Raw records are frames of ``partition int, offset long, timestamp_ms long, key binary, value binary``
(`RAW`); decoded ones have the columns of `DECODED`. Two lanes, one answer:

* `sql/coordinator_log/decode.sql` decodes every key of a known type, tombstones and commits, in generated
  code; it vouches (column ``sure``) only for rows of which it can account for each byte.
* All other rows go to `groupshift.domain.coordinator_log.decode` in Arrow batches: values with nested arrays
  (types 2 to 24), and whatever is odd: unknown types, versions or tags, damaged or left-over bytes, and
  group names beyond ASCII (SQL has no hash over UTF-16 code units).

The columns of a commit's value are columns of their own; ``decoded`` is JSON, and null for commits.
Source: specs/group-coordinator.md §§1 and 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.domain.coordinator_log import Decoded, LogRecord, decode
from groupshift.domain.coordinator_log.types import TYPES
from groupshift.errors import Rejected

RAW = "partition int, offset long, timestamp_ms long, key binary, value binary"
COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "src_partition": ("int", pa.int32()),
    "src_offset": ("bigint", pa.int64()),
    "record_ts": ("bigint", pa.int64()),
    "record_type": ("int", pa.int32()),
    "type_name": ("string", pa.string()),
    "key_version": ("int", pa.int32()),
    "group_id": ("string", pa.string()),
    "group_guessed": ("boolean", pa.bool_()),
    "member_id": ("string", pa.string()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "is_tombstone": ("boolean", pa.bool_()),
    "value_version": ("int", pa.int32()),
    "layout": ("string", pa.string()),
    "committed_offset": ("bigint", pa.int64()),
    "leader_epoch": ("int", pa.int32()),
    "metadata": ("string", pa.string()),
    "commit_timestamp_ms": ("bigint", pa.int64()),
    "expire_timestamp_ms": ("bigint", pa.int64()),
    "topic_id": ("string", pa.string()),
    "decoded": ("string", pa.string()),
    "unknown_tags": ("map<string,string>", pa.map_(pa.string(), pa.string())),
    "raw_key": ("binary", pa.binary()),
    "raw_value": ("binary", pa.binary()),
    "decode_status": ("string", pa.string()),
    "problem": ("string", pa.string()),
    "expected_partition": ("int", pa.int32()),
    "is_foreign": ("boolean", pa.bool_()),
}
DECODED = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
"""Schema of decoded rows; ``record_ts`` and the timestamps of commits are epoch ms."""

_COMMIT_FIELDS = {
    "committed_offset": "offset",
    "leader_epoch": "leaderEpoch",
    "metadata": "metadata",
    "commit_timestamp_ms": "commitTimestamp",
    "expire_timestamp_ms": "expireTimestamp",
    "topic_id": "topicId",
}
_COMMITS = frozenset({0, 1})
_HASH = "java_hash"
_NAMES = tuple(TYPES[number].name for number in range(len(TYPES)))


def decoded(records: DataFrame, partitions: int | None) -> DataFrame:
    """The decoded rows (`DECODED`) of raw `records`, in no promised order.

    ``partitions`` is the count that groups are placed by (null: no expected partition). Reads
    `records` twice, once a lane. Raises `Rejected` for a count below 1.
    """
    if partitions is not None and partitions < 1:
        raise Rejected(
            f"a topic of {partitions} partitions holds no group; give the partition count, 1 or more"
        )
    seen = judged(records, partitions)
    in_sql = seen.where("sure").drop("sure")
    rest = seen.where("NOT sure").select(
        F.col("src_partition").alias("partition"),
        F.col("src_offset").alias("offset"),
        F.col("record_ts").alias("timestamp_ms"),
        F.col("raw_key").alias("key"),
        F.col("raw_value").alias("value"),
    )
    return in_sql.unionByName(rest.mapInArrow(_by_python(partitions), DECODED))


def judged(records: DataFrame, partitions: int | None) -> DataFrame:
    """All rows as SQL sees them; of a row that is not ``sure`` only the raw columns mean anything."""
    spark = records.sparkSession
    _register_java_hash(spark)
    given = {"partitions": partitions, "names": list(_NAMES), "byte_of": _byte_of()}
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")  # taken into the expressions when they are analysed
    try:
        return spark.sql(statement("decode"), args=given, records=records)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", ansi or "true")


@cache
def statement(name: str) -> str:
    """The text of one statement of ``sql/coordinator_log``; `FileNotFoundError` when there is none."""
    folder = files("groupshift").joinpath("sql", "coordinator_log")
    return folder.joinpath(f"{name}.sql").read_text(encoding="utf-8")


def _byte_of() -> list[int]:
    """crc32 of one byte differs from every other's in its highest eight bits: those → the byte."""
    table = [0] * 256
    for byte in range(256):
        table[crc32(bytes([byte])) >> 24] = byte
    return table


def _register_java_hash(spark: SparkSession) -> None:
    """Catalyst has String.hashCode of ASCII text (Hive's bucketing hash), only no name for it in SQL."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way to name an expression
    hive = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.HiveHash")
    tag = jvm.scala.reflect.ClassTag.apply(hive)
    since = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    built = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase.build(_HASH, since, tag)
    registry = spark._jsparkSession.sessionState().functionRegistry()  # noqa: SLF001
    registry.createOrReplaceTempFunction(_HASH, built._2(), "built-in")  # noqa: SLF001


def _by_python(partitions: int | None) -> Any:
    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _converted(batch, partitions)

    return convert


def _converted(batch: pa.RecordBatch, partitions: int | None) -> pa.RecordBatch:
    columns = [
        batch.column(name).to_pylist() for name in ("partition", "offset", "timestamp_ms", "key", "value")
    ]
    rows = [
        decode(LogRecord(partition=p, offset=o, timestamp_ms=t, key=k, value=v), partitions=partitions)
        for p, o, t, k, v in zip(*columns, strict=True)
    ]
    arrays = [pa.array([cell(row, name) for row in rows], kind) for name, (_, kind) in COLUMNS.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def cell(row: Decoded, column: str) -> Any:
    """What a decoded row of the oracle has in a column of `DECODED`."""
    commit = row.record_type in _COMMITS
    if column in _COMMIT_FIELDS:
        return row.decoded.get(_COMMIT_FIELDS[column]) if commit and row.decoded else None
    if column == "decoded":
        return (
            None
            if commit or row.decoded is None
            else json.dumps(row.decoded, ensure_ascii=False, separators=(",", ":"))
        )
    if column == "unknown_tags":
        return list(row.unknown_tags.items())
    if column == "decode_status":
        return row.decode_status.value
    return getattr(row, column)
