"""Where a group's records lie, against values that a JVM gave (docs/reference/group-coordinator.md §2)."""

from __future__ import annotations

import pytest

from groupshift.domain.group_partition_and_count import java_hash, partition_of, share_that_stays
from groupshift.errors import Rejected

GROUPS = {
    "": (0, 0, 0, 0, 0),
    "a": (97, 47, 42, 32, 97),
    "my-group": (-1906497762, 12, 37, 52, 62),
    "consumer_group": (-306934538, 38, 53, 53, 38),
    "test_consumer_group": (2001387587, 37, 12, 17, 87),
    "polygenelubricants": (-2147483648, 0, 0, 0, 0),
    "gruppe-\u00e4\u00f6\u00fc": (-1284548840, 40, 25, 55, 40),
    "\u65e5\u672c\u8a9e\u30b0\u30eb\u30fc\u30d7": (-305235731, 31, 31, 21, 31),
    "emoji-\U0001f680": (1164511434, 34, 9, 34, 34),
    "\u0433\u0440\u0443\u043f\u043f\u0430": (1749938458, 8, 48, 8, 58),
    "group-1": (293427299, 49, 44, 9, 99),
    "group-2": (293427300, 0, 45, 10, 0),
}
"""Group → hash and its partition of 50, 55, 65 and 100."""


@pytest.mark.parametrize("group", GROUPS)
def test_coordinator_09_partition_of_a_group(group: str) -> None:
    """The table of §2: MIN_VALUE goes to 0, a surrogate pair counts as two code units."""
    hashed, *partitions = GROUPS[group]
    assert java_hash(group) == hashed
    assert [partition_of(group, count) for count in (50, 55, 65, 100)] == partitions


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("[events,0]", -670581339),
        ("[clicks,0]", 1627908499),
        ("events-0", 278135932),
        ("clicks-0", 906470094),
        ("[logins,10]", -2045173193),
        ("[orders,0]", -1093576615),
        ("[logins,0]", 1873689332),
        ("logins-10", -1718417246),
        ("orders-0", 1234322248),
        ("logins-0", 2022777165),
    ],
)
def test_the_hash_is_the_signed_java_one(text: str, hashed: int) -> None:
    """The values a real JVM gives."""
    assert java_hash(text) == hashed


def test_a_surrogate_that_stands_alone_counts_as_itself() -> None:
    """A JVM hashes code units; it does not mind half a pair."""
    assert java_hash("\ud83d") == 0xD83D
    assert java_hash("\ud83d\ude80") == java_hash("\U0001f680")


@pytest.mark.parametrize(
    ("count", "after", "share"),
    [(50, 51, 1 / 51), (50, 55, 1 / 11), (50, 60, 1 / 6), (50, 75, 1 / 3), (50, 100, 0.5), (5, 8, 0.125)],
)
def test_the_share_that_stays_is_counted_right(count: int, after: int, share: float) -> None:
    """N / lcm(N, M), and that is what happens to every hash."""
    assert share_that_stays(count, after) == pytest.approx(share)
    span = range(count * after)
    assert sum(h % count == h % after for h in span) / len(span) == pytest.approx(share)


def test_a_topic_without_partitions_is_refused() -> None:
    """A count of 0 is a caller's mistake, and is named."""
    with pytest.raises(Rejected, match="0 partitions"):
        partition_of("g", 0)
    with pytest.raises(Rejected, match="50 and 0"):
        share_that_stays(50, 0)
