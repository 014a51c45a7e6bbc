"""The SQL of the journal, read from ``sql/journal``: one statement a file, bound parameters only.

A statement is written once for all databases; where one of them needs words of its own, the file is called
``<name>.<database>.sql`` (``sqlite``, ``postgresql``)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sqlalchemy import TextClause, text


@cache
def sql(name: str) -> str:
    """The text of ``sql/journal/<name>.sql``, without the closing semicolon."""
    root = files("groupshift").joinpath("sql", "journal")
    return root.joinpath(f"{name}.sql").read_text(encoding="utf-8").strip().removesuffix(";")


@cache
def statement(name: str) -> TextClause:
    """The statement of that name, ready to execute."""
    return text(sql(name))


@cache
def versions() -> tuple[int, ...]:
    """The versions of the schema that this release knows, in order: the folders ``versions/0001``, ..."""
    root = files("groupshift").joinpath("sql", "journal", "versions")
    return tuple(sorted(int(entry.name) for entry in root.iterdir() if entry.name.isdigit()))


@cache
def statements_of(version: int, database: str) -> tuple[str, ...]:
    """The names of what brings the version before to this one, in order, for one kind of database."""
    folder = f"versions/{version:04}"
    root = files("groupshift").joinpath("sql", "journal", *folder.split("/"))
    names = sorted(entry.name.removesuffix(".sql") for entry in root.iterdir() if entry.name.endswith(".sql"))
    return tuple(f"{folder}/{name}" for name in names if name.partition(".")[2] in {"", database})
