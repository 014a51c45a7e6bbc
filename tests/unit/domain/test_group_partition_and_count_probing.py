"""Which count a broker uses, from what it answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift.domain.group_partition_and_count import (
    NOBODY,
    Answers,
    counts_of,
    expected,
    not_one_owner,
    owners,
    partition_of,
    probe_names,
)
from support.placement_clusters import answering, leading


@pytest.mark.parametrize("count", [1, 3, 50, 200])
def test_names_hit_every_partition(count: int) -> None:
    """Each once."""
    leaders = leading(count)
    names = probe_names(leaders)
    assert {partition_of(name, count) for name in names} == set(range(count))
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("count", [8, 50, 200])
def test_names_tell_an_earlier_count_apart_wherever_leaders_differ(count: int) -> None:
    """At a multiple the former partition of each is known: only equal leaders hide it."""
    leaders = leading(count)
    telling = {
        partition_of(name, count)
        for name in probe_names(leaders, 2)[:count]
        if expected(name, count, leaders) != expected(name, 2, leaders)
    }
    assert telling == {place for place in range(count) if leaders[place] != leaders[place % 2]}
    odd = probe_names(leading(8), 3)[:8]
    assert all(expected(name, 8, leading(8)) != expected(name, 3, leading(8)) for name in odd)
    assert probe_names(leading(3), 12), "an earlier count may be higher than what there is"


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=40),
    st.integers(1, 60),
    st.sets(st.integers(0, 39), max_size=3),
)
def test_the_count_in_use_is_never_ruled_out(nodes: list[int], count: int, dead: set[int]) -> None:
    """Whatever leads what, whatever is without a leader; and every count that is left gives the same answers
    for every name that was asked."""
    leaders = tuple(NOBODY if number in dead else node for number, node in enumerate(nodes))
    (answers,) = answering({1: count}, leaders)
    found = counts_of(answers, leaders, {count})
    assert count in found
    assert all(
        expected(name, each, leaders) == node for each in found for name, node in answers.named.items()
    )


def test_three_brokers_tell_their_counts() -> None:
    """One restarted after 5 became 8, one configured with more than there are."""
    leaders = leading(8)
    answers = answering({1: 5, 2: 8, 3: 12}, leaders)
    assert [counts_of(each, leaders, {12}) for each in answers] == [(5,), (8,), (12,)]


def test_one_broker_cannot_be_told_apart() -> None:
    """It leads everything: every count fits."""
    leaders = leading(8, (1,))
    (answers,) = answering({1: 5}, leaders)
    assert counts_of(answers, leaders) == tuple(range(1, 9))


def test_nothing_answered_is_no_count() -> None:
    """An empty answer proves nothing."""
    assert counts_of(Answers(node_id=1), leading(8)) == ()


def test_owners_in_a_mixed_window() -> None:
    """The specification's live proof: g9 is 0 at broker 1 by 5 and 2 at broker 3 by 8, and both serve it;
    g6 has one leader on both sides and looks right."""
    leaders = (1, 2, 3, 1, 2, 3, 2, 3)
    using = {1: 5, 2: 5, 3: 8}
    assert [partition_of(group, 5) for group in ("g9", "g10", "g6")] == [0, 0, 2]
    assert [partition_of(group, 8) for group in ("g9", "g10", "g6")] == [2, 6, 7]
    assert owners("g9", using, leaders) == (1, 3)
    assert owners("g10", using, leaders) == (1,)
    assert owners("g6", using, leaders) == (3,)
    assert dict(not_one_owner(["g9", "g10", "g6"], using, leaders)) == {"g9": (1, 3)}
