"""Differences of committed offsets, row by row, each in one class. Pure: frames in, a frame out.

Rows of both snapshots are brought together by their whole key and counted there, not joined: a group of
millions of rows is spread over all tasks, and a key that occurs a thousand times on each side makes one
row of class ``duplicate``, not a million.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from groupshift.adapters.parquet.compare_inputs import Input
from groupshift.domain.equality_rules import EqualityRule, Field, Kind
from groupshift.domain.evidence import CLUSTER_TABLES, KEY, ColumnType

VALUES = (
    Field.OFFSET,
    Field.LEADER_EPOCH,
    Field.METADATA,
    Field.COMMIT_TIMESTAMP,
    Field.EXPIRE_TIMESTAMP,
    Field.TOPIC_ID,
    Field.RECORD,
)
"""The fields of a commit; every one is a column of table ``offsets``."""


class Class(StrEnum):
    """The classes of differences; a row is in the first that fits."""

    DUPLICATE = "duplicate"
    """The key occurs more than once in a snapshot; its rows are not compared."""
    LOST = "lost"
    EXTRA = "extra"
    REGRESSED = "regressed"
    ADVANCED = "advanced"
    LEADER_EPOCH = "leader_epoch"
    METADATA_ONLY = "metadata_only"
    TIMESTAMP = "timestamp"
    """Commit time or explicit expiry."""
    RECORD = "record"
    """Topic id, or the bytes of the record."""


COLUMNS = (
    "class",
    "rule",
    *KEY,
    *(f"{moment}_{field}" for field in VALUES for moment in ("before", "after")),
    "before_rows",
    "after_rows",
    "log_end",
    "allowed",
)
"""Of the Parquet files with differences. ``rule`` is the number of the rule that decides, ``log_end`` that
of the later snapshot (null where unknown); a value that the rules do not compare is null."""

_CHANGED: Mapping[Field, Class] = {
    Field.LEADER_EPOCH: Class.LEADER_EPOCH,
    Field.METADATA: Class.METADATA_ONLY,
    Field.COMMIT_TIMESTAMP: Class.TIMESTAMP,
    Field.EXPIRE_TIMESTAMP: Class.TIMESTAMP,
    Field.TOPIC_ID: Class.RECORD,
    Field.RECORD: Class.RECORD,
}
_LONG = {Field.OFFSET, Field.COMMIT_TIMESTAMP, Field.EXPIRE_TIMESTAMP}
_INT = {Field.LEADER_EPOCH}
_UNCOMPARED = frozenset({Kind.IGNORE, Kind.WITHIN})

Rules = Mapping[Field, EqualityRule]


def compared(rules: Rules, columns: Iterable[frozenset[str]]) -> tuple[Field, ...]:
    """The fields of a commit that the rules compare and that every side has."""
    sides = list(columns)
    return tuple(
        field
        for field in VALUES
        if rules[field].kind not in _UNCOMPARED and all(field.value in side for side in sides)
    )


def _sided(rows: DataFrame, values: Iterable[Field], side: str) -> DataFrame:
    other = "after" if side == "before" else "before"
    given = list(values)
    mine = [F.col(f"`{field}`").alias(f"{side}_{field}") for field in given]
    theirs = [F.lit(None).cast(_type(field)).alias(f"{other}_{field}") for field in given]
    counts = [F.lit(1).alias(f"{side}_rows"), F.lit(0).alias(f"{other}_rows")]
    return rows.select(*(F.col(f"`{name}`") for name in KEY), *mine, *theirs, *counts)


def _type(field: Field) -> str:
    return "bigint" if field in _LONG else "int" if field in _INT else "string"


def paired(before: DataFrame, after: DataFrame, values: Iterable[Field]) -> DataFrame:
    """One row a key, with how often each side has it and its values on either side."""
    given = list(values)
    both = _sided(before, given, "before").unionByName(_sided(after, given, "after"))
    columns = [f"{moment}_{field}" for field in given for moment in ("before", "after")]
    counts = [F.sum(name).cast("int").alias(name) for name in ("before_rows", "after_rows")]
    return both.groupBy(*KEY).agg(*(F.max(name).alias(name) for name in columns), *counts)


def classified(
    pairs: DataFrame, values: Iterable[Field], rules: Rules, log_ends: DataFrame | None
) -> DataFrame:
    """The keys that differ: `COLUMNS`. Advanced offsets are allowed up to ``log_ends`` (topic,
    partition, log_end) where the rule says so, and not at all where it is not known."""
    given = list(values)
    class_, rule = _class(given, rules)
    found = pairs.withColumn("class", class_).where(F.col("class").isNotNull()).withColumn("rule", rule)
    if log_ends is None:
        found = found.withColumn("log_end", F.lit(None).cast("bigint"))
    else:
        ends = log_ends.select("topic", "partition", "log_end").dropDuplicates(["topic", "partition"])
        found = found.join(F.broadcast(ends), ["topic", "partition"], "left")
    for field in (field for field in VALUES if field not in given):
        for moment in ("before", "after"):
            found = found.withColumn(f"{moment}_{field}", F.lit(None).cast(_type(field)))
    return found.withColumn("allowed", _allowed(rules)).select(*(F.col(f"`{name}`") for name in COLUMNS))


def _class(given: list[Field], rules: Rules) -> tuple[Column, Column]:
    """The class of a pair and the number of the rule that decides about it; null where nothing differs."""
    cases: list[tuple[Column, Class, Field]] = [
        ((F.col("before_rows") > 1) | (F.col("after_rows") > 1), Class.DUPLICATE, Field.KEYS),
        (F.col("after_rows") == 0, Class.LOST, Field.COMMITTED),
        (F.col("before_rows") == 0, Class.EXTRA, Field.COMMITTED),
    ]
    if Field.OFFSET in given:
        cases.append((F.col("after_offset") < F.col("before_offset"), Class.REGRESSED, Field.OFFSET))
        cases.append((F.col("after_offset") > F.col("before_offset"), Class.ADVANCED, Field.OFFSET))
    cases += [(_changed(field), class_, field) for field, class_ in _CHANGED.items() if field in given]
    class_ = reduce(
        lambda chain, case: chain.when(case[0], case[1].value),
        cases[1:],
        F.when(cases[0][0], cases[0][1].value),
    )
    rule = reduce(
        lambda chain, case: chain.when(case[0], rules[case[2]].number),
        cases[1:],
        F.when(cases[0][0], rules[cases[0][2]].number),
    )
    return class_, rule


def _changed(field: Field) -> Column:
    """Whether a value differs; of topic ids only where both are known: older writers leave them out."""
    before, after = F.col(f"before_{field}"), F.col(f"after_{field}")
    both = (before != "") & (after != "") if field is Field.TOPIC_ID else F.lit(True)
    return both & (after != before)


def _allowed(rules: Rules) -> Column:
    """Whether the rule that decides allows what was found; what it does not name is not allowed."""
    number = F.col("rule")
    answer = F.when(F.lit(False), F.lit(False))
    for field, rule in rules.items():
        if rule.kind is Kind.AT_LEAST and field in VALUES:
            forward = F.col(f"after_{field}") >= F.col(f"before_{field}")
            answer = answer.when(number == rule.number, forward)
        if rule.kind is Kind.FORWARD and field is Field.OFFSET:
            in_log = (F.col("class") == Class.ADVANCED.value) & (F.col("after_offset") <= F.col("log_end"))
            answer = answer.when(number == rule.number, F.coalesce(in_log, F.lit(False)))
    return answer.otherwise(F.lit(False))


_SPARK: dict[ColumnType, DataType] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT: IntegerType(),
    ColumnType.LONG: LongType(),
}


def read(spark: SparkSession, given: Input, name: str) -> DataFrame:
    """A table of a snapshot; columns that are in none of its files are null; without files it has no row.

    The schema is given, so that no job has to look for it; bytes are read as text byte by byte."""
    wanted, paths = given.tables[name].columns, given.paths(name)
    found = [column for column in wanted if column.name in given.columns.get(name, ())]
    fields = [StructField(column.name, _SPARK[column.type], nullable=True) for column in found]
    schema = StructType(fields)
    frame = spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
    absent = [
        F.lit(None).cast(_SPARK[column.type]).alias(column.name) for column in wanted if column not in found
    ]
    return frame.select(*(F.col(f"`{column.name}`") for column in found), *absent)


def committed(offsets: DataFrame) -> DataFrame:
    """Only what was committed (group-coordinator.md §6.2: -1 is nothing); absent values have one spelling."""
    texts = (Field.METADATA, Field.TOPIC_ID, Field.RECORD)
    missing = {field.value: F.lit("") if field in texts else F.lit(-1) for field in VALUES}
    values = [F.coalesce(F.col(f"`{name}`"), default).alias(name) for name, default in missing.items()]
    return offsets.where(F.col("offset") >= 0).select(*(F.col(f"`{name}`") for name in KEY), *values)


def schema(values: Sequence[Field]) -> StructType:
    """Key and ``values`` of rows that were taken out of a snapshot."""
    wanted = {*KEY, *(field.value for field in values)}
    return StructType(
        [
            StructField(column.name, _SPARK[column.type], nullable=True)
            for column in CLUSTER_TABLES["offsets"].columns
            if column.name in wanted
        ]
    )
