"""Hashes of live commits: which record counts, and what is a difference."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from groupshift.log import LogRecord
from groupshift.log.commit_hashes import CommitChange, LiveCommit, differences, live_commits
from support.coordinator_story import Line, classic, commit, record


def live(*lines: Line) -> tuple[LiveCommit, ...]:
    """What is live of these lines."""
    return live_commits(record(line, number) for number, line in enumerate(lines))


def tombstone(line: Line) -> Line:
    """The deletion of what this line commits."""
    number, key, version, _ = line
    return number, key, version, None


def test_the_latest_record_counts_with_the_bytes_of_key_and_value() -> None:
    """Of each group, topic and partition, whatever order they come in and whichever type of key they have."""
    lines = [commit("g", at=1), commit("g", at=2, kind=0), commit("g", partition=1), classic("g")]
    records = [record(line, number) for number, line in enumerate(lines)]
    found = live_commits(reversed(records))
    assert [(each.partition, each.log_offset) for each in found] == [(0, 1), (1, 2)]
    latest = records[1]
    assert latest.value is not None
    assert found[0].sha256 == hashlib.sha256((latest.key or b"") + latest.value).hexdigest()


def test_a_tombstone_ends_a_commit_and_a_later_one_is_live_again() -> None:
    """A tombstone that comes before the record it does not cover changes nothing."""
    first = commit("g")
    assert live(first, tombstone(first)) == ()
    assert [each.log_offset for each in live(first, tombstone(first), commit("g", at=5))] == [2]


def test_a_stale_copy_in_another_partition_of_the_log_is_kept_apart() -> None:
    """As an expansion of the offsets topic leaves it."""
    copies = [record(commit("g", at=at), at, partition=at) for at in (0, 1)]
    assert [each.log_partition for each in live_commits(copies)] == [0, 1]


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x01\x00", b"\x00\x02\x00\x01g", b"\x7f\xff"])
def test_keys_that_are_no_commits_are_passed_over(key: bytes | None) -> None:
    """Unreadable ones and other types."""
    assert live_commits([LogRecord(partition=0, offset=0, timestamp_ms=0, key=key, value=b"x")]) == ()


BEFORE = live(commit("g"), commit("h"))
G, H = BEFORE
OTHER = "0" * 64


def test_equal_records_have_no_difference_wherever_they_lie() -> None:
    """The same bytes further on are the same commit."""
    moved = (replace(G, log_offset=7), H)
    assert differences(BEFORE, moved, anew=False) == differences(BEFORE, BEFORE, anew=True) == ()


@pytest.mark.parametrize(
    ("after", "change", "allowed"),
    [
        ((H,), CommitChange.LOST, False),
        ((*BEFORE, replace(G, topic="other")), CommitChange.EXTRA, True),
        ((replace(G, sha256=OTHER, log_offset=9), H), CommitChange.ANEW, True),
        ((replace(G, sha256=OTHER), H), CommitChange.REWRITTEN, False),
        ((replace(G, sha256=OTHER, log_offset=-1), H), CommitChange.WENT_BACK, False),
    ],
)
def test_every_change_is_named_and_only_new_commits_may_be_allowed(
    after: tuple[LiveCommit, ...], change: CommitChange, *, allowed: bool
) -> None:
    """Lost, rewritten and older records are differences also while commits go on."""
    (found,) = differences(BEFORE, after, anew=False)
    assert (found.change, found.now.group) == (change, "g")
    said = str(found)
    assert ("group 'g'" in said, str(change) in said) == (True, True)
    assert len(differences(BEFORE, after, anew=True)) == (0 if allowed else 1)


def test_the_same_offset_committed_at_another_time_is_other_bytes() -> None:
    """Nothing that a coordinator tells shows it."""
    (found,) = differences(live(commit("g")), live(commit("g"), commit("g", at=2)), anew=False)
    assert found.change is CommitChange.ANEW
