"""When two snapshots of a cluster's groups are equal: the numbered rules in which a move says it.

A move answers one question per `Field`: what may become of it between two snapshots? Every answer is an
`EqualityRule` with a number, its reason and its source; ``equality.toml`` beside this module holds the
answers, and ``docs/reference/equality-rules.md`` shows them. The Spark side turns each kind of rule into one
statement below ``sql/checks/compare`` or into a class of differences.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from groupshift.domain.tables import Entry, parsed, shipped


class Comparison(StrEnum):
    """What lies between the two snapshots."""

    PROTOCOL = "protocol"
    """Members went from the classic protocol to the consumer protocol (KIP-848)."""
    PROTOCOL_BACK = "protocol-back"
    """Members went from the consumer protocol to the classic one: §6.2, A to B."""
    DOWNGRADE = "downgrade"
    """Brokers were replaced by older ones (KIP-915): §6.2, B to C. Nothing else may have changed."""
    COORDINATION = "coordination"
    """Groups went from ZooKeeper to Kafka coordination, or back (KIP-125)."""
    EXPANSION = "expansion"
    """``__consumer_offsets`` got more partitions and groups were committed anew (KIP-895)."""
    CLUSTER = "cluster"
    """Groups were copied to another cluster, offsets translated (KIP-545)."""


class Kind(StrEnum):
    """What a rule demands of a field."""

    EQUAL = "equal"
    """The same in both snapshots."""
    SETTLED = "settled"
    """The same, where a state that passes by itself (a rebalance going on) counts as ``Stable``."""
    BECOMES = "becomes"
    """Was ``old``, is ``new``; or was ``new`` already."""
    AT_LEAST = "at least"
    """Not lower than before."""
    FORWARD = "forward"
    """Not lower than before, and not beyond the log end."""
    WITHIN = "within the log"
    """Log start <= offset <= log end; the number of before says nothing about it."""
    COVERS = "covers"
    """Every partition of the group's topics is assigned, and none of them twice."""
    UNIQUE = "unique"
    """Each key once in each snapshot."""
    KEPT = "kept"
    """What has committed offsets is in both snapshots, and nothing is new."""
    IGNORE = "ignored"
    """Not compared."""


class Place(StrEnum):
    """The table in which a field is found."""

    OFFSETS = "offsets"
    GROUPS = "groups"
    MEMBERS = "members"


class Field(StrEnum):
    """What is compared; the value is the column, or what is derived from columns."""

    GROUPS = "groups"
    COMMITTED = "committed"
    OFFSET = "offset"
    LEADER_EPOCH = "leader_epoch"
    METADATA = "metadata"
    COMMIT_TIMESTAMP = "commit_timestamp_ms"
    EXPIRE_TIMESTAMP = "expire_timestamp_ms"
    TOPIC_ID = "topic_id"
    RECORD = "record_sha256"
    KEYS = "keys"
    TYPE = "type"
    STATE = "state"
    PROTOCOL_TYPE = "protocol_type"
    PROTOCOL = "protocol"
    GENERATION = "generation"
    MEMBER_COUNT = "member_count"
    CLIENT_IDS = "client_ids"
    INSTANCE_IDS = "instance_ids"
    SUBSCRIBED = "subscribed"
    MEMBER_IDS = "member_ids"
    ASSIGNMENT = "assignment"
    PLACE = "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityRule:
    """A numbered answer: what this move demands of this field (in words: ``title``), why, and who says so.

    ``tables`` are the small ones that both snapshots must have. ``live`` is the kind that holds instead of
    ``kind`` while commits go on (`in_force` chooses), ``old`` and ``new`` are values of `Kind.BECOMES`."""

    number: str
    comparison: Comparison
    field: Field
    place: Place
    title: str
    kind: Kind
    reason: str
    source: str
    tables: tuple[str, ...] = ()
    live: Kind | None = None
    old: str = ""
    new: str = ""

    @property
    def text(self) -> str:
        """What is demanded, in a few words: ``equal``, ``consumer becomes classic``."""
        words = f"{self.old} becomes {self.new}" if self.kind is Kind.BECOMES else str(self.kind)
        return f"{words}; while commits go on: {self.live}" if self.live else words


