"""The journal port in memory and on SQLite: `journal_suite` and `journal_contention`. The same suites run on
PostgreSQL in ``tests/live/test_postgres_runs.py``, since this folder needs no server of a database."""

from __future__ import annotations

import sqlite3
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from groupshift.adapters.sqlalchemy.database import _engine
from groupshift.adapters.sqlalchemy.journal import SqlJournal
from groupshift.errors import Rejected, Transient
from groupshift.ports.journal import Journal
from groupshift_testing.journal import MemoryJournal
from support.journal_contention import *  # noqa: F403 - the suite's tests are this module's tests
from support.journal_suite import *  # noqa: F403 - the suite's tests are this module's tests


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """An empty journal of each kind."""
    if request.param == "memory":
        yield MemoryJournal()
    else:
        stored = SqlJournal(f"sqlite:///{tmp_path / 'deep' / 'journal.db'}")
        yield stored
        stored.close()


@pytest.fixture
def journal_url(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return f"sqlite:///{tmp_path / 'journal.db'}"


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        ("no url", Rejected, "journal.url"),
        ("sqlite:////proc/none/journal.db", Rejected, "cannot be made"),
        ("sqlite:////proc/version", Transient, "did not answer"),
        ("mysql://u:hush@h/d", Rejected, "use sqlite or postgresql"),
        ("postgresql+nodriver://u:hush@h/d", Rejected, "nodriver"),
        ("postgresql://u:hush@hush:word@h/d", Rejected, "%40"),
        ("postgresql://u:hush@127.0.0.1:1/d?password=hush", Transient, "did not answer"),
    ],
)
def test_a_journal_that_cannot_be_opened_is_one_sentence(url: str, error: type[Exception], says: str) -> None:
    """Bad input and a database that is not there are told apart; no part of a password is told."""
    opening: Callable[[], object] = lambda: SqlJournal(url).recent(1)  # noqa: E731
    with pytest.raises(error, match=says) as raised:
        opening()
    told = "".join(traceback.format_exception(raised.value))
    assert "hush" not in told
    assert "\n" not in str(raised.value)


def test_an_opener_waits_for_who_holds_a_file_that_is_not_yet_written_ahead(tmp_path: Path) -> None:
    """SQLite refuses the change of a file's mode at once while another holds it, so two that opened an empty
    journal in one moment met "database is locked"; a writer's patience holds for this too."""
    file = tmp_path / "journal.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    leaves = threading.Timer(0.5, other.rollback)
    leaves.start()
    journal = SqlJournal(f"sqlite:///{file}")
    assert journal.recent(1) == ()
    journal.close()
    leaves.join()
    other.close()


def test_an_opener_of_a_file_that_is_held_for_good_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has an end."""
    monkeypatch.setattr("groupshift.adapters.sqlalchemy.database.BUSY_MS", 200)
    file = tmp_path / "journal.db"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Transient, match="database is locked"):
        SqlJournal(f"sqlite:///{file}").recent(1)
    other.close()


def test_f14_a_journal_in_postgresql_uses_the_library_that_we_name_with_any_sqlalchemy() -> None:
    """Where the URL names none; before 2.1 SQLAlchemy takes psycopg2, which nobody was told to install."""
    for url, driver in (
        ("postgresql://u@127.0.0.1:1/d", "postgresql+psycopg"),
        ("postgresql+psycopg://u@127.0.0.1:1/d", "postgresql+psycopg"),
        ("sqlite://", "sqlite"),
    ):
        assert _engine(make_url(url)).url.drivername == driver
