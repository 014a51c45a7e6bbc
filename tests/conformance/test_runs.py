"""The one journal on SQLite: `runs_suite`. The same suite runs on a PostgreSQL in
``tests/live/test_postgres_runs.py``."""

from __future__ import annotations

import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import sqlalchemy.engine.base
from sqlalchemy import Connection, Engine, event, make_url

from groupshift.adapters.sqlalchemy import database
from groupshift.adapters.sqlalchemy.database import _engine
from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.adapters.system import signalled
from groupshift.errors import Rejected, Transient
from groupshift.ports.runs import Runs
from support.runs_contention import *  # noqa: F403 - the suite's tests are this module's tests
from support.runs_suite import *  # noqa: F403 - the suite's tests are this module's tests


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """An empty journal."""
    made: Runs = SqlRuns(f"sqlite:///{tmp_path / 'journal.db'}")
    yield made
    made.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an empty SQLite database."""
    return f"sqlite:///{tmp_path / 'journal.db'}"


def test_a_database_that_is_newer_is_refused_and_left_alone(tmp_path: Path) -> None:
    """With what made it."""
    file = tmp_path / "journal.db"
    SqlRuns(f"sqlite:///{file}").recent(1)
    with sqlite3.connect(file) as opened:
        opened.execute("INSERT INTO run_schema VALUES (2, 1, '9.9.9')")
    with pytest.raises(Rejected, match=r"schema version 2, made by groupshift 9\.9\.9"):
        SqlRuns(f"sqlite:///{file}").recent(1)


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
    with pytest.raises(error, match=says) as raised:
        _looked_at(url)
    text = "".join(traceback.format_exception(raised.value))
    assert "hush" not in text
    assert "\n" not in str(raised.value)


def _looked_at(url: str) -> None:
    made = SqlRuns(url)
    assert made.recent(1) == ()
    made.close()


def test_an_opener_waits_for_who_holds_a_file_that_is_not_yet_written_ahead(tmp_path: Path) -> None:
    """SQLite refuses the change of a file's mode at once while another holds it, so two that opened an empty
    journal in one moment met "database is locked"; a writer's patience holds for this too."""
    file = tmp_path / "journal.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    leaves = threading.Timer(0.5, other.rollback)
    leaves.start()
    _looked_at(f"sqlite:///{file}")
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
        _looked_at(f"sqlite:///{file}")
    other.close()


def test_a_query_does_not_wait_for_who_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees what was committed before; a query that took the writer's lock would end with "locked"."""
    monkeypatch.setattr("groupshift.adapters.sqlalchemy.database.BUSY_MS", 200)
    file = tmp_path / "journal.db"
    _looked_at(f"sqlite:///{file}")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    _looked_at(f"sqlite:///{file}")
    other.close()


def test_f14_a_journal_in_postgresql_uses_the_library_that_we_name_with_any_sqlalchemy() -> None:
    """Where the URL names none; before 2.1 SQLAlchemy takes psycopg2, which nobody was told to install."""
    for url, driver in (
        ("postgresql://u@127.0.0.1:1/d", "postgresql+psycopg"),
        ("postgresql+psycopg://u@127.0.0.1:1/d", "postgresql+psycopg"),
        ("sqlite://", "sqlite"),
    ):
        assert _engine(make_url(url)).url.drivername == driver


def test_a_database_that_has_its_tables_is_only_read_when_it_is_opened(url: str) -> None:
    """So a user without the right to change tables can open it: not one statement that writes."""
    _looked_at(url)
    executed: list[str] = []

    def note(connection: Connection, cursor: object, text: str, *_others: object) -> None:
        executed.append(text.split(maxsplit=1)[0])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        _looked_at(url)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert executed
    assert set(executed) <= {"BEGIN", "PRAGMA", "SELECT"}


def _interrupted_at(line: int, url: str) -> bool:
    """Read a journal, asked to end at this line that SQLAlchemy's engine or our own `Database` executes;
    return whether it was executed."""
    files = {sqlalchemy.engine.base.__file__, database.__file__}
    made, passed = SqlRuns(url), 0

    def trace(frame: FrameType, what: str, _given: object) -> Any:
        nonlocal passed
        if what == "call":
            return trace if frame.f_code.co_filename in files else None
        passed += what == "line"
        if what == "line" and passed == line:
            sys.settrace(None)
            signal.raise_signal(signal.SIGTERM)
        return trace

    made.recent(1)  # opens it
    former = sys.gettrace()
    sys.settrace(trace)
    try:
        made.recent(1)
    finally:
        sys.settrace(former)
        made.close()
    return passed >= line


def test_a_signal_at_any_line_of_a_transaction_is_an_interrupt_and_nothing_else(url: str) -> None:
    """An exception in the middle of a commit made SQLAlchemy fail with an error of its own, and the process
    ended as if by a fault (exit code 5)."""
    with signalled(signal.default_int_handler, signal.SIGTERM):
        for line in range(1, 10_000):
            try:
                executed = _interrupted_at(line, url)
            except KeyboardInterrupt:
                continue
            assert not executed, f"the signal at line {line} was lost"
            break
    assert 100 < line < 9_999
