"""A world of the toy move with each kind of journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_world import World

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.ports.runs import Runs
from groupshift_testing.runs import MemoryRuns


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world with each kind of journal."""
    runs: Runs = MemoryRuns() if request.param == "memory" else SqlRuns(f"sqlite:///{tmp_path / 'runs.db'}")
    yield World(folder=tmp_path, runs=runs)
    runs.close()


@pytest.fixture
def quick(tmp_path: Path) -> World:
    """A world with a journal in memory."""
    return World(folder=tmp_path)
