"""Journal and scans on a real PostgreSQL: the suites that SQLite passes, and what only a server can do."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event

from groupshift.adapters.sqlalchemy import database as database_module
from groupshift.adapters.sqlalchemy import scans as scans_module
from groupshift.adapters.sqlalchemy.database import TABLE, Database, statement, statements_of, versions
from groupshift.adapters.sqlalchemy.journal import SqlClusterRuns, SqlJournal
from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.journal import ClusterRuns, EventKind, Journal
from groupshift.scan.ports import Scans
from support.cluster_runs_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.journal_contention import *  # noqa: F403 - the suite's tests are this module's tests
from support.journal_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.journal_suite import entry, record
from support.postgres_server import USER, Postgres, postgres
from support.scans_suite import *  # noqa: F403 - the suite's tests are this module's tests


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server for this module."""
    with postgres() as running:
        yield running


@pytest.fixture
def database(server: Postgres) -> str:
    """The name of an empty database."""
    return server.new_database()


@pytest.fixture
def journal_url(server: Postgres, database: str) -> str:
    """Its URL."""
    return server.url(database)


@pytest.fixture
def journal(journal_url: str) -> Iterator[Journal]:
    """An empty journal."""
    made = SqlJournal(journal_url)
    yield made
    made.close()


@pytest.fixture
def scans(journal_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scans]:
    """An empty history with small pages, in a database that a journal uses, too."""
    monkeypatch.setattr(scans_module, "PAGE", 3)
    SqlJournal(journal_url).recent(1)
    made = SqlScans(journal_url)
    yield made
    made.close()


@pytest.fixture
def runs(journal_url: str) -> Iterator[ClusterRuns]:
    """An empty journal of runs."""
    made = SqlClusterRuns(journal_url)
    yield made
    made.close()


@contextlib.contextmanager
def before_each(text: str, happens: Callable[[], None]) -> Iterator[None]:
    """Something happens right before every statement that begins so is sent."""

    def look(_connection: Connection, _cursor: object, sent: str, *_others: object) -> None:
        if sent.lstrip().startswith(text):
            happens()

    event.listen(Engine, "before_cursor_execute", look)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", look)


def test_connections_that_were_ended_while_idle_are_made_anew(
    server: Postgres, database: str, journal: SqlJournal
) -> None:
    """A server that was restarted since the last call is nobody's business."""
    journal.create(record())
    assert server.end_connections(database) >= 1
    journal.append(entry())
    assert len(journal.events("m-1")) == 1


def test_a_connection_killed_within_a_transaction_costs_a_try(
    server: Postgres, database: str, journal: SqlJournal
) -> None:
    """The transaction begins anew on another connection, and what it writes is there once."""
    journal.create(record())
    token = journal.claim("m-1", "run", 1)
    kills = iter([True])

    def kill() -> None:
        if next(kills, False):
            assert server.end_connections(database) >= 1

    with before_each("INSERT INTO migration_event", kill):
        journal.append(entry(token=token))
    assert [each.kind for each in journal.events("m-1")] == [EventKind.CLAIMED, EventKind.ACTED]


def test_a_connection_that_is_killed_every_time_is_given_up(
    server: Postgres, database: str, journal: SqlJournal
) -> None:
    """After three tries, with one sentence; nothing was written."""
    journal.create(record())
    killed: list[int] = []
    with (
        before_each("INSERT INTO migration_event", lambda: killed.append(server.end_connections(database))),
        pytest.raises(Transient, match=r"did not answer .* run it again") as raised,
    ):
        journal.append(entry())
    assert len(killed) == 3
    assert journal.events("m-1") == ()
    assert journal.find("m-1").updated_at_ms == 1
    assert server.password not in "".join(traceback.format_exception(raised.value))


def test_a_connection_killed_at_the_commit_is_not_tried_again(
    server: Postgres, database: str, journal: SqlJournal
) -> None:
    """Nobody knows whether it was written, so it is not written a second time blindly."""
    journal.create(record())

    def kill(_connection: Connection) -> None:
        server.end_connections(database)

    event.listen(Engine, "commit", kill)
    try:
        with pytest.raises(Transient, match="written or not; run it again"):
            journal.append(entry())
    finally:
        event.remove(Engine, "commit", kill)
    assert journal.events("m-1") == ()


