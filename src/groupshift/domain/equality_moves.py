"""What each move demands of two snapshots: the numbered equality rules, as data.

``docs/evidence.md`` shows this table; a test keeps both in step. Protocol and downgrade are
group-coordinator.md §6.2 (its columns A to B and B to C); the other moves were written here from the
sections named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from groupshift.domain.equality_rules import (
    Comparison,
    Demand,
    EqualityRule,
    Field,
    Kind,
    numbered,
)
from groupshift.domain.tables import Entry, parsed, shipped

FILE = "domain/equality.toml"
"""The table of answers, below the package ``groupshift``."""
_TABLE = re.compile(r"[a-z-]+", re.ASCII)
SHARED = "members"
"""The table that is no move: both changes of protocol take it over."""


def read_demands(text: str, file: str = FILE) -> dict[Comparison, tuple[EqualityRule, ...]]:
    """The rules of every move, each in the order of its numbers, of a table in TOML.

    Raises:
        Rejected: the text is no TOML, or a table is not whole; says file, table, field, value and what is
            allowed.
    """
    whole = parsed(text, file)
    whole.only((*Comparison, SHARED))
    answers = {name: _demands(whole.table(name)) for name in whole.values}
    found = {}
    for move in Comparison:
        table = whole.table(move)
        taken = table.names("like", _TABLE) if "like" in table.values else ()
        if not set(taken) <= set(answers) - {move}:
            raise table.fault("like", f"tables of the file other than {move}")
        demands = {field: demand for name in (*taken, move) for field, demand in answers[name].items()}
        Entry(table.where, demands).only(tuple(Field))
        found[move] = numbered(move, demands)
    return found


def _demands(table: Entry) -> dict[Field, Demand]:
    """The answers that a table has of its own."""
    table.only(("source",), ("like", *Field))
    return {field: _demand(table.table(field), table) for field in Field if field in table.values}


def _demand(entry: Entry, table: Entry) -> Demand:
    kind = entry.word("kind", Kind) if "kind" in entry.values else None
    values = ("old", "new") if kind is Kind.BECOMES else ()
    entry.only(("kind", "reason", *values), ("live", "source"))
    sourced = entry if "source" in entry.values else table
    if ".md §" not in sourced.text("source"):
        raise sourced.fault("source", "a page and its section, such as group-coordinator.md §6.2")
    return Demand(
        kind=entry.word("kind", Kind),
        reason=entry.text("reason"),
        source=sourced.text("source"),
        live=entry.word("live", Kind) if "live" in entry.values else None,
        old=entry.text("old", ""),
        new=entry.text("new", ""),
    )


RULES: Mapping[Comparison, tuple[EqualityRule, ...]] = read_demands(shipped(FILE))
"""The rules of every move, each in the order of its numbers."""


def mirrored_names(
    source: Collection[str], committed: Collection[str], topics: Collection[str]
) -> Mapping[str, tuple[str, ...]]:
    """The topics of ``source`` that look mirrored under another name, with those names: an alias and a
    separator before the name (MirrorMaker's default is ``alias.topic``), or behind it.

    ``committed`` are the other cluster's topics with offsets, ``topics`` all that it has. A topic that is
    there under its own name too counts where both have offsets: which is the copy cannot be told."""
    found = {}
    for topic in sorted(set(source)):
        asked = committed if topic in committed else topics
        names = tuple(sorted(each for each in set(asked) - set(source) if _is_mirror(each, topic)))
        if names:
            found[topic] = names
    return found


def _is_mirror(name: str, topic: str) -> bool:
    """Whether this is the topic's name with something before or behind it, and a separator in between."""
    before, behind = name.removesuffix(topic), name.removeprefix(topic)
    return (name != before and len(before) > 1 and not before[-1].isalnum()) or (
        name != behind and len(behind) > 1 and not behind[0].isalnum()
    )
