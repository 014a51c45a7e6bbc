"""The SQL of the journal, read from ``sql/journal``: one statement a file, bound parameters only."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sqlalchemy import TextClause, text

SCHEMA = (
    "table_migration",
    "index_one_open_migration",
    "table_migration_step",
    "table_migration_event",
    "table_claim",
    "table_scan",
    "table_scan_state",
    "table_scan_change",
    "table_scan_toggle",
)
"""What a new journal needs, in order."""


@cache
def sql(name: str) -> str:
    """The text of ``sql/journal/<name>.sql``, without the closing semicolon."""
    return files("groupshift").joinpath("sql", "journal", f"{name}.sql").read_text().strip().removesuffix(";")


@cache
def statement(name: str) -> TextClause:
    """The statement of that name, ready to execute."""
    return text(sql(name))
