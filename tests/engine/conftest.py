"""The toy move is a package of its own, as a stranger's would be; it is found by its entry point."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from toy_world import World  # noqa: E402

from groupshift.adapters.sqlalchemy.runs import SqlRuns  # noqa: E402 - the path comes first
from groupshift.ports.runs import Runs  # noqa: E402
from support.memory_runs import MemoryRuns  # noqa: E402


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world with a journal in memory, and with one in a file."""
    runs: Runs = MemoryRuns() if request.param == "memory" else SqlRuns(f"sqlite:///{tmp_path / 'runs.db'}")
    yield World(folder=tmp_path, runs=runs)
    runs.close()


@pytest.fixture
def quick(tmp_path: Path) -> World:
    """A world with a journal in memory."""
    return World(folder=tmp_path)
