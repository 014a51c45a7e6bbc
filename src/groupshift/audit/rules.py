"""The numbered rules of an audit: how the three sources can differ, why, and the remedy; first match decides.

``rules.toml`` beside this module is the table. `groupshift.audit.offsets.judge` reads it, and the Spark job
makes Catalyst expressions of it. A rule names facts about one (group, topic, partition), each true or false:
`FACTS` reads them off a `Case`; ``sql/audit/facts.sql`` computes a column of the same name for each.

Source: docs/reference/group-coordinator.md §§1.6, 1.7, 3.1 to 3.3, 4;
docs/reference/zookeeper-coordination.md §§6.2, 8.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from groupshift.audit.case import Case
from groupshift.domain.commit_places import Stray
from groupshift.domain.tables import Entry, parsed, shipped, unique


class Fact(StrEnum):
    """One question about the three sources; the value is the name of a column."""

    ASKED = "asked"
    """Its coordinator gave a full answer about the group."""
    ANSWERED = "has_answer"
    """The coordinator answers an offset."""
    LOGGED = "has_logged"
    """The last record in the group's own partition of the log says an offset."""
    TOMBSTONED = "is_tombstone"
    UNREADABLE = "unreadable"
    AGREES = "agrees"
    """The coordinator answers what is in its log."""
    FOLLOWS = "follows"
    """The coordinator answered what was in its log at some moment of the bracket."""
    SAME_DETAILS = "same_details"
    SERVED_BEFORE = "served_before"
    OVERDUE = "overdue"
    SILENT = "silent"
    """Nothing is answered of what this partition of the log holds."""
    FOREIGN = "has_foreign"
    FOREIGN_MOVING = "foreign_moving"
    ANSWERS_FOREIGN = "answers_foreign"
    BEYOND_END = "beyond_end"
    BELOW_START = "below_start"
    FORMER_TOPIC = "former_topic"
    """The commit belongs to a former topic of the same name."""
    NO_PARTITION = "no_partition"
    EPOCH_ABOVE = "epoch_above"
    EPOCH_LOW = "epoch_low"
    NODE = "has_node"
    """ZooKeeper has an offset node."""
    NODES_UNREAD = "nodes_unread"
    """Some node of the group could not be read."""
    ONLY_NODE = "only_node"
    """Only ZooKeeper has an offset: Kafka's coordinator and its log both say that there is none."""
    EXPIRED = "expired"
    REMOVED = "removed"
    KAFKA_MODE = "kafka_mode"
    STORES_AGREE = "stores_agree"
    NODE_BEHIND = "node_behind"
    NODE_WITHIN = "node_within_interval"
    KAFKA_WITHIN = "kafka_within_interval"
    KAFKA_DATED = "kafka_dated"
    """The time of Kafka's own last commit is known."""
    UNWRITTEN = "unwritten"
    """The store that is behind is one that no member of the group commits to."""


def _answers_foreign(case: Case) -> bool:
    return case.answered is not None and case.answered in {one.commit.offset for one in case.foreign}


def _beyond_end(case: Case) -> bool:
    return case.end is not None and case.answered is not None and case.answered > case.end.log_end


def _below_start(case: Case) -> bool:
    return case.end is not None and case.answered is not None and case.answered < case.end.log_start


def _only_node(case: Case) -> bool:
    return case.answered is None and case.agrees and case.znode is not None


def _unwritten(case: Case) -> bool:
    group = case.zookeeper
    if group is None:
        return False
    return group.members == 0 if case.node_behind else not case.kafka_mode and group.aware == 0


