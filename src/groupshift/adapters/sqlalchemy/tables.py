"""The tables of one port in the journal's database: made at first use, with a version that says whose they
are. SQL is read from ``sql/<folder>``, and the tables are made by ``sql/<folder>/schema``, one statement a
file in the order of their names; ``<name>.<database>.sql`` is for one database only."""

from __future__ import annotations

import time
from functools import cache
from importlib.metadata import version as release_of
from importlib.resources import files

from sqlalchemy import Connection, TextClause, inspect, text

from groupshift.adapters.sqlalchemy.database import Database
from groupshift.errors import Rejected

_POSTGRESQL = "postgresql"


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


class Tables(Database):
    """As `Database`, with the tables of ``folder``; ``versions`` is the table that has their version."""

    def __init__(self, url: str, folder: str, versions: str, version: int) -> None:
        super().__init__(url)
        self._folder, self._versions, self._version = folder, versions, version

    @property
    def postgresql(self) -> bool:
        """Whether it is a PostgreSQL."""
        return self._name == _POSTGRESQL

    def _prepare(self) -> None:
        if not self._ready:
            if self._tried(self._version_in, reads=True) < self._version:
                self._tried(self._make_tables, reads=False)
            self._ready = True

    def _version_in(self, connection: Connection) -> int:
        """The version of the tables, 0 where there are none. Raises `Rejected` for one newer than this
        release."""
        if not inspect(connection).has_table(self._versions):
            return 0
        row = connection.execute(statement_of(self._folder, "latest_schema")).mappings().one()
        if row["version"] > self._version:
            raise Rejected(
                f"journal.url names a database whose {self._folder} have schema version {row['version']}, "
                f"made by groupshift {row['applied_by']}, and groupshift {release_of('kafka-groupshift')} "
                f"knows version {self._version}; use that release or a newer one"
            )
        return int(row["version"])

    def _make_tables(self, connection: Connection) -> None:
        if self.postgresql:
            connection.execute(statement_of(self._folder, "lock_schema.postgresql"))
        if self._version_in(connection) == self._version:
            return
        for name in schema_of(self._folder, connection.dialect.name):
            connection.execute(statement_of(self._folder, name))
        by = release_of("kafka-groupshift")
        made = {"version": self._version, "applied_at_ms": time.time_ns() // 1_000_000, "applied_by": by}
        connection.execute(statement_of(self._folder, "insert_schema"), made)