def in_force(rules: Iterable[EqualityRule], *, live: bool) -> tuple[EqualityRule, ...]:
    """The rules as they hold while commits go on (``live``), or at rest: without an alternative left."""
    return tuple(replace(rule, kind=(live and rule.live) or rule.kind, live=None) for rule in rules)


FILE = "domain/equality.toml"
"""The table of answers, below the package ``groupshift``."""
_TABLE = re.compile(r"[a-z_-]+", re.ASCII)
SHARED = "members"
"""The table that is no move: both changes of protocol take it over."""


def read_demands(text: str, file: str = FILE) -> dict[Comparison, tuple[EqualityRule, ...]]:
    """The rules of every move, each in the order of its numbers, of a table in TOML.

    Raises:
        Rejected: the text is no TOML, or a table is not whole; says file, table, field, value and what is
            allowed.
    """
    whole = parsed(text, file)
    whole.only((*Comparison, SHARED, "fields"))
    fields = whole.table("fields")
    fields.only(tuple(Field))
    answers = {name: _answers(whole.table(name)) for name in (*Comparison, SHARED)}
    by_move = {}
    for move in Comparison:
        table = whole.table(move)
        taken = table.names("like", _TABLE) if "like" in table.values else ()
        if not set(taken) <= set(answers) - {move}:
            raise table.fault("like", f"tables of the file other than {move}")
        demands = {field: demand for name in (*taken, move) for field, demand in answers[name].items()}
        Entry(table.where, {str(field): each for field, each in demands.items()}).only(tuple(Field))
        by_move[move] = tuple(
            EqualityRule(
                number=f"{table.text('prefix')}{number:02d}",
                comparison=move,
                field=Field(name),
                place=fields.table(name).word("place", Place),
                title=fields.table(name).text("title"),
                tables=_tables(fields.table(name)),
                **demands[Field(name)],
            )
            for number, name in enumerate(fields.values, 1)
        )
    return by_move


def _tables(field: Entry) -> tuple[str, ...]:
    field.only(("place", "title"), ("tables",))
    return field.names("tables", _TABLE) if "tables" in field.values else ()


def _answers(table: Entry) -> dict[Field, dict[str, Any]]:
    """The answers that a table has of its own."""
    table.only(("source",), ("like", "prefix", *Field))
    return {field: _answer(table.table(field), table) for field in Field if field in table.values}


def _answer(entry: Entry, table: Entry) -> dict[str, Any]:
    """What is demanded of one field: fields of `EqualityRule`."""
    kind = entry.word("kind", Kind) if "kind" in entry.values else None
    values = ("old", "new") if kind is Kind.BECOMES else ()
    entry.only(("kind", "reason", *values), ("live", "source"))
    sourced = entry if "source" in entry.values else table
    if ".md §" not in sourced.text("source"):
        raise sourced.fault("source", "a page and its section, such as group-coordinator.md §6.2")
    return {
        "kind": kind,
        "reason": entry.text("reason"),
        "source": sourced.text("source"),
        "live": entry.word("live", Kind) if "live" in entry.values else None,
        **{name: entry.text(name) for name in values},
    }


RULES: Mapping[Comparison, tuple[EqualityRule, ...]] = read_demands(shipped(FILE))
"""The rules of every move, each in the order of its numbers."""


def mirrored_names(
    source: Collection[str], committed: Collection[str], topics: Collection[str]
) -> Mapping[str, tuple[str, ...]]:
    """The topics of ``source`` that look mirrored under another name, with those names: an alias and a
    separator before the name (MirrorMaker's default is ``alias.topic``), or behind it.

    ``committed`` are the other cluster's topics with offsets, ``topics`` all that it has. A topic that is
    there under its own name too counts where both have offsets: which is the copy cannot be told."""
    mirrors = {}
    for topic in sorted(set(source)):
        candidates = committed if topic in committed else topics
        names = tuple(sorted(each for each in set(candidates) - set(source) if _is_mirror(each, topic)))
        if names:
            mirrors[topic] = names
    return mirrors


def _is_mirror(name: str, topic: str) -> bool:
    """Whether this is the topic's name with something before or behind it, and a separator in between."""
    before, behind = name.removesuffix(topic), name.removeprefix(topic)
    return (name != before and len(before) > 1 and not before[-1].isalnum()) or (
        name != behind and len(behind) > 1 and not behind[0].isalnum()
    )
