"""What is to be done about commits that lie elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.log import LogRecord
from groupshift.moves.expansion.logged_offsets import LoggedPlaces, LogReading
from groupshift.moves.expansion.repair_lost_offsets import Mend, Repair, repairs
from groupshift_testing.log_encoder import encode_value
from support.coordinator_vectors import U
from support.placement_clusters import commit

GROUP = "g9"
HOME = partition_of(GROUP, 8)


def mended(*records: LogRecord) -> Repair:
    """The one repair that these records ask for, at eight partitions."""
    (found,) = repairs(LoggedPlaces(LogReading(records), 8, 8).elsewhere)
    return found


def test_what_nobody_has_at_home_is_restored_exactly() -> None:
    """Offset, leader epoch, metadata."""
    found = mended(commit(GROUP, 0, offset=42))
    assert (found.mend, found.others, found.reason) == (Mend.RESTORE, (), "")
    assert found.chosen.row == OffsetRow(
        group=GROUP, topic="t", partition=0, offset=42, leader_epoch=3, metadata="m"
    )


@pytest.mark.parametrize(
    ("records", "mend", "offset"),
    [
        ([commit(GROUP, 0, offset=9, ms=5), commit(GROUP, HOME, offset=3, ms=4)], Mend.RESTORE, 9),
        ([commit(GROUP, 0, offset=9, ms=5), commit(GROUP, HOME, offset=3, ms=6)], Mend.OVERWRITTEN, 9),
        ([commit(GROUP, 0, offset=9, ms=5), commit(GROUP, HOME, offset=None, ms=6)], Mend.OVERWRITTEN, 9),
        ([commit(GROUP, 0, offset=9, ms=5), commit(GROUP, HOME, offset=None, ms=4)], Mend.RESTORE, 9),
        ([commit(GROUP, 0, offset=9, ms=5), commit(GROUP, 1, offset=7, ms=4)], Mend.RESTORE, 9),
        ([commit(GROUP, 0, at=90, offset=7, ms=4), commit(GROUP, 1, at=1, offset=9, ms=5)], Mend.RESTORE, 9),
    ],
    ids=["home older", "home newer", "deleted since", "deleted before", "two places", "not by log offset"],
)
def test_the_newest_commit_by_its_own_time_counts(records: list[LogRecord], mend: Mend, offset: int) -> None:
    """Never the higher offset of the log; what is newer at home is left alone."""
    found = mended(*records)
    assert (found.mend, found.chosen.offset, found.reason) == (mend, offset, "")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([commit(GROUP, 0, offset=9, ms=5), commit(GROUP, 1, offset=7, ms=5)], "of the same time"),
        ([commit(GROUP, 0, offset=5, ms=9), commit(GROUP, 1, offset=7, ms=5)], "an earlier commit says 7"),
        ([commit(GROUP, 0, offset=5, ms=9), commit(GROUP, HOME, offset=7, ms=5)], "its coordinator has 7"),
        ([commit(GROUP, 0, offset=-1)], "says -1, which is no offset"),
        ([commit(GROUP, 0, ms=-1)], "has no time"),
        ([commit(GROUP, 0, ms=5), commit(GROUP, HOME, ms=-1)], "has no time"),
    ],
)
def test_what_a_person_has_to_decide(records: list[LogRecord], said: str) -> None:
    """Two coordinators took commits, or a commit says too little."""
    found = mended(*records)
    assert found.mend is Mend.CONFLICT
    assert said in found.reason


def test_what_may_have_expired_is_left_to_a_person() -> None:
    """A tombstone at home is compacted away after a day: what is older may have had one."""
    elsewhere = LoggedPlaces(LogReading([commit(GROUP, 0, ms=500)]), 8, 8).elsewhere
    (found,), (kept,) = repairs(elsewhere, 501), repairs(elsewhere, 500)
    assert (found.mend, kept.mend) == (Mend.CONFLICT, Mend.RESTORE)
    assert "may have been deleted, or have expired" in found.reason


def test_what_was_deleted_anywhere_later_is_left_to_a_person() -> None:
    """A tombstone in a third partition, of the same key; an earlier one is none."""
    gone = (HOME + 1) % 8
    assert gone != 0
    for ms, mend in ((6_000, Mend.CONFLICT), (4_000, Mend.RESTORE)):
        assert mended(commit(GROUP, 0, ms=5_000), commit(GROUP, gone, offset=None, ms=ms)).mend is mend
    twice = [commit(GROUP, gone, offset=None, ms=6_000), commit(GROUP, (HOME + 2) % 8, offset=None, ms=1_000)]
    assert mended(commit(GROUP, 0, ms=5_000), *twice).mend is Mend.CONFLICT
    other = commit("g10", gone, offset=None, ms=6_000)
    assert mended(commit(GROUP, 0, ms=5_000), other).mend is Mend.RESTORE


def test_an_expiry_of_its_own_is_left_to_a_person() -> None:
    """It would be lost."""
    said = {"offset": 7, "metadata": "", "commitTimestamp": 5, "expireTimestamp": 9}
    record = replace(commit(GROUP, 0), value=encode_value(1, 1, said))
    assert "an expiry of its own" in mended(record).reason


def test_a_commit_that_cannot_be_read_is_left_to_a_person() -> None:
    """A value of a newer version, whatever of it can be made out."""
    record = commit(GROUP, 0)
    newer = LogRecord(
        partition=0, offset=1, timestamp_ms=1, key=record.key, value=b"\0\x09" + (record.value or b"")[2:]
    )
    assert mended(newer).reason == "a commit cannot be read"


def test_after_a_repair_nothing_is_left_to_do() -> None:
    """What was restored is newer than what lies elsewhere; a conflict that somebody settled is none."""
    old = [commit(GROUP, 0, offset=5, ms=9), commit(GROUP, 1, offset=7, ms=5)]
    assert mended(*old).mend is Mend.CONFLICT
    assert mended(*old, commit(GROUP, HOME, offset=7, ms=20)).mend is Mend.OVERWRITTEN


@pytest.mark.parametrize(
    ("topic_id", "now", "said"),
    [
        ("before", {"topic_id": "today", "epochs": {0: 0}}, "it belongs to a former topic of that name"),
        ("today", {"topic_id": "today", "epochs": {0: 0}}, ""),
        ("", {"topic_id": "today", "epochs": {0: 0}}, ""),
        ("today", {"exists": False}, "there is no such topic"),
        ("today", {"topic_id": "today", "epochs": {}}, "the topic has 0 partitions"),
    ],
)
def test_f03_a_commit_of_a_former_topic_is_left_to_a_person(
    topic_id: str, now: dict[str, Any], said: str
) -> None:
    """It is never committed again under the id that the name has today."""
    from groupshift.domain.commit_places import TopicNow, Topics

    (lost,) = LoggedPlaces(LogReading([commit(GROUP, 0, offset=42)]), 8, 8).elsewhere
    topics = Topics(now={"t": TopicNow(topic="t", **now)})
    (found,) = repairs([replace(lost, topic_id=topic_id)], 0, topics)
    assert (found.mend, found.reason) == (Mend.CONFLICT if said else Mend.RESTORE, said)


def test_f03_the_log_tells_the_topic_id_of_a_commit() -> None:
    """It is given back to the topic of that id only."""
    record = commit(GROUP, 0, offset=42)
    value = {"offset": 42, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 5, "topicId": U}
    (lost,) = LoggedPlaces(LogReading([replace(record, value=encode_value(1, 4, value))]), 8, 8).elsewhere
    assert lost.row.topic_id == U
