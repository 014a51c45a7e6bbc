"""Four of the twelve moves of ``make matrix MATRIX=protocol_pairs``: each way, client, assignor, membership
and broker in one at least, and a group that is refused online.

Two moves are under way at a time, each of a fleet of five members; a broker of each release serves all its
cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import fields

import pytest

from support.protocol_cases import PAIRS, SLICE, Case, Moved, chosen_moves

AT_ONCE = 2


@pytest.fixture(scope="module")
def under_way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Moved]]]:
    """The moves of the cases that were chosen, by name."""
    with chosen_moves(request, tmp_path_factory.mktemp("fleets"), SLICE, AT_ONCE) as futures:
        yield futures


def test_every_value_is_moved_once() -> None:
    """Of each column; a way and its direction are one."""
    for column in fields(Case):
        assert {getattr(each, column.name) for each in SLICE} == {
            getattr(each, column.name) for each in PAIRS
        }
    gone = {(each.goes, each.to) for each in SLICE}
    assert len(gone) == 4
    assert {to for _, to in gone} == {each.to for each in PAIRS}
    assert any(each.refused for each in SLICE)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", SLICE, ids=lambda case: case.name)
def test_a_fleet_is_moved(case: Case, under_way: Mapping[str, Future[Moved]]) -> None:
    """Assessed first, then moved: offsets only go forward and end at the log's end, every record is
    delivered, one comes twice only where a partition changed hands, and the group is of the expected type
    after each phase."""
    moved = under_way[case.name].result()
    print(moved.told(case))
    assert moved.against(case) == {}
