"""What the log says of placement."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.log import LogRecord, decode
from groupshift.log.group_states import materialise
from groupshift.moves.expansion.logged_offsets import (
    LoggedPlaces,
    LogReading,
    PartitionLoad,
    counts_by_newest,
)
from groupshift_testing.log_encoder import encode_key, encode_value
from support.placement_clusters import at, commit

GROUPS = [f"g{number}" for number in range(40)]


def places(*records: LogRecord, count: int = 8, partitions: int = 8):
    """The log, held against ``count``."""
    return LoggedPlaces(LogReading(records), count, partitions)


def test_load_by_partition_now_and_then() -> None:
    """A key is live once; a tombstone lies there and is not live."""
    first, second = commit("g1", 2, at=0), commit("g1", 2, at=1, offset=9)
    gone = commit("g2", 2, at=2, offset=None)
    found = places(first, second, gone, partitions=3)
    size = len(second.key or b"") + len(second.value or b"")
    assert found.loads[2] == PartitionLoad(partition=2, groups=1, live_records=1, live_bytes=size)
    assert found.records == 3
    assert found.loads[0] == PartitionLoad(partition=0)
    after = LogReading((first, second, gone)).partition_loads(16, at_home=True)
    assert after[partition_of("g1", 16)].live_bytes == size
    assert sum(each.live_records for each in after) == 1


def test_a_commit_elsewhere_is_lost_where_home_has_nothing() -> None:
    """Or something older; not where home is newer."""
    home = partition_of("g9", 8)
    (alone,) = places(commit("g9", 0, ms=5)).elsewhere
    assert (alone.group, alone.lies_at, alone.home, alone.offset, alone.at_home) == ("g9", 0, home, 7, None)
    assert alone.lost
    (older,) = places(commit("g9", 0, ms=9), commit("g9", home, ms=5, offset=3)).elsewhere
    assert (older.newer, older.lost, older.at_home) == (True, True, 3)
    (newer,) = places(commit("g9", 0, ms=5), commit("g9", home, ms=9)).elsewhere
    assert (newer.newer, newer.lost) == (False, False)


@pytest.mark.parametrize(("deleted_ms", "lost"), [(9, False), (3, True)])
def test_what_was_deleted_at_home_is_not_lost(deleted_ms: int, lost: bool) -> None:  # noqa: FBT001
    """A tombstone at home that is younger than the commit elsewhere: somebody deleted it, or it expired."""
    tombstone = commit("g9", partition_of("g9", 8), ms=deleted_ms, offset=None)
    (found,) = places(commit("g9", 0, ms=5), tombstone).elsewhere
    assert (found.lost, found.at_home) == (lost, None)


def test_other_records_elsewhere_and_keys_without_a_group() -> None:
    """A group's own record counts; one that names no group is counted, not guessed."""
    body = {
        "protocolType": "",
        "generation": 0,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": -1,
    }
    value = encode_value(2, 3, {**body, "members": []})
    record = LogRecord(partition=0, offset=0, timestamp_ms=1, key=encode_key(2, {"group": "g9"}), value=value)
    odd = LogRecord(partition=0, offset=1, timestamp_ms=1, key=b"\0\1\0\x40", value=b"")
    found = places(record, odd)
    assert (found.elsewhere, found.unreadable, found.residue) == ((), 1, frozenset({"g9"}))


def test_both_types_of_a_commit_are_one_key() -> None:
    """A commit of type 0 is replaced by one of type 1."""
    found = places(commit("g9", 0, at=0, record_type=0), commit("g9", 0, at=1, offset=9))
    assert [each.offset for each in found.elsewhere] == [9]


def test_which_count_was_used_last() -> None:
    """After the brokers took eight up, some groups committed again: the last commits decide, not the most."""
    old, new = at(GROUPS, 5, ms=10), at(GROUPS[:6], 8, ms=20)
    assert 5 in counts_by_newest(places(*old).newest, range(1, 9))
    assert 8 not in counts_by_newest(places(*old).newest, range(1, 9))
    assert 8 in counts_by_newest(places(*old, *new).newest, range(1, 9))
    assert 5 not in counts_by_newest(places(*old, *new).newest, range(1, 9))
    assert counts_by_newest({}, {5, 8}) == {5, 8}


@given(st.lists(st.tuples(st.sampled_from(GROUPS), st.integers(0, 7), st.integers(1, 9)), max_size=60))
def test_what_lies_elsewhere_is_what_the_oracle_says(written: list[tuple[str, int, int]]) -> None:
    """`materialise` of all records, decoded, has the same commits elsewhere, the same at home, the same
    times; in whatever order records come."""
    records = [commit(group, place, at=number, ms=ms) for number, (group, place, ms) in enumerate(written)]
    state = materialise(decode(each, partitions=8) for each in records)
    random.Random(len(written)).shuffle(records)
    found = places(*records)
    seen = {(each.group, each.lies_at, each.home, each.record_offset, each.newer) for each in found.elsewhere}
    assert seen == {
        (there.group_id, there.src_partition, one.expected_partition, there.record_offset, one.newer)
        for one in state.foreign_commits
        for there in (one.commit,)
    }
    assert found.residue == {each.commit.group_id for each in state.foreign_commits}
    assert found.records == len(records)
