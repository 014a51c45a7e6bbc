"""Rows of committed offsets, made comparable. Pure: frames in, a frame out."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from groupshift.domain.equality_rules import Field
from groupshift.domain.evidence import CLUSTER_TABLES, KEY, ColumnType

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
