"""Spark schemas of snapshot tables, derived from `groupshift.domain.evidence.TABLES`."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from groupshift.domain.evidence import ColumnType, Table

_SPARK: dict[ColumnType, DataType] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT: IntegerType(),
    ColumnType.LONG: LongType(),
    ColumnType.BOOL: BooleanType(),
}

_ARROW: dict[ColumnType, frozenset[str]] = {
    ColumnType.STRING: frozenset({"string", "large_string"}),
    ColumnType.INT: frozenset({"int32"}),
    ColumnType.LONG: frozenset({"int64"}),
    ColumnType.BOOL: frozenset({"bool"}),
}


def struct_of(table: Table) -> StructType:
    """The table's columns in their order, every one with the nullability the contract gives it."""
    return StructType(
        [StructField(column.name, _SPARK[column.type], column.nullable) for column in table.columns]
    )


def deviations(table: Table, found: dict[str, str]) -> tuple[str, ...]:
    """Sentences about columns of a Parquet file (name to Arrow type name) that break the contract."""
    wanted = {column.name: column for column in table.columns}
    missing = tuple(f"table {table.name} lacks column {name}" for name in wanted if name not in found)
    extra = tuple(f"table {table.name} has the unknown column {name}" for name in found if name not in wanted)
    wrong = tuple(
        f"column {name} of table {table.name} is {found[name]} where {column.type.value} is promised"
        for name, column in wanted.items()
        if name in found and found[name] not in _ARROW[column.type]
    )
    return missing + extra + wrong
