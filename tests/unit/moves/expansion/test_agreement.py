"""What brokers answer, held against the log."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.moves.expansion.logged_offsets import LoggedPlaces, LogReading
from groupshift.moves.expansion.restore import agreement
from groupshift_testing.log_encoder import encode_value
from support.placement_clusters import commit

HOME = partition_of("g", 5)
ROW = OffsetRow(group="g", topic="t", partition=0, offset=7, leader_epoch=3, metadata="m")


def held_at_5(*records) -> LoggedPlaces:
    """The log, held against five partitions."""
    return LoggedPlaces(LogReading(records), 5)


def said(row: OffsetRow | None, *records) -> list[str]:
    """The sentences."""
    return [text for _, text in agreement([row] if row else [], held_at_5(*records))]


def test_the_newest_record_at_home_is_what_counts() -> None:
    """Whatever the order of records, their times and what lies elsewhere."""
    assert said(ROW, commit("g", HOME, at=4), commit("g", HOME, at=2, offset=5, ms=9_000)) == []
    assert said(ROW, commit("g", HOME), commit("g", (HOME + 1) % 5, at=9, offset=99)) == []
    assert said(None, commit("g", (HOME + 1) % 5)) == []


def test_each_difference_is_named_with_both_sides() -> None:
    """Another offset, nothing in the log, a tombstone, nothing answered."""
    assert said(ROW, commit("g", HOME, offset=8)) == [
        "'g' t-0: answered offset 7, epoch 3, 1 of metadata, in the log offset 8, epoch 3, 1 of metadata"
    ]
    nothing = ["'g' t-0: answered offset 7, epoch 3, 1 of metadata, in the log nothing"]
    assert said(ROW) == nothing
    assert said(ROW, commit("g", HOME), commit("g", HOME, at=1, offset=None)) == nothing
    assert said(None, commit("g", HOME)) == [
        "'g' t-0: answered nothing, in the log offset 7, epoch 3, 1 of metadata"
    ]


def test_no_offset_and_no_epoch_are_what_brokers_tell_them_as() -> None:
    """-1 is none, no metadata is empty metadata."""
    none = OffsetRow(group="g", topic="t", partition=1, offset=-1)
    assert said(none) == []
    bare = OffsetRow(group="g", topic="t", partition=0, offset=7, leader_epoch=None, metadata=None)
    assert len(said(bare, commit("g", HOME))) == 1


def test_commits_with_an_expiry_of_their_own_are_told() -> None:
    """They are equal, and what is committed again has none: the run writes it down."""
    row = OffsetRow(group="g", topic="t", partition=0, offset=7, leader_epoch=None, metadata="m")
    old = {"offset": 7, "metadata": "m", "commitTimestamp": 1, "expireTimestamp": 99}
    record = replace(commit("g", HOME), value=encode_value(1, 1, old))
    assert (agreement([row], held_at_5(record)), held_at_5(record).expiring) == ((), ["g"])
    assert held_at_5(commit("g", HOME)).expiring == []
    assert held_at_5(replace(record, partition=(HOME + 1) % 5)).expiring == []
