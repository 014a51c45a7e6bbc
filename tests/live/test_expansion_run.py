"""The whole way to more partitions of the offsets topic, on real brokers: 300 groups of ten partitions each,
with epochs and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from expansion_story import answered, bounced, committed, logged, moving, placed, runs_of, started, wanted
from groupshift.sandbox.home import Home
from groupshift.sandbox.processes import marked, stop
from placement_story import audited, said


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Every process of it is ended."""
    found = Home(tmp_path / "home").create()
    try:
        yield found
    finally:
        for process in reversed(marked(found)):
            stop(process, 20.0)


def _the_whole_way(home: Home, kind: str, to: int, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = started(home, kind)
    committed(cluster)
    runs = runs_of(cluster, home.root.parent, capsys)
    code, planned = runs("run", "--to", str(to))
    assert (code, planned["possible"]) == (0, True)
    assert {each["group"] for each in planned["plan"]["movers"]} == moving(to)
    code, done = runs("run", "--to", str(to), "--execute", "--yes")
    assert code == 0, done
    assert done["outcome"]["ended"] == "done"
    assert answered(cluster) == wanted()
    assert logged(cluster) == placed(to)
    audit = audited(cluster)
    assert said(audit, "X06")[0][0] == "pass"
    cluster = bounced(cluster)
    assert answered(cluster) == wanted()
    assert logged(cluster) == placed(to)
    assert audited(cluster).clean


@pytest.mark.timeout(600)
def test_coordinator_16_the_whole_procedure_on_old_coordinators(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 to 8 on 3.9.2 with ZooKeeper: equal in raw bytes, listed once, equal after leaders moved twice."""
    _the_whole_way(home, "OLD", 8, capsys)


@pytest.mark.timeout(600)
def test_coordinator_18_the_whole_procedure_on_new_coordinators(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 to 10 on 4.3.1: groups that move were deleted before, so that nothing is listed twice."""
    _the_whole_way(home, "NEW", 10, capsys)
