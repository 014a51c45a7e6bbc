"""When two snapshots of a cluster's groups are equal: the numbered rules in which a move says it.

A move answers one question per `Field`: what may become of it between two snapshots? Every answer is an
`EqualityRule` with a number, its reason and its source; ``equality_rules.toml`` beside this module holds the
answers, and ``docs/reference/equality-rules.md`` shows them. The Spark side turns each kind of rule into one
statement below ``sql/checks/compare`` or into a class of differences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from groupshift.domain.tables import table_of
from groupshift.errors import Rejected


class Comparison(StrEnum):
    """What lies between the two snapshots."""

    PROTOCOL = "protocol"
    """Members went from the classic protocol to the consumer protocol (KIP-848)."""
    PROTOCOL_BACK = "protocol-back"
    """Members went from the consumer protocol to the classic one: group-coordinator.md §6.2, A to B."""
    DOWNGRADE = "downgrade"
    """Brokers were replaced by older ones (KIP-915): §6.2, B to C. Nothing else may have changed."""
    COORDINATION = "coordination"
    """Groups went from ZooKeeper to Kafka coordination, or back (KIP-125)."""
    EXPANSION = "expansion"
    """``__consumer_offsets`` got more partitions and groups were committed anew (KIP-895)."""
    CLUSTER = "cluster"
    """Groups were copied to another cluster, offsets translated (KIP-545)."""


class RuleKind(StrEnum):
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


class FieldTable(StrEnum):
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


@dataclass(frozen=True, kw_only=True)
class FieldDemand:
    """What a table of the file demands of a field, why, and who says so (empty: who says it of the table).

    ``live`` is the kind that holds instead of ``kind`` while commits go on (`in_force` chooses), ``old`` and
    ``new`` are values of `RuleKind.BECOMES`."""

    kind: RuleKind
    reason: str
    source: str = ""
    live: RuleKind | None = None
    old: str = ""
    new: str = ""

    @property
    def text(self) -> str:
        """What is demanded, in a few words: ``equal``, ``consumer becomes classic``."""
        words = f"{self.old} becomes {self.new}" if self.kind is RuleKind.BECOMES else str(self.kind)
        return f"{words}; while commits go on: {self.live}" if self.live else words


@dataclass(frozen=True, kw_only=True)
class FieldPlace:
    """Where a field is found, what it is in words, and the small tables that both snapshots must have."""

    place: FieldTable
    title: str
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EqualityRule(FieldDemand, FieldPlace):
    """A numbered answer: what this move demands of this field, why, and who says so."""

    number: str
    comparison: Comparison
    field: Field


def in_force(rules: Iterable[EqualityRule], *, live: bool) -> tuple[EqualityRule, ...]:
    """The rules as they hold while commits go on (``live``), or at rest: without an alternative left."""
    return tuple(replace(rule, kind=(live and rule.live) or rule.kind, live=None) for rule in rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    source: str
    answers: Mapping[Field, FieldDemand]
    prefix: str = ""
    like: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Book:
    fields: Mapping[Field, FieldPlace]
    tables: Mapping[str, _Table]


FILE = "domain/equality_rules.toml"
"""The table of answers, below the package ``groupshift``."""


def read_demands(text: str = "", file: str = FILE) -> dict[Comparison, tuple[EqualityRule, ...]]:
    """The rules of every move, each in the order of its numbers, of a table in TOML (empty: the file's).

    Raises:
        Rejected: the text is no TOML, or a table is not whole; says file, table, field and value.
    """
    book = table_of(_Book, file, text)
    by_move = {}
    for move in Comparison:
        try:
            own = book.tables[move]
            answers = {
                field: replace(answer, source=answer.source or table.source)
                for table in (*(book.tables[name] for name in own.like), own)
                for field, answer in table.answers.items()
            }
            by_move[move] = tuple(
                EqualityRule(
                    number=f"{own.prefix}{number:02d}",
                    comparison=move,
                    field=field,
                    **vars(place),
                    **vars(answers[field]),
                )
                for number, (field, place) in enumerate(book.fields.items(), 1)
            )
        except KeyError as missing:
            raise Rejected(f"{file}, {move}: {missing.args[0]} is missing") from missing
    return by_move


RULES: Mapping[Comparison, tuple[EqualityRule, ...]] = read_demands()
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