def test_waiting_for_another_writer_ends(
    server: Postgres, database: str, journal: SqlJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped while it wrote holds up nobody for ever, and no other migration."""
    journal.create(record())
    journal.create(record("m-2", group="other"))
    monkeypatch.setattr(database_module, "BUSY_MS", 300)
    with server.admin(database) as stopped, stopped.transaction():
        stopped.execute("UPDATE migration SET updated_at_ms = 7 WHERE migration = 'm-1'")
        with pytest.raises(Transient, match="lock timeout"):
            journal.append(entry())
        journal.append(entry(name="m-2"))
    journal.append(entry())
    assert len(journal.events("m-1")) == len(journal.events("m-2")) == 1


def test_a_server_that_is_not_there_is_asked_three_times(
    server: Postgres, database: str, journal: SqlJournal
) -> None:
    """Here it refuses new connections; then it is there again."""
    journal.create(record())
    with server.admin() as admin:
        admin.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        server.end_connections(database)
        with pytest.raises(Transient, match="not currently accepting connections"):
            journal.recent(1)
        admin.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
    assert len(journal.recent(1)) == 1


def test_no_password_is_told(
    server: Postgres, database: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither in an error with its causes nor in any log, however much is logged."""
    for name in ("", "sqlalchemy", "psycopg"):
        caplog.set_level(logging.DEBUG, name)
    wrong = "hush/hush-hush"
    urls = (
        server.url(database, password="hush%2Fhush-hush"),
        f"postgresql://{USER}@127.0.0.1:{server.port}/{database}?password=hush%2Fhush-hush",
    )
    told = ""
    for url in urls:
        with pytest.raises(Transient, match="authentication failed") as raised:
            SqlJournal(url).recent(1)
        told += "".join(traceback.format_exception(raised.value))
    working = SqlJournal(server.url(database))
    working.create(record())
    working.close()
    shown = [told, caplog.text, *capfd.readouterr(), repr(working), repr(vars(working._database))]
    assert all(secret not in text for text in shown for secret in (wrong, "hush-hush", server.password))
    assert caplog.text


def test_a_value_that_no_column_can_hold_is_refused(journal: SqlJournal) -> None:
    """It is the input, not the server, and trying again would not help."""
    with pytest.raises(Rejected, match="cannot hold a value"):
        journal.create(record(group="a\x00b"))


def test_a_user_without_rights_to_change_tables_uses_an_up_to_date_database(
    server: Postgres, database: str, journal_url: str
) -> None:
    """The owner opens it once; after that rows are all that is written."""
    SqlJournal(journal_url).recent(1)
    with server.admin(database) as admin:
        admin.execute("CREATE ROLE clerk LOGIN PASSWORD 'of-the-clerk'")
        admin.execute("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO clerk")
        admin.execute(f"GRANT SELECT ON {TABLE} TO clerk")
    clerk = SqlJournal(f"postgresql://clerk:of-the-clerk@127.0.0.1:{server.port}/{database}")
    clerk.create(record())
    assert clerk.claim("m-1", "run", 1) == 1
    clerk.close()


def test_a_database_with_the_first_schema_is_brought_up_to_date_with_its_rows(
    server: Postgres, database: str, journal_url: str
) -> None:
    """As release 0.1.0 would have made it: without a version, lengths bounded, ordered by a language."""
    with Database(journal_url)._engine.begin() as connection:
        for name in statements_of(1, "postgresql"):
            connection.execute(statement(name))
        row = {"plan": "x", "request": "x", "plan_hash": "0" * 64, "phase": "running"}
        times = {"created_at_ms": 2**41, "updated_at_ms": 2**41}
        for name in ("a", "B"):
            values = {**row, **times, "migration": name, "group_id": f"g-{name}", "run": name}
            connection.execute(statement("insert_migration"), values)
    journal = SqlJournal(journal_url)
    assert [found.migration for found in journal.recent(9)] == ["a", "B"]
    with pytest.raises(Conflict):
        journal.create(record("c", group="g-B"))
    assert journal.claim("a", "run", 1) == 1
    journal.create(record("d", group="long " * 100))
    with server.admin(database) as admin:
        rows = admin.execute(f"SELECT version FROM {TABLE} ORDER BY version").fetchall()
        assert [number for (number,) in rows] == list(versions())
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            admin.execute("INSERT INTO claim VALUES ('nobody', 1, 'r', 1)")
    journal.close()
