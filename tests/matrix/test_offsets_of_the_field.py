"""An ordinary old group is moved there and back on the command line.

In Airflow: `test_airflow_field`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.run import RunState
from groupshift_sandbox.processes import wait_until
from support.coordination_app import coordination_app
from support.field_sandbox import GROUP, PARTITIONS, Field, field_sandbox, prove_there_and_back, ready

pytestmark = pytest.mark.timeout(1800)  # some ten proofs in Spark, on a machine that may be busy


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """Three old members of a group with leftovers, on a compacted topic that is written in transactions."""
    with field_sandbox(tmp_path_factory.mktemp("field")) as found:
        yield found


def test_f01_f02_leftovers_transactions_and_compaction_go_there_and_back(old: Field, tmp_path: Path) -> None:
    """`run --execute` and `roll-back`: every verdict is pass, no leftover is touched, no record is lost."""
    with coordination_app(old.settings) as app:
        ready(app)
        old.write_transactions_when_aware()
        asked = ("--group", GROUP, "--soak", "0", "--canary-watch", "0")
        old.groupshift("coordination", "run", *asked, "--execute", "--yes")
        (moved,) = app.tools.runs.recent(1)
        assert moved.state is RunState.MOVED
        wait_until(lambda: old.writer.aborted > PARTITIONS, 60.0, "transactions were aborted")
        old.write_plain_records()
        old.groupshift("roll-back", moved.run, "--execute", "--yes")
        prove_there_and_back(old, app, moved.run, tmp_path)