_DERIVED: Mapping[Fact, Callable[[Case], bool]] = {
    Fact.ANSWERED: lambda case: case.answered is not None,
    Fact.LOGGED: lambda case: case.logged is not None,
    Fact.FOREIGN: lambda case: bool(case.foreign),
    Fact.ANSWERS_FOREIGN: _answers_foreign,
    Fact.BEYOND_END: _beyond_end,
    Fact.BELOW_START: _below_start,
    Fact.FORMER_TOPIC: lambda case: Stray.FORMER_TOPIC in case.strays,
    Fact.NO_PARTITION: lambda case: Stray.NO_PARTITION in case.strays,
    Fact.EPOCH_ABOVE: lambda case: Stray.EPOCH_ABOVE in case.strays,
    Fact.EPOCH_LOW: lambda case: Stray.EPOCH_LOW in case.strays,
    Fact.NODE: lambda case: case.znode is not None,
    Fact.NODES_UNREAD: lambda case: case.zookeeper is not None and bool(case.zookeeper.problems),
    Fact.ONLY_NODE: _only_node,
    Fact.EXPIRED: lambda case: case.removed_by_retention is True,
    Fact.REMOVED: lambda case: case.removed_by_retention is False,
    Fact.KAFKA_DATED: lambda case: case.kafka_committed_ms is not None,
    Fact.UNWRITTEN: _unwritten,
}
"""The facts that a case does not have by their own name."""


def is_true(fact: Fact, case: Case) -> bool:
    """Whether the sources of one case say so."""
    told = _DERIVED.get(fact)
    return told(case) if told else bool(getattr(case, fact))


class Weight(StrEnum):
    """What a difference means for the audit."""

    EXPLAINED = "explained"
    """It passes by itself, or is what this mode of coordination makes."""
    UNKNOWN = "unknown"
    """A source is missing: nothing is proven either way."""
    MISMATCH = "mismatch"
    """Somebody has to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRule:
    """One line: it speaks where all facts of ``when`` and none of ``unless`` hold; what the difference then
    is, why, and what to do about it."""

    number: str
    kind: str
    weight: Weight
    when: tuple[Fact, ...] = ()
    unless: tuple[Fact, ...] = ()
    reason: str
    remedy: str = ""

    def applies(self, case: Case) -> bool:
        """Whether it speaks about this case."""
        return all(is_true(each, case) for each in self.when) and not any(
            is_true(each, case) for each in self.unless
        )


FILE = "audit/rules.toml"
"""The table of rules, below the package ``groupshift``."""
_NUMBER = re.compile(r"A\d\d", re.ASCII)


def read_rules(text: str, file: str = FILE) -> tuple[tuple[AuditRule, ...], tuple[AuditRule, ...]]:
    """The rules of a table in TOML: of coordinator and log, then of both stores; each in its order.

    Raises:
        Rejected: the text is no TOML, or a rule is not whole; says file, rule, field, value and what is
            allowed.
    """
    whole = parsed(text, file)
    whole.only(("kafka", "store"))
    kafka, store = (tuple(map(_rule, whole.tables(name, "number"))) for name in ("kafka", "store"))
    unique((rule.number for rule in (*kafka, *store)), f"{file}, number")
    return kafka, store


def _rule(entry: Entry) -> AuditRule:
    entry.only(("number", "kind", "weight", "reason"), ("when", "unless", "remedy"))
    if not _NUMBER.fullmatch(entry.text("number")):
        raise entry.fault("number", "A and two digits")
    rule = AuditRule(
        number=entry.text("number"),
        kind=entry.text("kind"),
        weight=entry.word("weight", Weight),
        when=entry.words("when", Fact),
        unless=entry.words("unless", Fact),
        reason=entry.text("reason"),
        remedy=entry.text("remedy", ""),
    )
    if not (rule.when or rule.unless) or set(rule.when) & set(rule.unless):
        raise entry.fault("unless", "facts that when does not name, or in their place some facts in when")
    if not rule.remedy and rule.weight is not Weight.EXPLAINED:
        raise entry.fault("remedy", f"a text, since the weight is {rule.weight}")
    return rule


KAFKA_RULES, STORE_RULES = read_rules(shipped(FILE))
"""The coordinator's answer against its own log and the topic's; ZooKeeper against Kafka, once coordinator
and log agree."""

BY_NUMBER = {rule.number: rule for rule in (*KAFKA_RULES, *STORE_RULES)}
"""Every rule by its number."""
