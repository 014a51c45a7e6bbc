"""Rows of a snapshot."""

from __future__ import annotations

from groupshift.domain.group import GroupView, Member, Owner
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.modes import MemberKind, Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import LogEndRow, OffsetRow
from groupshift.domain.snapshot import TABLES, snapshot_rows

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
PLAIN = KafkaMember(member_id="app-uuid", client_id="app", host="h", assigned=frozenset({P1, P0}))
EMBEDDED = KafkaMember(member_id="g_m1-1-uuid", client_id="g_m1-1", host="h", assigned=frozenset({P0}))

VIEW = GroupView(
    group="g",
    taken_at_ms=42,
    exists=True,
    mode=ModeNode(data=b"kafka", version=3, czxid=10, mzxid=12),
    ids=("g_m1-1",),
    migration_ids=("g_m1-1",),
    members=(
        Member(
            member_id="g_m1-1",
            kind=MemberKind.AWARE,
            client_id="g_m1-1",
            subscription=(("orders", 2),),
            fence=1,
            mode=Mode.KAFKA,
            acting_on="10:12",
            version="0.1.0",
            session_id=99,
        ),
        Member(member_id="app-uuid", kind=MemberKind.PLAIN, client_id="app", subscription=(("orders", 1),)),
    ),
    owners=(Owner(partition=P0, thread_id="g_m1-1-0", czxid=77, session_id=99),),
    kafka=KafkaGroup(state="Stable", members=(EMBEDDED, PLAIN)),
    zookeeper_offsets=(OffsetRow(group="g", **P0._asdict(), offset=4),),
    kafka_offsets=(OffsetRow(group="g", **P0._asdict(), offset=5, metadata="m"),),
    log_ends=(
        LogEndRow(**P1._asdict(), log_start=0, log_end=2),
        LogEndRow(**P0._asdict(), log_start=1, log_end=9),
    ),
)


def test_every_table_has_rows_of_exactly_its_columns() -> None:
    """A column forgotten here would be a hole in the evidence."""
    rows = snapshot_rows(VIEW, {P1: 1})
    assert set(rows) == set(TABLES)
    for name, table in TABLES.items():
        assert rows[name], name
        for row in rows[name]:
            assert set(row) == {column.name for column in table.columns}


def test_the_group_row_says_mode_and_identity() -> None:
    """The mode's text, version and zxids, the mode in effect and Kafka's state."""
    (row,) = snapshot_rows(VIEW, {})["group"]
    assert row == {
        "group": "g",
        "taken_at_ms": 42,
        "mode_text": "kafka",
        "mode_version": 3,
        "mode_identity": "10:12",
        "effective_mode": "kafka",
        "kafka_state": "Stable",
    }


def test_owners_are_the_nodes_and_what_plain_members_hold() -> None:
    """The assignment of an embedded consumer is no owner; a partition held twice has two rows."""
    owners = [
        (row["partition"], row["store"], row["member_id"], row["thread_id"])
        for row in snapshot_rows(VIEW, {})["owners"]
    ]
    assert owners == [
        (0, "kafka", "app-uuid", None),
        (0, "zookeeper", "g_m1-1", "g_m1-1-0"),
        (1, "kafka", "app-uuid", None),
    ]


def test_offsets_of_both_stores_are_separate_rows() -> None:
    """Keyed by topic, partition and store, in that order."""
    offsets = [
        (row["partition"], row["store"], row["offset"], row["metadata"])
        for row in snapshot_rows(VIEW, {})["offsets"]
    ]
    assert offsets == [(0, "kafka", 5, "m"), (0, "zookeeper", 4, "")]


def test_log_ends_and_ledger_are_in_partition_order() -> None:
    """Two snapshots of the same state have the same rows in the same order."""
    rows = snapshot_rows(VIEW, {P1: 1, P0: 8})
    assert [row["partition"] for row in rows["log_ends"]] == [0, 1]
    assert [(row["partition"], row["last_delivered"]) for row in rows["ledger"]] == [(0, 8), (1, 1)]


def test_an_absent_mode_node_has_no_text_and_odd_bytes_are_shown() -> None:
    """None is absent; bytes that are no UTF-8 are escaped rather than lost."""
    bare = GroupView(group="g", taken_at_ms=1, exists=True, mode=ModeNode(data=None))
    odd = GroupView(group="g", taken_at_ms=1, exists=True, mode=ModeNode(data=b"\xffkafka", version=0))
    assert snapshot_rows(bare, {})["group"][0]["mode_text"] is None
    assert snapshot_rows(odd, {})["group"][0]["mode_text"] == "\\xffkafka"
