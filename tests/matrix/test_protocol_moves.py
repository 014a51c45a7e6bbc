"""The move ``protocol`` over real fleets, as in Kafka's own consumer_protocol_migration_test: all 216 moves.

Four ways (rolling and all at once, there and back), two memberships, three assignors, three clients and three
brokers. The three assignors are moved at once, one fleet each. The id of a test selects:
``-k "online-to-consumer and static and on-4.4.0"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from support.protocol_cases import EVERY, Brokers, Case, brokers, moves

BATCHES = {name: tuple(cases) for name, cases in groupby(EVERY, key=lambda each: each.batch)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """A broker of each release, shared by its cases."""
    with brokers(tmp_path_factory.mktemp("brokers")) as started:
        yield started


def test_the_product_is_whole() -> None:
    """Each case once, in batches of the three assignors."""
    assert len({each.name for each in EVERY}) == len(EVERY) == 216
    assert [len({each.assignor for each in cases}) for cases in BATCHES.values()] == [3] * 72


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cases", BATCHES.values(), ids=BATCHES)
def test_fleets_are_moved(cases: tuple[Case, ...], running: Brokers, tmp_path: Path) -> None:
    """As a case of `test_protocol_pairs`, for each assignor."""
    with moves(cases, running, tmp_path, len(cases)) as under_way:
        ended = {name: future.result() for name, future in under_way.items()}
    for case in cases:
        print(ended[case.name].told(case))
    assert {case.name: ended[case.name].against(case) for case in cases} == {each.name: {} for each in cases}
