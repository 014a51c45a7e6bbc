"""Bringing a journal's database up to date: from every released schema, once, and never back."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event

from groupshift.adapters.sqlalchemy.database import Database, sql, statements_of, versions
from groupshift.adapters.sqlalchemy.journal import SqlJournal
from groupshift.domain.plan import Phase, from_json
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.journal import EventKind
from support.journal_suite import record

RELEASED = Path(__file__).parent / "journals" / "0.1.0.dump"
MOVED, PLANNED = "orders-app-20231114T221320-597a", "payments-20231114T221320-7444"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A database that release 0.1.0 made: a group moved and taken back, one planned, two scans."""
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(RELEASED.read_text())
    connection.close()
    return path


def tables(path: Path) -> dict[str, str]:
    """Everything in the schema of a file, by name."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: " ".join(text.replace("IF NOT EXISTS ", "").split()) for name, text in rows}


def applied(path: Path) -> list[int]:
    """The versions that were written down."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT version FROM schema_version ORDER BY version").fetchall()
    connection.close()
    return [number for (number,) in rows]


def test_a_database_of_release_0_1_0_is_used_on_with_all_it_holds(released: Path) -> None:
    """Nothing is lost, what it locks is still locked, and its migrations can be read and gone on with."""
    journal = SqlJournal(f"sqlite:///{released}")
    assert [found.migration for found in journal.recent(9)] == [PLANNED, MOVED]
    assert journal.find(MOVED).phase is Phase.ROLLED_BACK
    assert [event_.seq for event_ in journal.events(MOVED)] == list(range(1, 67))
    assert journal.claims(MOVED) == {1: "cli-1", 2: "back-1"}
    assert len(journal.steps(MOVED)) == 5
    assert from_json(journal.find(PLANNED).plan).stages
    with pytest.raises(Conflict, match="open migration"):
        journal.create(record("another", group="payments"))
    assert journal.claim(MOVED, "later", 5) == 3
    assert journal.events(MOVED)[-1].kind is EventKind.CLAIMED
    journal.close()


def test_it_ends_with_the_tables_that_a_new_database_has(released: Path, tmp_path: Path) -> None:
    """One schema, whichever way it was reached; written down version by version. Scans keep their own."""
    new = tmp_path / "new.db"
    for path in (released, new):
        SqlJournal(f"sqlite:///{path}").recent(1)
    made = {name: text for name, text in tables(released).items() if not name.startswith("scan")}
    assert made == tables(new)
    assert applied(released) == applied(new) == list(versions())


def test_a_database_that_is_newer_is_refused_and_left_alone(released: Path) -> None:
    """One sentence that says what to do; a later open finds it as it was."""
    url = f"sqlite:///{released}"
    SqlJournal(url).recent(1)
    connection = sqlite3.connect(released)
    connection.execute("INSERT INTO schema_version VALUES (99, 1, '7.0')")
    connection.commit()
    before = tables(released)
    with pytest.raises(Rejected, match=r"schema version 99, made by groupshift 7\.0.*newer one"):
        SqlJournal(url).recent(1)
    assert tables(released) == before
    assert connection.execute("SELECT COUNT(*) FROM scan").fetchone() == (2,)
    connection.close()


def test_a_version_is_applied_whole_or_not_at_all(released: Path) -> None:
    """The second statement of version 2 fails: nothing of version 2 is there, and the next open makes it."""
    connection = sqlite3.connect(released)
    connection.execute("CREATE TABLE migration_by_group (stands_in_the_way INTEGER)")
    connection.commit()
    with pytest.raises(Transient, match="migration_by_group"):
        SqlJournal(f"sqlite:///{released}").recent(1)
    assert applied(released) == [1]
    assert "migration_by_time" not in tables(released)
    connection.execute("DROP TABLE migration_by_group")
    connection.commit()
    connection.close()
    SqlJournal(f"sqlite:///{released}").recent(1)
    assert applied(released) == list(versions())


def test_an_up_to_date_database_is_only_read_when_it_is_opened(tmp_path: Path) -> None:
    """So a user without the right to change tables can open it: not one statement that writes."""
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    SqlJournal(url).recent(1)
    executed: list[str] = []

    def note(connection: Connection, cursor: object, text: str, *_others: object) -> None:
        executed.append(text.split(maxsplit=1)[0])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        Database(url).rows("list_recent", limit=1)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert executed
    assert set(executed) <= {"BEGIN", "PRAGMA", "SELECT"}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_version_has_its_statements_in_order(database: str) -> None:
    """1, 2, 3, ... without a gap; the first one makes tables that may be there, the later ones do not ask."""
    assert versions() == tuple(range(1, versions()[-1] + 1))
    for number in versions():
        names = statements_of(number, database)
        assert names
        assert list(names) == sorted(names)
        assert all(("IF NOT EXISTS" in sql(name)) == (number == 1) for name in names)
