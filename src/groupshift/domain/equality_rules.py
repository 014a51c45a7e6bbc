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
class FieldInfo:
    """``number`` ends the number of a rule in every move; ``title`` is the field in words."""

    number: int
    place: Place
    title: str


_FIELDS = (
    (Field.GROUPS, Place.GROUPS, "set of group ids"),
    (Field.COMMITTED, Place.OFFSETS, "set of committed (group, topic, partition)"),
    (Field.OFFSET, Place.OFFSETS, "committed offset"),
    (Field.LEADER_EPOCH, Place.OFFSETS, "leader epoch of the commit"),
    (Field.METADATA, Place.OFFSETS, "metadata of the commit, byte by byte"),
    (Field.COMMIT_TIMESTAMP, Place.OFFSETS, "time of the commit"),
    (Field.EXPIRE_TIMESTAMP, Place.OFFSETS, "explicit expiry of the commit"),
    (Field.TOPIC_ID, Place.OFFSETS, "topic id in the commit"),
    (Field.RECORD, Place.OFFSETS, "SHA-256 of the live commit record"),
    (Field.KEYS, Place.OFFSETS, "each (group, topic, partition) once"),
    (Field.TYPE, Place.GROUPS, "group type"),
    (Field.STATE, Place.GROUPS, "group state"),
    (Field.PROTOCOL_TYPE, Place.GROUPS, "protocol type"),
    (Field.PROTOCOL, Place.GROUPS, "protocol or assignor"),
    (Field.GENERATION, Place.GROUPS, "generation or group epoch"),
    (Field.MEMBER_COUNT, Place.MEMBERS, "number of members"),
    (Field.CLIENT_IDS, Place.MEMBERS, "client ids, each as often as it occurs"),
    (Field.INSTANCE_IDS, Place.MEMBERS, "set of group.instance.id"),
    (Field.SUBSCRIBED, Place.MEMBERS, "topics subscribed"),
    (Field.MEMBER_IDS, Place.MEMBERS, "member ids"),
    (Field.ASSIGNMENT, Place.MEMBERS, "assignment"),
    (Field.PLACE, Place.GROUPS, "leader, coordinator node, client host and port, time of the state"),
)

FIELDS: Mapping[Field, FieldInfo] = {
    field: FieldInfo(number=number, place=place, title=title)
    for number, (field, place, title) in enumerate(_FIELDS, 1)
}
"""Every field, in the order in which rules are numbered."""

PREFIX: Mapping[Comparison, str] = {
    Comparison.PROTOCOL: "EP",
    Comparison.PROTOCOL_BACK: "EB",
    Comparison.DOWNGRADE: "ED",
    Comparison.COORDINATION: "EC",
    Comparison.EXPANSION: "EX",
    Comparison.CLUSTER: "EL",
}
"""The letters before a rule's number: E for equality, and the move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One answer of a move, before it has a number. ``live`` is the kind that holds instead of ``kind``
    while commits go on; ``old`` and ``new`` are the values of `Kind.BECOMES`."""

    kind: Kind
    reason: str
    source: str
    live: Kind | None = None
    old: str = ""
    new: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityRule:
    """A numbered answer: what this move demands of this field, why, and who says so."""

    number: str
    comparison: Comparison
    field: Field
    demand: Demand

    @property
    def kind(self) -> Kind:
        """The kind in force (`in_force` has chosen between quiesced and live)."""
        return self.demand.kind

    @property
    def text(self) -> str:
        """What is demanded, in a few words: ``equal``, ``consumer becomes classic``."""
        words = str(self.demand.kind)
        if self.demand.kind is Kind.BECOMES:
            words = f"{self.demand.old} becomes {self.demand.new}"
        return f"{words}; while commits go on: {self.demand.live}" if self.demand.live else words


def numbered(comparison: Comparison, demands: Mapping[Field, Demand]) -> tuple[EqualityRule, ...]:
    """The rules of a move in the order of their numbers. Every field must have an answer (KeyError)."""
    return tuple(
        EqualityRule(
            number=f"{PREFIX[comparison]}{info.number:02d}",
            comparison=comparison,
            field=field,
            demand=demands[field],
        )
        for field, info in FIELDS.items()
    )


def in_force(rules: Iterable[EqualityRule], *, live: bool) -> tuple[EqualityRule, ...]:
    """The rules as they hold while commits go on (``live``), or at rest: without an alternative left."""
    return tuple(
        replace(
            rule,
            demand=replace(rule.demand, kind=(live and rule.demand.live) or rule.demand.kind, live=None),
        )
        for rule in rules
    )


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
        Entry(table.where, {str(field): each for field, each in demands.items()}).only(tuple(Field))
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
