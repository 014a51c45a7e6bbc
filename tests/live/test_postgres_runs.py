"""The journal of runs and the history of scans on a real PostgreSQL: the suites that SQLite passes, and what
only a server can do."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, Engine, event

from groupshift.adapters.sqlalchemy import database as database_module
from groupshift.adapters.sqlalchemy import scans as scans_module
from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.domain.run import Target
from groupshift.errors import Rejected, Transient
from groupshift.ports.runs import EventKind, NewEvent
from groupshift.scan.ports import Scans
from support.postgres_server import USER, Postgres, postgres
from support.runs_contention import *  # noqa: F403 - the suite's tests are this module's tests
from support.runs_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.runs_suite import entry, run_record
from support.scans_suite import *  # noqa: F403 - the suite's tests are this module's tests

NOTED = NewEvent(kind=EventKind.NOTED, step="1")
OTHER = Target(kind="group", name="other", within="c")


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
def url(server: Postgres, database: str) -> str:
    """Its URL."""
    return server.url(database)


@pytest.fixture
def runs(url: str) -> Iterator[SqlRuns]:
    """An empty journal of runs."""
    made = SqlRuns(url)
    yield made
    made.close()


@pytest.fixture
def scans(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scans]:
    """An empty history with small pages, in a database that a journal uses, too."""
    monkeypatch.setattr(scans_module, "PAGE", 3)
    SqlRuns(url).recent(1)
    made = SqlScans(url)
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


def claimed(runs: SqlRuns, name: str = "r") -> int:
    """A run that is claimed; its token."""
    runs.create(run_record(name) if name == "r" else run_record(name, target=OTHER))
    return runs.claim(name, "cli", 1, anew=True)


def kinds(runs: SqlRuns) -> list[EventKind]:
    """What is journaled of the run."""
    return [each.kind for each in runs.events("r")]


def test_connections_that_were_ended_while_idle_are_made_anew(
    server: Postgres, database: str, runs: SqlRuns
) -> None:
    """A server that was restarted since the last call is nobody's business."""
    token = claimed(runs)
    assert server.end_connections(database) >= 1
    runs.append(entry(token=token, events=(NOTED,)))
    assert kinds(runs)[-1] is EventKind.NOTED


def test_a_connection_killed_within_a_transaction_costs_a_try(
    server: Postgres, database: str, runs: SqlRuns
) -> None:
    """The transaction begins anew on another connection, and what it writes is there once."""
    token = claimed(runs)
    kills = iter([True])

    def kill() -> None:
        if next(kills, False):
            assert server.end_connections(database) >= 1

    with before_each("INSERT INTO run_event", kill):
        runs.append(entry(token=token, events=(NOTED,)))
    assert kinds(runs) == [EventKind.PLANNED, EventKind.CLAIMED, EventKind.NOTED]


def test_a_connection_that_is_killed_every_time_is_given_up(
    server: Postgres, database: str, runs: SqlRuns
) -> None:
    """After three tries, with one sentence; nothing was written."""
    token = claimed(runs)
    killed: list[int] = []
    with (
        before_each("INSERT INTO run_event", lambda: killed.append(server.end_connections(database))),
        pytest.raises(Transient, match=r"did not answer .* run it again") as raised,
    ):
        runs.append(entry(token=token, events=(NOTED,)))
    assert len(killed) == 3
    assert kinds(runs) == [EventKind.PLANNED, EventKind.CLAIMED]
    assert server.password not in "".join(traceback.format_exception(raised.value))


def test_a_connection_killed_at_the_commit_is_not_tried_again(
    server: Postgres, database: str, runs: SqlRuns
) -> None:
    """Nobody knows whether it was written, so it is not written a second time blindly."""
    token = claimed(runs)

    def kill(_connection: Connection) -> None:
        server.end_connections(database)

    event.listen(Engine, "commit", kill)
    try:
        with pytest.raises(Transient, match="written or not; run it again"):
            runs.append(entry(token=token, events=(NOTED,)))
    finally:
        event.remove(Engine, "commit", kill)
    assert kinds(runs) == [EventKind.PLANNED, EventKind.CLAIMED]


def test_waiting_for_another_writer_ends(
    server: Postgres, database: str, runs: SqlRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped while it wrote holds up nobody for ever, and no other run."""
    token, other = claimed(runs), claimed(runs, "s")
    monkeypatch.setattr(database_module, "BUSY_MS", 300)
    with server.admin(database) as stopped, stopped.transaction():
        stopped.execute("UPDATE run SET updated_at_ms = 7 WHERE run = 'r'")
        with pytest.raises(Transient, match="lock timeout"):
            runs.append(entry(token=token, events=(NOTED,)))
        runs.append(entry("s", token=other, events=(NOTED,)))
    runs.append(entry(token=token, events=(NOTED,)))
    assert kinds(runs).count(EventKind.NOTED) == 1


def test_a_server_that_is_not_there_is_asked_three_times(
    server: Postgres, database: str, runs: SqlRuns
) -> None:
    """Here it refuses new connections; then it is there again."""
    claimed(runs)
    with server.admin() as admin:
        admin.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        server.end_connections(database)
        with pytest.raises(Transient, match="not currently accepting connections"):
            runs.recent(1)
        admin.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
    assert len(runs.recent(1)) == 1


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
    for each in urls:
        with pytest.raises(Transient, match="authentication failed") as raised:
            SqlRuns(each).recent(1)
        told += "".join(traceback.format_exception(raised.value))
    working = SqlRuns(server.url(database))
    working.create(run_record())
    working.close()
    shown = [told, caplog.text, *capfd.readouterr(), repr(working), repr(vars(working._database))]
    assert all(secret not in text for text in shown for secret in (wrong, "hush-hush", server.password))
    assert caplog.text


def test_a_value_that_no_column_can_hold_is_refused(runs: SqlRuns) -> None:
    """It is the input, not the server, and trying again would not help."""
    with pytest.raises(Rejected, match="cannot hold a value"):
        runs.create(run_record(target=Target(kind="group", name="a\x00b", within="c")))


def test_a_user_without_rights_to_change_tables_uses_an_up_to_date_database(
    server: Postgres, database: str, url: str
) -> None:
    """The owner opens it once; after that rows are all that is written."""
    SqlRuns(url).recent(1)
    with server.admin(database) as admin:
        admin.execute("CREATE ROLE clerk LOGIN PASSWORD 'of-the-clerk'")
        admin.execute("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO clerk")
    clerk = SqlRuns(f"postgresql://clerk:of-the-clerk@127.0.0.1:{server.port}/{database}")
    assert claimed(clerk) == 1
    clerk.close()
