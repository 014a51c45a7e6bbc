"""The port of the scans' history on SQLite: `scans_suite`. The same suite runs on PostgreSQL in
``tests/live/test_postgres_runs.py``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from groupshift.adapters.sqlalchemy import scans as module
from groupshift.adapters.sqlalchemy.database import schema_of
from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.errors import Rejected
from groupshift.scan.ports import Scans
from support.scans_suite import *  # noqa: F403 - the suite's tests are this module's tests


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scans]:
    """An empty history with small pages, in a file that a journal uses, too."""
    monkeypatch.setattr(module, "PAGE", 3)
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    SqlRuns(url).recent(1)
    made = SqlScans(url)
    yield made
    made.close()


def test_tables_that_are_newer_are_refused_and_left_alone(tmp_path: Path) -> None:
    """One sentence that says what to do."""
    path = tmp_path / "journal.db"
    made = SqlScans(f"sqlite:///{path}")
    made.begin("zk", 1)
    made.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO scan_schema VALUES (99, 1, '7.0')")
    newer = SqlScans(f"sqlite:///{path}")
    with pytest.raises(Rejected, match=r"scans have schema version 99, made by groupshift 7\.0"):
        newer.begin("zk", 2)
    newer.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM scan").fetchone() == (1,)


def test_postgresql_orders_names_by_their_code_points() -> None:
    """Tables are made alike, and what orders names is for that database alone."""
    lite, both = schema_of("scans", "sqlite"), schema_of("scans", "postgresql")
    assert set(lite) < set(both)
    assert all(each.endswith(".postgresql") for each in set(both) - set(lite))
