"""By which count real brokers coordinate, before and after a careless expansion from 5 to 8 partitions: three
nodes of 4.3.1 (NEW). Those of 3.9.2 with ZooKeeper (OLD) are in tests/matrix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.verdict import Verdict
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import unchanged
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.rolling import replace_node
from support.placement_story import (
    AFTER,
    BEFORE,
    MOVING,
    Audits,
    audited,
    careless,
    committed,
    counts,
    expand,
    said,
)
from support.placement_suite import *  # noqa: F403 - the suite's tests are this module's tests

pytestmark = pytest.mark.timeout(900)  # the fixtures count too
FIVE = {"offsets.topic.num.partitions": str(BEFORE)}


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audits]:
    """The whole careless way, audited after each step."""
    home = Home(tmp_path_factory.mktemp("placement")).create()
    try:
        yield careless(start_kraft(home, KraftOptions(nodes=3, heap="320m", properties=FIVE)))
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def test_one_broker_before_and_after_its_restart(tmp_path: Path) -> None:
    """It leads everything, so its answers fit any count: the log, and what it still answers, tell."""
    home = Home(tmp_path / "one").create()
    try:
        cluster = start_kraft(home, KraftOptions(heap="320m", properties=FIVE))
        committed(cluster)
        expand(cluster, AFTER)
        before = audited(cluster)
        cluster, _ = replace_node(cluster, 1, unchanged)
        after = audited(cluster)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)
    assert len(counts(before)[1]) == AFTER
    assert (before.facts.in_force, after.facts.in_force) == (BEFORE, AFTER)
    assert said(before, "X04")[0][0] is Verdict.FAIL
    assert said(after, "X04")[0][0] is Verdict.PASS
    assert f"{len(MOVING)} offsets of {len(MOVING)} groups" in said(after, "X07")[0][1]
