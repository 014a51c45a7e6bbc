"""What is read from the offset-syncs topic, and what becomes of the histories."""

from __future__ import annotations

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.links.mirrormaker import OffsetSync, encode_sync
from groupshift.links.sync_history import EpochEnd, Sync
from groupshift.links.sync_log import Histories, SyncLogPosition, SyncRecord, decode_syncs, extend

AT = TopicPartition("orders", 3)


def record(offset: int, upstream: int, downstream: int, *, topic: str = "orders") -> SyncRecord:
    """A sync as MirrorMaker writes it."""
    sync = OffsetSync(topic=topic, partition=3, upstream=upstream, downstream=downstream)
    return SyncRecord(offset, 1_000 + offset, *encode_sync(sync))


def tombstone(offset: int) -> SyncRecord:
    """A tombstone for the partition."""
    return SyncRecord(offset, 0, record(0, 0, 0).key, None)


def test_syncs_are_decoded_in_order_and_damaged_records_are_counted() -> None:
    """The first damage is told; nothing stops at it."""
    records = [
        record(4, 10, 7),
        SyncRecord(5, 0, b"\xff", b""),
        SyncRecord(6, 0, None, b"x"),
        record(9, 20, 17),
    ]
    read = decode_syncs(records, SyncLogPosition(topic_id="a", next_offset=4), end=12, limit=100)
    assert read.syncs == (
        (AT, Sync(upstream=10, downstream=7, log_offset=4, log_time_ms=1_004)),
        (AT, Sync(upstream=20, downstream=17, log_offset=9, log_time_ms=1_009)),
    )
    assert (read.unreadable, read.problem[:8]) == (2, "offset 5")
    assert read.position == SyncLogPosition(topic_id="a", next_offset=12)
    assert not read.has_more


def test_a_part_says_where_to_go_on() -> None:
    """Two of three records; then the rest, which ends behind a marker."""
    records = [record(0, 1, 1), record(1, 2, 2), record(3, 3, 3)]
    part = decode_syncs(records, SyncLogPosition(), end=5, limit=2)
    assert part.has_more
    assert part.position.next_offset == 2
    rest = decode_syncs(records[2:], part.position, end=5, limit=2)
    assert not rest.has_more
    assert rest.position.next_offset == 5
    assert decode_syncs([], rest.position, end=3, limit=2).position.next_offset == 5


@pytest.mark.parametrize(
    ("before", "topic_id", "end", "after"),
    [
        (("a", 50, 0), "a", 60, ("a", 50, 0)),
        (("a", 50, 0), "b", 60, ("b", 2, 50)),
        (("a", 50, 9), "b", 60, ("b", 2, 59)),
        (("", 50, 0), "", 40, ("", 2, 50)),
        (("", 50, 0), "", 60, ("", 50, 0)),
        (("", 50, 0), "a", 60, ("a", 50, 0)),
        (("a", 50, 0), "", 60, ("a", 50, 0)),
        (("a", 50, 0), "a", 40, ("a", 50, 0)),  # a replica that is behind, not another topic
        (("", 0, 0), "a", 60, ("a", 2, 0)),
    ],
)
def test_a_topic_made_anew_is_read_from_its_start_and_offsets_go_on_rising(
    before: tuple[str, int, int], topic_id: str, end: int, after: tuple[str, int, int]
) -> None:
    """By ids where they are known, else by the log end; the start is 2."""
    position = SyncLogPosition(topic_id=before[0], next_offset=before[1], shift=before[2])
    now = position.within(topic_id, 2, end)
    assert (now.topic_id, now.next_offset, now.shift) == after


def test_histories_grow_and_survive_a_topic_made_anew() -> None:
    """The second topic's first sync lies behind the first topic's last one."""
    histories: Histories = {}
    first = decode_syncs([record(0, 10, 5), record(1, 20, 15)], SyncLogPosition(topic_id="a"), end=2, limit=9)
    extend(histories, first)
    anew = first.position.within("b", 0, 1)
    extend(histories, decode_syncs([record(0, 30, 25)], anew, end=1, limit=9))
    found = histories[AT].conservative(25)
    assert found is not None
    assert found.offset == 16
    assert histories[AT].newest == Sync(upstream=30, downstream=25, log_offset=2, log_time_ms=1_000)


def test_a_tombstone_ends_the_epoch_of_its_partition_only() -> None:
    """What was said before counts no more, what comes behind does."""
    histories: Histories = {}
    records = [record(0, 10, 5), record(1, 10, 5, topic="other"), tombstone(2), record(3, 40, 35)]
    extend(histories, decode_syncs(records, SyncLogPosition(), end=4, limit=9))
    history = histories[AT]
    assert history.epoch.cause is EpochEnd.FORGOTTEN
    assert (history.epoch.number, history.epoch.first_log_offset) == (1, 3)
    assert history.conservative(39) is None
    found = history.conservative(41)
    assert found is not None
    assert found.offset == 36
    other = histories[TopicPartition("other", 3)].conservative(11)
    assert other is not None
    assert other.offset == 6
