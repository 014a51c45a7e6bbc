"""The tables, columns and keys of snapshots as data, and a group view as the rows of a snapshot's tables.

`SCHEMA` defines each column once, for every move; the tables of a phase's snapshot (`TABLES`) and those of a
cluster's (`CLUSTER_TABLES`) are selections; ``snapshot_tables.toml`` beside this module holds them all.
Writers, readers and Spark schemas are made from these; nothing else names a column type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from groupshift.domain.evidence import Row, Store, Value
from groupshift.domain.group import GroupView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.tables import table_of


class ColumnType(StrEnum):
    """The closed set of column types a snapshot may use."""

    STRING = "string"
    INT = "int32"
    LONG = "int64"
    BOOL = "bool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: name, type, and whether null is allowed."""

    name: str
    type: ColumnType
    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a snapshot; ``key`` names the columns that are unique together."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selected:
    key: str
    of: str = ""
    columns: str = ""
    required: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Book:
    schema: Mapping[str, Mapping[str, str]]
    group: Mapping[str, _Selected]
    cluster: Mapping[str, _Selected]


_BOOK = table_of(_Book, "domain/snapshot_tables.toml")
SCHEMA: Mapping[str, Mapping[str, Column]] = {
    table: {
        name: Column(name=name, type=ColumnType(text.removesuffix("?")), nullable=text.endswith("?"))
        for name, text in columns.items()
    }
    for table, columns in _BOOK.schema.items()
}
"""Every column of every snapshot, of any move, by table and name; a kind of snapshot is a selection."""


def _selected(tables: Mapping[str, _Selected]) -> Mapping[str, Table]:
    """The tables of a kind of snapshot: each takes columns of a table of `SCHEMA`, in its own order."""
    selected = {}
    for name, one in tables.items():
        known, required = SCHEMA[one.of or name], one.required.split()
        chosen = (known[each] for each in one.columns.split() or known)
        columns = (replace(each, nullable=each.nullable and each.name not in required) for each in chosen)
        selected[name] = Table(name=name, columns=tuple(columns), key=tuple(one.key.split()))
    return selected


TABLES = _selected(_BOOK.group)
"""Every table of a phase's snapshot, of one group, by name."""
CLUSTER_TABLES = _selected(_BOOK.cluster)
"""Every table of a cluster snapshot, by name."""
KEY = CLUSTER_TABLES["offsets"].key


def snapshot_rows(view: GroupView, ledger: Mapping[TopicPartition, int]) -> Mapping[str, Sequence[Row]]:
    """Rows per table name, each in the order of its key; every table of `TABLES` is there.

    ``ledger`` maps a partition to the highest offset delivered, as `Ledger.last_delivered` answers it.
    """
    data = view.mode.data
    mode = {
        "mode_text": None if data is None else data.decode(errors="backslashreplace"),
        "mode_version": view.mode.version,
        "mode_identity": view.mode.identity,
        "kafka_state": view.kafka.state,
    }
    members = sorted(view.members, key=lambda member: member.member_id)
    of_stores = ((Store.ZOOKEEPER, view.zookeeper_offsets), (Store.KAFKA, view.kafka_offsets))
    offsets = [(row.at, store.value, row) for store, committed in of_stores for row in committed]
    return {
        "group": [_row("group", view, mode)],
        "members": [_row("members", member) for member in members],
        "subscriptions": [
            {"member_id": member.member_id, "topic": topic, "streams": streams}
            for member in members
            for topic, streams in sorted(member.subscription)
        ],
        "owners": sorted(
            _owners(view),
            key=lambda row: (row["topic"], row["partition"], str(row["store"]), row["member_id"]),
        ),
        "offsets": [
            _row("offsets", row, {"store": store, "metadata": row.metadata or ""})
            for _, store, row in sorted(offsets, key=lambda each: each[:2])
        ],
        "log_ends": [_row("log_ends", end) for end in sorted(view.log_ends, key=lambda end: end.at)],
        "ledger": [{**_at(partition), "last_delivered": at} for partition, at in sorted(ledger.items())],
    }


def _row(table: str, of: object, own: Row = MappingProxyType({})) -> Row:
    """A row with the columns of a table: from ``own``, else the attribute of that name."""
    row: dict[str, Value] = {}
    for column in TABLES[table].columns:
        value = own[column.name] if column.name in own else getattr(of, column.name)
        row[column.name] = value.value if isinstance(value, StrEnum) else value
    return row


def _at(partition: TopicPartition) -> dict[str, Value]:
    return {"topic": partition.topic, "partition": partition.partition}


def _owners(view: GroupView) -> Iterator[Mapping[str, Any]]:
    """Owner nodes, and what the coordinator assigned to its own members; two rows are two owners."""
    for owner in view.owners:
        yield _row("owners", owner, {**_at(owner.partition), "store": Store.ZOOKEEPER})
    of_no_node = dict.fromkeys(("thread_id", "czxid", "session_id"))
    for partition, member in view.assigned_by_kafka:
        yield _row("owners", member, {**_at(partition), "store": Store.KAFKA, **of_no_node})
