"""One database of the journal: SQLite by default, any that knows partial unique indexes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, TextClause, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError

from groupshift.adapters.sqlalchemy.statements import SCHEMA, statement
from groupshift.errors import Rejected, Transient

BUSY_MS = 10_000
"""How long a writer waits for another one before it gives up."""

READS = "groupshift_reads"
"""Execution option of a transaction that only reads."""


class Database:
    """Connections and transactions; the schema is created at first use.

    Raises `Rejected` for an unusable URL; `transaction` and `rows` raise `Transient` when the database does
    not answer. Its password never reaches a message."""

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError as error:
            raise Rejected(
                "journal.url is no database URL; write it as sqlite:////path/journal.db"
            ) from error
        self._shown = parsed.render_as_string(hide_password=True)
        self._lite = parsed.get_backend_name() == "sqlite"
        if self._lite and parsed.database:
            _make_folder(Path(parsed.database).parent)
        self._engine = _engine(url, lite=self._lite)
        self._ready = False

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def transaction(self, *, reads: bool = False) -> Iterator[Connection]:
        """A connection in a transaction that ends with the block; lets `IntegrityError` through."""
        try:
            if not self._ready:
                with self._engine.begin() as connection:
                    for name in SCHEMA:
                        connection.execute(statement(name))
                self._ready = True
            with self._engine.execution_options(**{READS: reads}).begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except (OperationalError, DBAPIError) as error:
            raise Transient(
                f"the journal {self._shown} did not answer ({type(error.orig).__name__}: {error.orig}); "
                "check journal.url and run it again"
            ) from error

    def rows(self, query: str | TextClause, **values: object) -> list[RowMapping]:
        """The rows of a named query."""
        asked = statement(query) if isinstance(query, str) else query
        with self.transaction(reads=True) as connection:
            return list(connection.execute(asked, values).mappings())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(
            f"journal.url names the folder {folder}, which cannot be made ({error.strerror}); choose another"
        ) from error


def _engine(url: str, *, lite: bool) -> Engine:
    if not lite:
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_MS / 1000})
    event.listen(engine, "connect", _prepare_lite)
    event.listen(engine, "begin", _begin_lite)
    return engine


def _prepare_lite(connection: Any, _record: object) -> None:
    """Durable, readable while written, patient; transactions are begun by us (`_begin_lite`)."""
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")


def _begin_lite(connection: Connection) -> None:
    """Writers take the lock at once: one that reads first and writes later could lose a race."""
    reads = connection.get_execution_options().get(READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
