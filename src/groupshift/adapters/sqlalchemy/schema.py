"""The schema of the journal's database: versions, applied in order, each in one transaction.

Version 1 is what release 0.1.0 made, which wrote down no version: its statements change nothing where its
tables are there already, so an old database and an empty one take the same way (docs/adr/0012).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version as release_of
from typing import TypeVar

from sqlalchemy import Connection, inspect

from groupshift.adapters.sqlalchemy.statements import statement, statements_of, versions
from groupshift.errors import Rejected

TABLE = "schema_version"

T = TypeVar("T")
Transaction = Callable[[Callable[[Connection], T]], T]
"""Runs work in one transaction, which is rolled back when it raises."""


def version_in(connection: Connection) -> int:
    """The version of this database, 0 for one that was never brought up to date.

    Raises `Rejected` when it is newer than this release knows."""
    if not inspect(connection).has_table(TABLE):
        return 0
    row = connection.execute(statement("schema/latest_version")).mappings().first()
    if row is None:
        return 0
    if row["version"] > versions()[-1]:
        raise Rejected(
            f"journal.url names a database with schema version {row['version']}, made by groupshift "
            f"{row['applied_by']}, and groupshift {release_of('kafka-groupshift')} knows version "
            f"{versions()[-1]} at most; use that release or a newer one"
        )
    return int(row["version"])


def bring_up_to_date(look: Transaction[int], write: Transaction[int]) -> None:
    """Apply what is missing. ``look`` runs a transaction that reads, ``write`` one that writes.

    Nothing is written to a database that is up to date, so a user without rights to change tables can use
    one. Raises `Rejected` when the database is newer than this release."""
    while look(version_in) < versions()[-1]:
        write(_apply_next)


def _apply_next(connection: Connection) -> int:
    """The next version, or nothing when another opener was faster; returns the version then reached."""
    database = connection.dialect.name
    if database == "postgresql":
        connection.execute(statement("schema/lock.postgresql"))
    connection.execute(statement("schema/table_schema_version"))
    present = version_in(connection)
    following = [number for number in versions() if number > present]
    if not following:
        return present
    for name in statements_of(following[0], database):
        connection.execute(statement(name))
    about = {
        "version": following[0],
        "applied_at_ms": time.time_ns() // 1_000_000,
        "applied_by": release_of("kafka-groupshift"),
    }
    connection.execute(statement("schema/insert_version"), about)
    return following[0]
