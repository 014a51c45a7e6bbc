"""The port of the scans' history in memory and on SQLite: `scans_suite`. The same suite runs on PostgreSQL in
``tests/live/test_postgres_journal.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.adapters.sqlalchemy import scans as module
from groupshift.adapters.sqlalchemy.journal import SqlJournal
from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.scan.ports import Scans
from groupshift_testing.scans import MemoryScans
from support.scans_suite import *  # noqa: F403 - the suite's tests are this module's tests


@pytest.fixture(params=["memory", "sqlite"])
def scans(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scans]:
    """An empty history of each kind; on SQLite with small pages, in a file that a journal uses, too."""
    if request.param == "memory":
        yield MemoryScans()
        return
    monkeypatch.setattr(module, "PAGE", 3)
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    SqlJournal(url).recent(1)
    made = SqlScans(url)
    yield made
    made.close()
