"""Records of ``__consumer_offsets`` → decoded rows: two ways, and the decoder in Python behind both.

Raw records are frames of ``partition int, offset long, timestamp_ms long, key binary, value binary``;
decoded ones have the columns of `DECODED`. Source: specs/group-coordinator.md §§1 and 2.

* `Way.SQL`: `sql/coordinator_log/decode.sql` decodes keys of known types, tombstones and commits. It vouches
  (column ``sure``) only for rows of which it can account for each byte; all others go to
  `groupshift.log.decode` in Arrow batches: values with nested arrays (types 2 to 24),
  unknown types, versions or tags, damaged or left-over bytes, and group names beyond ASCII (SQL has no hash
  over UTF-16 code units).
* `Way.COMPILED`: all records pass once, in Arrow batches, through compiled code that knows the usual record
  of types 0 to 8 and every key; the odd ones go to the same decoder in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.errors import Rejected
from groupshift.log import LogRecord
from groupshift.log.schema import TYPES
from groupshift.spark.batches.records import Keep
from groupshift.spark.coordinator_arrow import compiled_batches
from groupshift.spark.coordinator_columns import DECODED, RAW_COLUMNS, by_python
from groupshift.spark.segments import Into


class Way(StrEnum):
    """How to decode; the rows are the same."""

    COMPILED = "compiled"
    """Fastest: one pass (docs/evidence.md has figures). Executors need numba."""
    SQL = "sql"
    """Catalyst for keys and commits; reads its input twice."""


_HASH = "java_hash"
_NAMES = tuple(TYPES[number].name for number in range(len(TYPES)))


def decoded(records: DataFrame, partitions: int | None, *, way: Way = Way.COMPILED) -> DataFrame:
    """The decoded rows (`DECODED`) of raw `records`, in no promised order.

    ``partitions`` is the count that groups are placed by (null: no expected partition). Raises `Rejected`
    for a count below 1.
    """
    into = decoding(partitions)
    if way is Way.COMPILED:
        return records.select(*RAW_COLUMNS).mapInArrow(into.convert, into.schema)
    seen = judged(records, partitions)
    in_sql = seen.where("sure").drop("sure")
    rest = seen.where("NOT sure").select(
        F.col("src_partition").alias("partition"),
        F.col("src_offset").alias("offset"),
        F.col("record_ts").alias("timestamp_ms"),
        F.col("raw_key").alias("key"),
        F.col("raw_value").alias("value"),
    )
    return in_sql.unionByName(rest.mapInArrow(_in_batches(partitions), DECODED))


def decoding(partitions: int | None, keep: Keep = Keep.ALL) -> Into:
    """`Way.COMPILED` for the tasks that read segments or brokers: with `Keep.WINNERS` they give the decoded
    state of the log in one pass. Raises as `decoded`."""
    if partitions is not None and partitions < 1:
        raise Rejected(
            f"a topic of {partitions} partitions holds no group; give the partition count, 1 or more"
        )
    return Into(keep=keep, schema=DECODED, convert=compiled_batches(partitions))


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


def _in_batches(partitions: int | None) -> Any:
    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = zip(*(batch.column(name).to_pylist() for name in RAW_COLUMNS), strict=True)
            fields = (dict(zip(RAW_COLUMNS, one, strict=True)) for one in columns)
            yield by_python((LogRecord(**one) for one in fields), partitions)

    return convert
