"""Rows of committed offsets, made comparable. Pure: frames in, a frame out."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from groupshift.domain.cluster_snapshot import CLUSTER_TABLES, KEY
from groupshift.domain.equality_rules import Field
from groupshift.domain.evidence import ColumnType

_SPARK: dict[ColumnType, DataType] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT: IntegerType(),
    ColumnType.LONG: LongType(),
}
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


def read(spark: SparkSession, table: str, paths: Sequence[str], columns: frozenset[str]) -> DataFrame:
    """The files of a table; columns that are in none of them are null.

    The schema is given, so that no job has to look for it; bytes are read as text byte by byte."""
    wanted = CLUSTER_TABLES[table].columns
    found = [column for column in wanted if column.name in columns]
    schema = StructType([StructField(column.name, _SPARK[column.type], nullable=True) for column in found])
    frame = spark.read.schema(schema).parquet(*paths)
    absent = [
        F.lit(None).cast(_SPARK[column.type]).alias(column.name) for column in wanted if column not in found
    ]
    return frame.select(*(F.col(f"`{column.name}`") for column in found), *absent)


def committed(offsets: DataFrame) -> DataFrame:
    """Only what was committed: -1 and no row are the same (§6.2); absent values have one spelling."""
    texts = (Field.METADATA, Field.TOPIC_ID, Field.RECORD)
    missing = {field.value: F.lit("") if field in texts else F.lit(-1) for field in VALUES}
    values = [F.coalesce(F.col(f"`{name}`"), default).alias(name) for name, default in missing.items()]
    return offsets.where(F.col("offset") >= 0).select(*(F.col(f"`{name}`") for name in KEY), *values)


def key_hash(*seed: Column) -> Column:
    """64 bits of the whole key."""
    return F.xxhash64(*seed, *(F.col(f"`{name}`") for name in KEY))


def segment(hashed: Column, segments: int) -> Column:
    """The segment of a row, by the hash of its *whole* key: a group of millions of rows is spread as evenly
    as many groups of one."""
    return F.pmod(hashed, F.lit(segments)).cast("int")
