"""What an audit's rules ask of one (group, topic, partition): facts by name, each true or false.

`FACTS` reads them off a `Case`; ``sql/audit/facts.sql`` computes a column of the same name for each. So the
one table of rules (`groupshift.domain.audit_rules`) serves both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from groupshift.domain.audit_case import Case
from groupshift.domain.commit_places import Stray


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
    return group.members == 0 if case.znode_behind else not case.kafka_mode and group.aware == 0


FACTS: Mapping[Fact, Callable[[Case], bool]] = {
    Fact.ASKED: lambda case: case.asked,
    Fact.ANSWERED: lambda case: case.answered is not None,
    Fact.LOGGED: lambda case: case.logged is not None,
    Fact.TOMBSTONED: lambda case: case.is_tombstone,
    Fact.UNREADABLE: lambda case: case.unreadable,
    Fact.AGREES: lambda case: case.agrees,
    Fact.FOLLOWS: lambda case: case.follows,
    Fact.SAME_DETAILS: lambda case: case.same_details,
    Fact.SERVED_BEFORE: lambda case: case.served_before,
    Fact.OVERDUE: lambda case: case.overdue,
    Fact.SILENT: lambda case: case.silent,
    Fact.FOREIGN: lambda case: bool(case.foreign),
    Fact.FOREIGN_MOVING: lambda case: case.foreign_moving,
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
    Fact.KAFKA_MODE: lambda case: case.kafka_mode,
    Fact.STORES_AGREE: lambda case: case.stores_agree,
    Fact.NODE_BEHIND: lambda case: case.znode_behind,
    Fact.NODE_WITHIN: lambda case: case.znode_within_interval,
    Fact.KAFKA_WITHIN: lambda case: case.kafka_within_interval,
    Fact.KAFKA_DATED: lambda case: case.kafka_committed_ms is not None,
    Fact.UNWRITTEN: _unwritten,
}
"""Every fact, as the sources of one case tell it."""
