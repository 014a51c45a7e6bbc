"""The journal of cluster runs in memory and on SQLite: `cluster_runs_suite`. The same suite runs on a
PostgreSQL in ``tests/live/test_postgres_runs.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.adapters.sqlalchemy.journal import SqlClusterRuns
from groupshift.ports.journal import ClusterRuns
from groupshift_testing.cluster_runs import MemoryClusterRuns
from support.cluster_runs_suite import *  # noqa: F403 - the suite's tests are this module's tests


@pytest.fixture(params=["memory", "sqlite"])
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterRuns]:
    """An empty journal of each kind."""
    if request.param == "memory":
        yield MemoryClusterRuns()
        return
    made = SqlClusterRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    yield made
    made.close()
