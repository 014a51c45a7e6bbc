"""How the benchmark of protocol moves finds the time that partitions had no owner."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.client_members.events import Owned

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def owner_gaps(monkeypatch: pytest.MonkeyPatch):
    """The module, found as the benchmarks find it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from measuring import owner_gaps as found

    yield found
    for name in [each for each in sys.modules if each.partition(".")[0] == "measuring"]:
        del sys.modules[name]


def owned(member: str, from_ms: int, to_ms: int | None) -> Owned:
    """An interval."""
    return Owned(member=member, from_ms=from_ms, to_ms=to_ms)


OWNERS = {
    P0: [owned("m1", 0, 1000), owned("m2", 1200, 1400), owned("m1", 1900, 5000), owned("m2", 8000, None)],
    P1: [owned("m2", 0, 1300), owned("m1", 1310, 2500), owned("m1", 2600, 9000)],
}


def test_each_move_has_the_longest_gap_of_every_partition(owner_gaps) -> None:
    """The first move leaves 500 ms of partition 0 and 10 of 1, the second 100 of 1 only; the third one's gap
    is its own although it ends behind the next beginning."""
    found = owner_gaps.longest_gaps_s(OWNERS, [900, 2000, 4000, 6000, 9500])
    assert found == [[0.5, 0.01], [0.0, 0.1], [3.0, 0.0], [0.0, 0.0]]


def test_all_at_once_is_what_no_partition_was_owned_in(owner_gaps) -> None:
    """Gaps of single partitions that do not overlap are none; those that do are as long as they overlap."""
    assert owner_gaps.all_unowned_s(OWNERS, [900, 9500]) == [0.0]
    both = {
        P0: [owned("m1", 0, 100), owned("m2", 300, 900)],
        P1: [owned("m1", 0, 150), owned("m2", 250, None)],
    }
    assert owner_gaps.all_unowned_s(both, [50, 200, 900]) == [0.1, 0.0]


def test_an_interval_that_never_ends_leaves_no_gap_behind_it(owner_gaps) -> None:
    """Who still owns is not gone."""
    assert owner_gaps.longest_gaps_s({P0: [owned("m1", 0, None)]}, [0, 10]) == [[0.0]]
