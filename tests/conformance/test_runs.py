"""The one journal in memory and on SQLite: `runs_suite`. The same suite runs on a PostgreSQL in
``tests/live/test_postgres_runs.py``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.adapters.sqlalchemy.journal import SqlJournal
from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.errors import Rejected
from groupshift.ports.runs import Runs
from groupshift_testing.runs import MemoryRuns
from support.runs_contention import *  # noqa: F403 - the suite's tests are this module's tests
from support.runs_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.runs_suite import run_record


@pytest.fixture(params=["memory", "sqlite"])
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runs]:
    """An empty journal of each kind."""
    made: Runs = (
        MemoryRuns() if request.param == "memory" else SqlRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    )
    yield made
    made.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an empty SQLite database."""
    return f"sqlite:///{tmp_path / 'journal.db'}"


def test_it_lives_in_one_database_with_the_old_journal(tmp_path: Path) -> None:
    """Until the old one is gone; each makes its own tables."""
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    old, runs = SqlJournal(url), SqlRuns(url)
    assert old.recent(1) == ()
    runs.create(run_record())
    assert SqlRuns(url).find("r") == run_record()
    assert SqlJournal(url).recent(1) == ()


def test_a_database_that_is_newer_is_refused_and_left_alone(tmp_path: Path) -> None:
    """With what made it."""
    file = tmp_path / "journal.db"
    SqlRuns(f"sqlite:///{file}").recent(1)
    with sqlite3.connect(file) as opened:
        opened.execute("INSERT INTO run_schema VALUES (2, 1, '9.9.9')")
    with pytest.raises(Rejected, match=r"schema version 2, made by groupshift 9\.9\.9"):
        SqlRuns(f"sqlite:///{file}").recent(1)
