"""Twelve of the moves of `test_protocol_moves`: every two values of two columns meet in one.

Two moves are under way at a time, each of a fleet of five members; a broker of each release serves all its
cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import fields
from itertools import combinations, product

import pytest

from support.protocol_cases import PAIRS, Case, Moved, chosen_moves

AT_ONCE = 2


@pytest.fixture(scope="module")
def under_way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Moved]]]:
    """The moves of the cases that were chosen, by name."""
    with chosen_moves(request, tmp_path_factory.mktemp("pairs"), PAIRS, AT_ONCE) as futures:
        yield futures


def test_every_pair_of_values_is_moved_once() -> None:
    """Two values that no row has together would be moved by nobody."""
    rows = [tuple(str(getattr(each, one.name)) for one in fields(Case)) for each in PAIRS]
    way_and_to = [(f"{way} {to}", *rest) for way, to, *rest in rows]
    columns = [set(column) for column in zip(*way_and_to, strict=True)]
    assert [len(column) for column in columns] == [4, 2, 3, 3, 3]
    for one, other in combinations(range(len(columns)), 2):
        met = {(row[one], row[other]) for row in way_and_to}
        assert met == set(product(columns[one], columns[other]))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.name)
def test_a_fleet_is_moved(case: Case, under_way: Mapping[str, Future[Moved]]) -> None:
    """Assessed first, then moved: offsets only go forward and end at the log's end, every record is
    delivered, one comes twice only where a partition changed hands, and the group is of the expected type
    after each phase."""
    moved = under_way[case.name].result()
    print(moved.told(case))
    assert moved.against(case) == {}
