"""A group view and the ledger as the rows of every table of a snapshot (`groupshift.domain.evidence`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from groupshift.domain.evidence import TABLES, Row, Store, Value
from groupshift.domain.group import GroupView
from groupshift.domain.partitions import TopicPartition


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
    offsets = [(at.partition, store.value, at) for store, found in of_stores for at in found]
    return {
        "group": [_row("group", view, mode)],
        "members": [_row("members", member) for member in members],
        "subscriptions": [
            {"member_id": member.member_id, "topic": topic, "streams": streams}
            for member in members
            for topic, streams in sorted(member.subscription)
        ],
        "owners": sorted(_owners(view), key=_owner_key),
        "offsets": [
            _row("offsets", at, {**_at(partition), "store": store})
            for partition, store, at in sorted(offsets, key=lambda row: row[:2])
        ],
        "log_ends": [
            {**_at(end.partition), "log_start": end.start, "log_end": end.end}
            for end in sorted(view.log_ends, key=lambda end: end.partition)
        ],
        "ledger": [{**_at(partition), "last_delivered": at} for partition, at in sorted(ledger.items())],
    }


def _row(table: str, of: object, given: Row = MappingProxyType({})) -> Row:
    """A row with the columns of a table: from ``given``, else the attribute of that name."""
    row: dict[str, Value] = {}
    for column in TABLES[table].columns:
        value = given[column.name] if column.name in given else getattr(of, column.name)
        row[column.name] = value.value if isinstance(value, StrEnum) else value
    return row


def _at(partition: TopicPartition) -> dict[str, Value]:
    return {"topic": partition.topic, "partition": partition.partition}


def _owners(view: GroupView) -> Iterator[Row]:
    """Owner nodes, and what the coordinator assigned to its own members; two rows are two owners."""
    for owner in view.owners:
        yield _row("owners", owner, {**_at(owner.partition), "store": Store.ZOOKEEPER})
    plain = {member.member_id for member in view.of_kafka}
    of_no_node = dict.fromkeys(("thread_id", "czxid", "session_id"))
    for member in view.kafka.members:
        for partition in member.assignment if member.member_id in plain else ():
            yield _row("owners", member, {**_at(partition), "store": Store.KAFKA, **of_no_node})


def _owner_key(row: Row) -> tuple[str, int, str, str]:
    return str(row["topic"]), int(row["partition"] or 0), str(row["store"]), str(row["member_id"])
