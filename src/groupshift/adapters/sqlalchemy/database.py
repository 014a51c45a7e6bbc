"""The journal's database: SQLite by default, PostgreSQL for a team; its tables, SQL and failures.

Each port has tables of its own, made at first use, with a version that says whose they are (docs/adr/0012).
SQL is read from ``sql/<folder>``, one statement a file, bound parameters only, written once for all
databases; ``sql/<folder>/schema`` makes the tables in the order of its names. Where one database needs words
of its own, the file is called ``<name>.<database>.sql`` (``sqlite``, ``postgresql``). Messages about failures
contain no password.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as release_of
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, Engine, TextClause, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, OperationalError

from groupshift.adapters.system import signals_wait
from groupshift.domain.foreign_text_quoting import struck_out
from groupshift.errors import Rejected, Transient

T = TypeVar("T")
BUSY_MS = 10_000
"""How long a writer waits for another one before it gives up."""

STATEMENT_MS = 30_000
"""How long PostgreSQL may work on one statement."""

CONNECT_S = 5
"""How long PostgreSQL may take to accept a connection."""

ASKS_AGAIN_S = 0.02
"""Pause before SQLite is asked again for what it does not wait for by itself."""

PRIMARY_CODE = 0xFF
"""The bits of a result code of SQLite that name its kind; those above tell more of it."""

PAUSES_S = (0.2, 1.0)
"""Pauses before the second and the third try, where a connection broke or the server was not there."""

_POSTGRESQL = "postgresql"
READS = "groupshift_reads"
"""Execution option of a transaction that only reads."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of a `Database`; its statements are named by their files in the database's folder."""

    connection: Connection
    folder: str

    def rows(self, query: str | TextClause, **values: object) -> list[dict[str, Any]]:
        """Return the rows of a query, by column."""
        statement = statement_of(self.folder, query) if isinstance(query, str) else query
        rows = self.connection.execute(statement, values)
        columns = tuple(rows.keys())
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def execute(self, name: str, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> int:
        """Execute a statement with these values, or with each of several; returns the number of rows that it
        changed."""
        return self.connection.execute(statement_of(self.folder, name), values).rowcount

    @property
    def postgresql(self) -> bool:
        """Whether the database is a PostgreSQL."""
        return self.connection.dialect.name == _POSTGRESQL


class Database:
    """Connections and transactions; the tables of ``folder`` are made at first use, and ``versions`` is the
    table that has their version.

    Raises `Rejected` for an unusable URL, and at first use for a database newer than this release; every call
    raises `Transient` when the database does not answer. Its password never reaches a message."""

    def __init__(self, url: str, folder: str, versions: str, version: int) -> None:
        self._folder, self._versions, self._version = folder, versions, version
        try:
            self._url = make_url(url)
        except (ArgumentError, ValueError):  # the cause is not kept: its text may hold a piece of a password
            raise Rejected(
                "journal.url is no database URL; write it as sqlite:////path/journal.db or "
                "postgresql://user:password@host:5432/database, with %40 for an @ and %3A for a : in the "
                "password"
            ) from None
        self.kind = self._url.get_backend_name()
        """Which database it is: sqlite or postgresql."""
        if self.kind == "sqlite" and self._url.database:
            _make_file(Path(self._url.database))
        self._engine = _engine(self._url)
        self._engines = {reads: self._engine.execution_options(**{READS: reads}) for reads in (False, True)}
        self._ready = False

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what ``work`` returns, done in one transaction that begins anew when the connection breaks
        before it is committed: ``work`` may run up to three times. Lets `IntegrityError` through."""
        self._prepare()
        return self._tried(work, reads=False)

    def rows(self, query: str | TextClause, **values: object) -> list[dict[str, Any]]:
        """Return the rows of a query, by column, in a transaction that only reads."""
        self._prepare()
        return self._tried(lambda transaction: transaction.rows(query, **values), reads=True)

    def _prepare(self) -> None:
        """Make the tables where they are missing: a user without rights to change tables can use a database
        that has them."""
        if not self._ready:
            if self._tried(self._version_in, reads=True) < self._version:
                self._tried(self._make_tables, reads=False)
            self._ready = True

    def _version_in(self, transaction: Transaction) -> int:
        """Return the version of the tables, 0 where there are none. Raises `Rejected` for one newer than this
        release."""
        if not inspect(transaction.connection).has_table(self._versions):
            return 0
        (row,) = transaction.rows("latest_schema")
        if row["version"] > self._version:
            raise Rejected(
                f"journal.url names a database whose {self._folder} have schema version {row['version']}, "
                f"made by groupshift {row['applied_by']}, and groupshift {release_of('kafka-groupshift')} "
                f"knows version {self._version}; use that release or a newer one"
            )
        return int(row["version"])

    def _make_tables(self, transaction: Transaction) -> None:
        if transaction.postgresql:
            transaction.execute("lock_schema.postgresql", {})
        if self._version_in(transaction) == self._version:
            return
        for name in schema_of(self._folder, transaction.connection.dialect.name):
            transaction.execute(name, {})
        by = release_of("kafka-groupshift")
        made = {"version": self._version, "applied_at_ms": time.time_ns() // 1_000_000, "applied_by": by}
        transaction.execute("insert_schema", made)

    def _tried(self, work: Callable[[Transaction], T], *, reads: bool) -> T:
        """Do the work once, and again after a pause for as long as another try is worth it."""
        pauses_s = iter(PAUSES_S)
        while True:
            try:
                return self._once(work, reads=reads)
            except IntegrityError:
                raise
            except DBAPIError as error:
                journal, why = f"the journal {shown(self._url)}", said(error, self._url)
                if isinstance(error, DataError):
                    raise Rejected(f"{journal} cannot hold a value ({why}); correct it") from error
                pause_s = next(pauses_s, None) if passing(error) else None
                if pause_s is None:
                    sentence = f"{journal} did not answer ({why}); check journal.url and run it again"
                    raise Transient(sentence) from error
            time.sleep(pause_s)

    def _once(self, work: Callable[[Transaction], T], *, reads: bool) -> T:
        with signals_wait(), self._engines[reads].connect() as connection, connection.begin() as begun:
            transaction = Transaction(connection, self._folder)
            if transaction.postgresql:
                waits = {"lock_ms": str(BUSY_MS), "statement_ms": str(STATEMENT_MS)}
                Transaction(connection, "shared").execute("bound_waits.postgresql", waits)
            try:
                result = work(transaction)
            except UnicodeEncodeError as wrong:
                sentence = f"{wrong.object[:80]!r} is no UTF-8 and fits no journal; nothing was changed"
                raise Rejected(f"{sentence}: correct it") from wrong
            try:
                begun.commit()
            except DBAPIError as error:
                if reads or not error.connection_invalidated:
                    raise
                raise Transient(
                    f"the connection to the journal {shown(self._url)} broke while a change was committed "
                    f"({said(error, self._url)}), so it is written or not; run it again, which looks first"
                ) from error
            return result


def _make_file(database: Path) -> None:
    """An empty database that only its owner may read, where there is none yet; SQLite gives the files beside
    it the same rights."""
    folder = database.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not str(database).startswith((":memory:", "file:")):
            with suppress(FileExistsError):
                os.close(os.open(database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise Rejected(f"journal.url: folder {folder} cannot be made ({why}); choose another") from error


def _engine(url: URL) -> Engine:
    """The engine. Raises `Rejected` for a database we do not know, or whose library is not installed."""
    if url.get_backend_name() not in {"sqlite", _POSTGRESQL}:
        raise Rejected(f"journal.url is of kind {url.get_backend_name()!r}: use sqlite or postgresql")
    try:
        if url.get_backend_name() == _POSTGRESQL:
            if url.drivername == "postgresql":  # SQLAlchemy before 2.1 would take another library
                url = url.set(drivername="postgresql+psycopg")
            # No statement is prepared on the server, so a pooler in front of it may change connections.
            options = {"connect_timeout": CONNECT_S, "prepare_threshold": None}
            return create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=options)
        engine = create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_MS / 1000})
    except ModuleNotFoundError as error:
        needed = f"journal.url needs {error.name}, which is not installed"
        raise Rejected(f"{needed}: pip install 'kafka-groupshift[postgres]'") from error
    except ArgumentError as error:
        raise Rejected(f"journal.url names the driver {url.drivername!r}, which is unknown") from error
    event.listen(engine, "connect", _prepare_lite)
    event.listen(engine, "begin", _begin_lite)
    return engine


def _prepare_lite(connection: Any, _record: object) -> None:
    """Make a connection to SQLite durable, readable while written, and patient; transactions are begun by us
    (`_begin_lite`). SQLite does not wait for others where the mode of the file is changed, whatever its
    timeout (two that change a new file's mode at once would wait for each other): who finds it locked asks
    again, for as long as a writer waits."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    until = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & PRIMARY_CODE != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(ASKS_AGAIN_S)
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_lite(connection: Connection) -> None:
    """Writers take the lock at once: one that reads first and writes later could lose a race. A query is a
    transaction of its own."""
    if not connection.get_execution_options().get(READS):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


_PASSING = frozenset({"40001", "40P01", "57P01", "57P02", "57P03"})
"""SQLSTATEs (PostgreSQL, appendix A) after which the same transaction may succeed at once:
serialization_failure, deadlock_detected, admin_shutdown, crash_shutdown and cannot_connect_now."""


def passing(error: DBAPIError) -> bool:
    """Whether another try is worth it: the connection broke, or the server is being restarted.

    A lock that was waited for in vain is not: the wait was the try. SQLite has no server that comes back."""
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _PASSING:
        return True
    connecting = isinstance(error, OperationalError) and error.statement is None
    return connecting and not type(error.orig).__module__.startswith("sqlite3")


def shown(url: URL) -> str:
    """The URL for a message: no password, and nothing of the query, which may hold one."""
    return url.set(query={}).render_as_string(hide_password=True)


def said(error: DBAPIError, url: URL) -> str:
    """Return kind and words of the database's own error, in one line. The password and what the query holds
    are struck out as they are and as they stand in a URL; short ones would blacken words that say nothing."""
    text = " ".join(f"{type(error.orig).__name__}: {error.orig}".split())
    values = (str(url.password or ""), *(str(value) for value in url.query.values()))
    secrets = [value for value in values if len(value) > 2]  # noqa: PLR2004
    forms = {form for each in secrets for form in (each, quote(each, safe=""), quote_plus(each))}
    return struck_out(text, forms)


@cache
def statement_of(folder: str, name: str) -> TextClause:
    """Return the statement ``sql/<folder>/<name>.sql``, ready to execute."""
    file = files("groupshift").joinpath("sql", folder, f"{name}.sql")
    return text(file.read_text(encoding="utf-8").strip().removesuffix(";"))


@cache
def schema_of(folder: str, database: str) -> tuple[str, ...]:
    """Return the names of the statements that make the tables, in order, for one kind of database."""
    there = files("groupshift").joinpath("sql", folder, "schema").iterdir()
    names = sorted(each.name.removesuffix(".sql") for each in there)
    return tuple(f"schema/{name}" for name in names if name.partition(".")[2] in {"", database})
