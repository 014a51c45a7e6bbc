"""A group view and the ledger as the rows of every table of a snapshot (`groupshift.domain.evidence`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupshift.domain.evidence import Row, Store
from groupshift.domain.group import CommittedOffset, GroupView
from groupshift.domain.partitions import TopicPartition


def snapshot_rows(view: GroupView, ledger: Mapping[TopicPartition, int]) -> Mapping[str, Sequence[Row]]:
    """Rows per table name, each in the order of its key; every table of `TABLES` is there.

    ``ledger`` maps a partition to the highest offset delivered, as `Ledger.last_delivered` answers it.
    """
    return {
        "group": [_group(view)],
        "members": _members(view),
        "subscriptions": _subscriptions(view),
        "owners": sorted(_owners(view), key=_owner_key),
        "offsets": _offsets(view),
        "log_ends": [
            {**_at(end.partition), "log_start": end.start, "log_end": end.end}
            for end in sorted(view.log_ends, key=lambda end: end.partition)
        ],
        "ledger": [{**_at(partition), "last_delivered": at} for partition, at in sorted(ledger.items())],
    }


def _at(partition: TopicPartition) -> dict[str, str | int]:
    return {"topic": partition.topic, "partition": partition.partition}


def _group(view: GroupView) -> Row:
    data = view.mode.data
    return {
        "group": view.group,
        "taken_at_ms": view.taken_at_ms,
        "mode_text": None if data is None else data.decode(errors="backslashreplace"),
        "mode_version": view.mode.version,
        "mode_identity": view.mode.identity,
        "effective_mode": view.effective_mode.value,
        "kafka_state": view.kafka.state,
    }


def _members(view: GroupView) -> Sequence[Row]:
    return [
        {
            "member_id": member.member_id,
            "kind": member.kind.value,
            "client_id": member.client_id,
            "host": member.host,
            "pattern": member.pattern,
            "fence": member.fence,
            "mode": member.mode.value if member.mode else None,
            "acting_on": member.acting_on,
            "version": member.version,
            "session_id": member.session_id,
        }
        for member in sorted(view.members, key=lambda member: member.member_id)
    ]


def _subscriptions(view: GroupView) -> Sequence[Row]:
    return [
        {"member_id": member.member_id, "topic": topic, "streams": streams}
        for member in sorted(view.members, key=lambda member: member.member_id)
        for topic, streams in sorted(member.subscription)
    ]


def _owners(view: GroupView) -> Sequence[Row]:
    """Owner nodes, and what the coordinator assigned to its own members; two rows are two owners."""
    plain = {member.member_id for member in view.of_kafka}
    nodes: list[Row] = [
        {
            **_at(owner.partition),
            "store": Store.ZOOKEEPER.value,
            "member_id": owner.member_id,
            "thread_id": owner.thread_id,
            "czxid": owner.czxid,
            "session_id": owner.session_id,
        }
        for owner in view.owners
    ]
    assigned: list[Row] = [
        {
            **_at(partition),
            "store": Store.KAFKA.value,
            "member_id": member.member_id,
            "thread_id": None,
            "czxid": None,
            "session_id": None,
        }
        for member in view.kafka.members
        if member.member_id in plain
        for partition in member.assigned
    ]
    return nodes + assigned


def _owner_key(row: Row) -> tuple[str, int, str, str]:
    return str(row["topic"]), int(row["partition"] or 0), str(row["store"]), str(row["member_id"])


def _offsets(view: GroupView) -> Sequence[Row]:
    stores: Sequence[tuple[Store, Sequence[CommittedOffset]]] = (
        (Store.ZOOKEEPER, view.zookeeper_offsets),
        (Store.KAFKA, view.kafka_offsets),
    )
    rows = [(at.partition, store, at) for store, offsets in stores for at in offsets]
    return [
        {**_at(partition), "store": store.value, "offset": at.offset, "metadata": at.metadata}
        for partition, store, at in sorted(rows, key=lambda row: (row[0], row[1].value))
    ]
