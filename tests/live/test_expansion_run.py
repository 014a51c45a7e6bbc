"""The whole way to more partitions of the offsets topic on real brokers: 300 groups of ten partitions each,
with epochs and metadata. On NEW coordinators: `tests/matrix/test_expansion_others.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.expansion_story import answered, home_in, logged, placed, the_whole_way, wanted
from support.placement_story import audited


@pytest.mark.timeout(1200)
def test_coordinator_16_the_whole_procedure_on_old_coordinators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 to 8 on 3.9.2 with ZooKeeper: equal in raw bytes, listed once, equal after leaders moved twice."""
    with home_in(tmp_path) as home:
        cluster = the_whole_way(home, "OLD", 8, capsys)
        assert (answered(cluster), logged(cluster)) == (wanted(), placed(8))
        assert audited(cluster).clean
