"""Differences of committed offsets, row by row, each in one class. Pure: frames in, a frame out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.adapters.parquet.compare_inputs import Input
from groupshift.domain.equality_rules import EqualityRule, Field, RuleKind
from groupshift.domain.snapshot import CLUSTER_TABLES, KEY, ColumnType, Table
from groupshift.spark.checks import statement

_COLUMNS = {column.name for column in CLUSTER_TABLES["offsets"].columns}
VALUES = tuple(field for field in Field if field.value in _COLUMNS)
"""The fields of a commit: every one is a column of table ``offsets``."""


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


_UNCOMPARED = frozenset({RuleKind.IGNORE, RuleKind.WITHIN})

Rules = Mapping[Field, EqualityRule]


def compared_fields(rules: Rules, columns: Iterable[frozenset[str]]) -> tuple[Field, ...]:
    """Return the fields of a commit that the rules compare and that every side (its columns) has."""
    everywhere = frozenset.intersection(*columns)
    kept = [field for field in VALUES if rules[field].kind not in _UNCOMPARED]
    return tuple(field for field in kept if field.value in everywhere)


def classified(before: DataFrame, after: DataFrame, rules: Rules, log_ends: DataFrame) -> DataFrame:
    """Return the keys that differ, with the columns of ``sql/checks/compare/differences.sql``.

    ``before`` and ``after`` have the columns of table ``offsets``. Advanced offsets are allowed up to
    ``log_ends`` (topic, partition, log_end) where the rule says so, and not at all where it is not known."""
    spark = before.sparkSession
    numbers = [(field.value, rule.number, rule.kind.value) for field, rule in rules.items()]
    return spark.sql(
        statement("checks/compare", "differences"),
        before=before,
        after=after,
        rules=spark.createDataFrame(numbers, "field string, number string, kind string"),
        log_ends=log_ends,
    )


_SPARK = {ColumnType.STRING: "string", ColumnType.INT: "int", ColumnType.LONG: "long"}


def read(spark: SparkSession, source: Input, name: str) -> DataFrame:
    """Return a table of a snapshot; columns that are in none of its files are null; without files it has no
    row."""
    return read_files(spark, source.tables[name], source.paths(name))


def read_files(spark: SparkSession, table: Table, paths: Sequence[str]) -> DataFrame:
    """Return the rows of these files of a table.

    The schema is given, so that no job has to look for it; bytes are read as text byte by byte."""
    schema = ", ".join(f"`{column.name}` {_SPARK[column.type]}" for column in table.columns)
    return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)


def committed(offsets: DataFrame) -> DataFrame:
    """Return only what was committed (group-coordinator.md §6.2: -1 is nothing); absent values have one
    spelling."""
    texts = (Field.METADATA, Field.TOPIC_ID, Field.RECORD)
    defaults = {field.value: F.lit("") if field in texts else F.lit(-1) for field in VALUES}
    values = [F.coalesce(F.col(f"`{name}`"), default).alias(name) for name, default in defaults.items()]
    return offsets.where(F.col("offset") >= 0).select(*(F.col(f"`{name}`") for name in KEY), *values)
