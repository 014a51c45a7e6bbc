"""What another count costs."""

from __future__ import annotations

import random

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.errors import Rejected
from groupshift.moves.expansion.logged_offsets import Hashed, LoggedPlaces, LogReading, Mover, worth_comparing
from support.placement_clusters import commit

NAMED = {"my-group": (12, 62), "a": (47, 97), "polygenelubricants": (0, 0), "группа": (8, 58)}
"""Partition of 50 and of 100 (docs/reference/group-coordinator.md §2)."""


def test_groups_that_move_are_named_with_their_partitions() -> None:
    """The values of a JVM: the lowest hash stays at 0, names beyond the basic plane too."""
    found = {each.group: (each.before, each.after) for each in Hashed([*NAMED, "emoji-🚀"]).movers(50, 100)}
    assert found == {group: places for group, places in NAMED.items() if places[0] != places[1]}


def test_a_multiple_moves_a_group_to_a_new_partition_or_not_at_all() -> None:
    """From p to p + k·N."""
    names = [f"g{number}" for number in range(2_000)]
    found = Hashed(names).movers(50, 150)
    assert all(each.after % 50 == each.before and each.after >= 50 for each in found)
    assert found[0] == Mover(
        group=found[0].group, before=partition_of(found[0].group, 50), after=partition_of(found[0].group, 150)
    )


@pytest.mark.parametrize(
    ("after", "stays"), [(100, 0.5), (150, 1 / 3), (55, 1 / 11), (51, 1 / 51), (50, 1.0)]
)
def test_what_stays_is_what_number_theory_says(after: int, stays: float) -> None:
    """N / lcm(N, M), and names without a pattern come near it."""
    names = random.Random(7)
    cost = Hashed(f"app-{names.getrandbits(64):x}" for _ in range(20_000)).cost(50, after)
    assert cost.stays == pytest.approx(stays)
    assert 1 - cost.moving / cost.groups == pytest.approx(stays, abs=0.02)
    assert cost.multiple is (after % 50 == 0)


def test_names_count_once() -> None:
    """A group that the log and a broker tell is one."""
    hashed = Hashed(["a", "a", "my-group"])
    assert hashed.groups == ("a", "my-group")
    assert [each.before for each in hashed.movers(50, 100)] == [47, 12]


def test_counts_beside_the_one_asked_for() -> None:
    """Small multiples, and the multiple next above."""
    assert worth_comparing(50, 110) == (100, 110, 150, 200)
    assert worth_comparing(5, 8) == (8, 10, 15, 20)
    assert worth_comparing(50, 500) == (100, 150, 200, 500)


def test_no_partition_holds_no_group() -> None:
    """As everywhere: refused, not divided by."""
    with pytest.raises(Rejected, match="0 partitions holds no group"):
        LoggedPlaces(LogReading([commit("a", 0)]), 0, 1)
