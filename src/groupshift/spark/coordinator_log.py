"""Records of ``__consumer_offsets`` as decoded rows, and what they add up to at any position of the log.

Raw records are frames of ``partition int, offset long, timestamp_ms long, key binary, value binary``;
decoded ones have the columns of `DECODED`. There are two ways to decode, with the decoder in Python behind
both:

* `Way.SQL`: ``sql/coordinator_log/decode.sql`` decodes keys of known types, tombstones and commits. It
  vouches (column ``sure``) only for rows of which it can account for each byte; all others go to
  `groupshift.log.decode` in Arrow batches: values with nested arrays (types 2 to 24),
  unknown types, versions or tags, damaged or left-over bytes, and group names beyond ASCII (SQL has no hash
  over UTF-16 code units).
* `Way.COMPILED`: all records pass once, in Arrow batches, through compiled code that knows the usual record
  of types 0 to 8 and every key; the odd ones go to the same decoder in Python.

`winners`, `commits`, `groups` and `retention` take raw records. They decode only winners, so a state table
costs one pass of a hash aggregation over keys and offsets, one that fetches the winners, and the decoding of
as many records as there are keys. They read the records twice: give a dump, not a topic that is compacted
meanwhile. The input must be ``read_committed``: of a committed transaction the record's own offset counts,
records of aborted ones must not be there.

Source: specs/group-coordinator.md §§1 and 2, §1.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.errors import Rejected
from groupshift.log import LogRecord, decode
from groupshift.log.retention import retention_risks
from groupshift.log.schema import TYPES
from groupshift.log.state import State, materialise
from groupshift.spark.batches.coordinator_records import DECODED, RAW_COLUMNS, by_python, compiled_batches
from groupshift.spark.batches.records import Keep
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


WINNERS = ("partition", "offset", "timestamp_ms", "key", "value")
_GROUPS = {
    "group_id": pa.string(),
    "src_partition": pa.int32(),
    "family": pa.string(),
    "families": pa.list_(pa.string()),
    "headless": pa.bool_(),
    "protocol_type": pa.string(),
    "epoch": pa.int32(),
    "state_timestamp": pa.int64(),
    "members": pa.list_(pa.string()),
    "subscribed": pa.list_(pa.string()),
    "live_commits": pa.int64(),
    "commit_tombstones": pa.int64(),
    "live_records": pa.int64(),
    "tombstones": pa.int64(),
}
_RISKS = {
    "group_id": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "rule": pa.string(),
    "reason": pa.string(),
    "expires_at_ms": pa.int64(),
    "when_emptied_ms": pa.int64(),
    "overdue": pa.bool_(),
}
_SQL_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.list_(pa.string()): "array<string>",
}
_Row = dict[str, Any]


def winners(records: DataFrame, up_to: Mapping[int, int] | None = None) -> DataFrame:
    """The raw record that wins for each key of each partition, and how many it has ``beaten``.

    ``up_to`` is a position of the log: partition → end offset, exclusive; of a partition that it does
    not name nothing is taken. None: everything.
    """
    spark = records.sparkSession
    taken = records if up_to is None else records.where(_before(up_to))
    newest = spark.sql(statement("newest"), records=taken)
    return spark.sql(statement("winners"), records=taken, newest=newest)


def _before(up_to: Mapping[int, int]) -> Column:
    condition = F.lit(False)
    for partition, end in up_to.items():
        condition |= (F.col("partition") == partition) & (F.col("offset") < end)
    return condition


def commits(decoded: DataFrame) -> DataFrame:
    """The winning commits of decoded winners, one row per (src_partition, group, topic, partition)."""
    return decoded.sparkSession.sql(statement("commits"), decoded=decoded)


def foreign(commits: DataFrame) -> DataFrame:
    """Those `commits` that lie outside their group's partition, beside what is at home."""
    return commits.sparkSession.sql(statement("foreign"), commits=commits)


def groups(winners: DataFrame, partitions: int) -> DataFrame:
    """One row per group with records at home: family, epoch, members, subscriptions, what was removed.

    The rules are those of `groupshift.log`, in one task per partition of the log.
    """
    return _by_partition(winners, partitions, _GROUPS, _group_rows)


def retention(winners: DataFrame, partitions: int, *, retention_ms: int, now_ms: int) -> DataFrame:
    """Every live commit at home with the rule that says when a broker may forget it.

    ``retention_ms`` is ``offsets.retention.minutes`` in ms, ``now_ms`` the brokers' clock.
    """

    def rows(state: State) -> Iterator[_Row]:
        for group in state.groups.values():
            for risk in retention_risks(group, retention_ms=retention_ms, now_ms=now_ms):
                yield {name: getattr(risk, name) for name in _RISKS}

    return _by_partition(winners, partitions, _RISKS, rows)


def _by_partition(
    winners: DataFrame,
    partitions: int,
    columns: Mapping[str, pa.DataType],
    rows: Callable[[State], Iterable[_Row]],
) -> DataFrame:
    schema = pa.schema(list(columns.items()))

    def convert(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(rows(_state(table, partitions))), schema=schema)

    text = ", ".join(f"{name} {_SQL_TYPES[kind]}" for name, kind in columns.items())
    return winners.select(*WINNERS).groupBy("partition").applyInArrow(convert, text)


def _state(table: pa.Table, partitions: int) -> State:
    raw = zip(*(table.column(name).to_pylist() for name in WINNERS), strict=True)
    records = (LogRecord(partition=p, offset=o, timestamp_ms=t, key=k, value=v) for p, o, t, k, v in raw)
    return materialise(decode(record, partitions=partitions) for record in records)


def _group_rows(state: State) -> Iterator[_Row]:
    for group in state.groups.values():
        live = sum(one.live for one in group.commits)
        yield {
            "group_id": group.group_id,
            "src_partition": group.partition,
            "family": group.family.value,
            "families": sorted(group.families),
            "headless": group.headless,
            "protocol_type": group.protocol_type,
            "epoch": group.epoch,
            "state_timestamp": group.state_timestamp,
            "members": list(group.members),
            "subscribed": None if group.subscribed is None else sorted(group.subscribed),
            "live_commits": live,
            "commit_tombstones": len(group.commits) - live,
            "live_records": len(group.records),
            "tombstones": len(group.removed),
        }
