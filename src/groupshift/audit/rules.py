"""The numbered rules of an audit: how the three sources can differ, why, and the remedy; first match decides.

`groupshift.audit.offsets.judge` reads this one table, and the Spark job makes Catalyst expressions of it. A
rule names facts about one (group, topic, partition), each true or false: `FACTS` reads them off a `Case`;
``sql/audit/facts.sql`` computes a column of the same name for each.

Source: specs/group-coordinator.md §§1.6, 1.7, 3.1 to 3.3, 4; specs/zookeeper-coordination.md §§6.2, 8.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from groupshift.audit.case import Case
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


class Kind(StrEnum):
    """What a difference is."""

    NOT_ANSWERED = "not answered"
    NOT_READ = "not read"
    UNREADABLE = "unreadable record"
    SPLIT_BRAIN = "split brain"
    FOREIGN = "foreign record"
    IN_FLIGHT = "commit in flight"
    DETAILS = "metadata differs"
    SERVED_AFTER_TOMBSTONE = "served after its tombstone"
    STALE_ANSWER = "stale answer"
    ONLY_ANSWERED = "only answered"
    LAPSED = "lapsed"
    SERVED_EMPTY = "partition served empty"
    ONLY_IN_LOG = "only in the log"
    UNEXPLAINED = "unexplained"
    BEYOND_END = "beyond the log end"
    BELOW_START = "below the log start"
    FORMER_TOPIC = "former topic"
    NO_PARTITION = "no such partition"
    EPOCH_ABOVE = "leader epoch too high"
    EPOCH_LOW = "leader epoch too low"
    EXPIRED = "expired"
    REMOVED = "removed"
    TOMBSTONED = "tombstoned"
    NEVER_COMMITTED = "never committed"
    ZOOKEEPER_LATER = "zookeeper within its interval"
    KAFKA_LATER = "kafka within its interval"
    KAFKA_UNDATED = "kafka behind, time unknown"
    LEFT_BEHIND = "store left behind"
    NOT_IN_ZOOKEEPER = "not in zookeeper"
    STORES_DIVERGE = "stores diverge"


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
    kind: Kind
    weight: Weight
    when: tuple[Fact, ...] = ()
    unless: tuple[Fact, ...] = ()
    reason: str
    remedy: str = ""

    def applies(self, case: Case) -> bool:
        """Whether it speaks about this case."""
        return all(FACTS[each](case) for each in self.when) and not any(
            FACTS[each](case) for each in self.unless
        )


_EXPLAINED, _UNKNOWN, _MISMATCH = Weight

_FOREIGN = "until it is gone a change of leadership may bring it back"
_DELETE = "stop the group, delete it with its offsets, commit them anew (docs/audit.md, foreign records)"
_COMMIT_IN_KAFKA = "let a member commit (or alter the group's offsets) before a plain consumer reads them"

KAFKA_RULES = (
    AuditRule(
        number="A01", kind=Kind.NOT_ANSWERED, weight=_UNKNOWN,
        unless=(Fact.ASKED, Fact.ANSWERED),
        reason="no coordinator gave a full answer about this group: a missing offset proves nothing",
        remedy="look at the problems of the audit, then repeat it for this group",
    ),
    AuditRule(
        number="A02", kind=Kind.UNREADABLE, weight=_UNKNOWN,
        when=(Fact.UNREADABLE,), unless=(Fact.AGREES,),
        reason="the record that decides cannot be read for certain, so the answer cannot be held against it",
        remedy="a newer groupshift may know its version; never commit it again from the log",
    ),
    AuditRule(
        number="A03", kind=Kind.SPLIT_BRAIN, weight=_MISMATCH,
        when=(Fact.FOREIGN_MOVING,),
        reason="commits go to another partition of the log too, later than to the group's own: two brokers "
        "take themselves for its coordinator",
        remedy="stop the group's members, restart the brokers that answer with the old partition count",
    ),
    AuditRule(
        number="A04", kind=Kind.FOREIGN, weight=_MISMATCH,
        when=(Fact.ANSWERS_FOREIGN,), unless=(Fact.AGREES,),
        reason="the coordinator answers a record that lies outside the group's partition of the log",
        remedy=_DELETE,
    ),
    AuditRule(
        number="A05", kind=Kind.FOREIGN, weight=_MISMATCH,
        when=(Fact.FOREIGN,),
        reason=f"a commit lies outside the group's partition of the log; {_FOREIGN}",
        remedy=_DELETE,
    ),
    AuditRule(
        number="A06", kind=Kind.DETAILS, weight=_MISMATCH,
        when=(Fact.FOLLOWS,), unless=(Fact.SAME_DETAILS,),
        reason="the offset is the log's, but metadata or leader epoch of the answer are not",
        remedy="compare the bytes of the record; a client may cut or extend them (a trailing NUL)",
    ),
    AuditRule(
        number="A36", kind=Kind.FORMER_TOPIC, weight=_MISMATCH,
        when=(Fact.FOLLOWS, Fact.FORMER_TOPIC),
        reason="the commit belongs to a former topic of the same name: a client that asks by topic id is "
        "told no offset, one that asks by name reads on at this number",
        remedy="set the offset to where the group should go on in the topic of today, or delete it",
    ),
    AuditRule(
        number="A37", kind=Kind.NO_PARTITION, weight=_MISMATCH,
        when=(Fact.FOLLOWS, Fact.NO_PARTITION),
        reason="the offset is committed for a partition that the topic does not have, or for a topic that "
        "does not exist: once deleted it cannot be committed again",
        remedy="delete the offset (kafka-consumer-groups.sh --delete-offsets), or make the topic again",
    ),
    AuditRule(
        number="A07", kind=Kind.BEYOND_END, weight=_MISMATCH,
        when=(Fact.FOLLOWS, Fact.BEYOND_END),
        reason="the committed offset is beyond the end of the topic's log (made anew, or truncated)",
        remedy="the next reader resets by its policy: set the offset to where it should go on",
    ),
    AuditRule(
        number="A34", kind=Kind.EPOCH_ABOVE, weight=_MISMATCH,
        when=(Fact.FOLLOWS, Fact.EPOCH_ABOVE),
        reason="the commit's leader epoch is above the partition's: a Java consumer joins and reads nothing, "
        "without an error, until the partition reaches that epoch",
        remedy="stop the group's members, then: groupshift repair epochs --execute",
    ),
    AuditRule(
        number="A35", kind=Kind.EPOCH_LOW, weight=_MISMATCH,
        when=(Fact.FOLLOWS, Fact.EPOCH_LOW),
        reason="the commit's leader epoch ended before its offset: a Java consumer goes back to that end, or "
        "throws LogTruncationException",
        remedy="if the log was truncated (unclean election) reset the offset to that end; else stop the "
        "group's members, then: groupshift repair epochs --execute",
    ),
    AuditRule(
        number="A08", kind=Kind.IN_FLIGHT, weight=_EXPLAINED,
        when=(Fact.FOLLOWS,), unless=(Fact.AGREES,),
        reason="the answer is a commit of the time in which the sources were read, and not the last one",
    ),
    AuditRule(
        number="A09", kind=Kind.SERVED_AFTER_TOMBSTONE, weight=_MISMATCH,
        when=(Fact.ANSWERED, Fact.TOMBSTONED),
        reason="the coordinator answers an offset that its log says is deleted; its next load forgets it",
        remedy=_COMMIT_IN_KAFKA,
    ),
    AuditRule(
        number="A10", kind=Kind.STALE_ANSWER, weight=_MISMATCH,
        when=(Fact.LOGGED, Fact.SERVED_BEFORE), unless=(Fact.AGREES,),
        reason="the coordinator answers an older commit than the last in its log; its next load changes it",
        remedy="find out who wrote to the log past the coordinator; let a member commit",
    ),
    AuditRule(
        number="A11", kind=Kind.ONLY_ANSWERED, weight=_MISMATCH,
        when=(Fact.ANSWERED,), unless=(Fact.LOGGED,),
        reason="the coordinator answers an offset of which its log holds no record; its next load loses it",
        remedy=f"look for a truncated log; {_COMMIT_IN_KAFKA}",
    ),
    AuditRule(
        number="A12", kind=Kind.LAPSED, weight=_EXPLAINED,
        when=(Fact.LOGGED, Fact.OVERDUE), unless=(Fact.ANSWERED,),
        reason="its retention is over: the coordinator has forgotten it, the tombstone is still to come",
    ),
    AuditRule(
        number="A13", kind=Kind.SERVED_EMPTY, weight=_MISMATCH,
        when=(Fact.LOGGED, Fact.SILENT), unless=(Fact.ANSWERED,),
        reason="the coordinator answers nothing of what this partition of its log holds, without an error",
        remedy="search the broker's log for 'Error loading offsets'; stop consumers before they reset",
    ),
    AuditRule(
        number="A14", kind=Kind.ONLY_IN_LOG, weight=_MISMATCH,
        when=(Fact.LOGGED,), unless=(Fact.ANSWERED,),
        reason="the log holds a commit that the coordinator does not answer",
        remedy=_COMMIT_IN_KAFKA,
    ),
    AuditRule(
        number="A15", kind=Kind.UNEXPLAINED, weight=_MISMATCH,
        unless=(Fact.AGREES,),
        reason="the coordinator answers an offset that nothing left in its log says",
        remedy="audit the group again; look at who coordinates it, and for foreign records",
    ),
    AuditRule(
        number="A16", kind=Kind.BELOW_START, weight=_EXPLAINED,
        when=(Fact.BELOW_START,),
        reason="the records at the committed offset are deleted by the topic's retention; "
        "a reader resets by its policy",
    ),
)  # fmt: skip
"""The coordinator's answer against its own log and the topic's."""

STORE_RULES = (
    AuditRule(
        number="A20", kind=Kind.NOT_READ, weight=_UNKNOWN,
        when=(Fact.NODES_UNREAD,), unless=(Fact.NODE, Fact.STORES_AGREE),
        reason="nodes of the group could not be read, so that this one is missing proves nothing",
        remedy="correct what the problems of the audit name, then repeat it for this group",
    ),
    AuditRule(
        number="A21", kind=Kind.EXPIRED, weight=_MISMATCH,
        when=(Fact.ONLY_NODE, Fact.EXPIRED, Fact.KAFKA_MODE),
        reason="the offset expired in Kafka, whose word counts; only ZooKeeper still has one",
        remedy=_COMMIT_IN_KAFKA,
    ),
    AuditRule(
        number="A22", kind=Kind.EXPIRED, weight=_EXPLAINED,
        when=(Fact.ONLY_NODE, Fact.EXPIRED),
        reason="Kafka's copy expired; ZooKeeper's word counts in this mode",
    ),
    AuditRule(
        number="A23", kind=Kind.REMOVED, weight=_MISMATCH,
        when=(Fact.ONLY_NODE, Fact.REMOVED, Fact.KAFKA_MODE),
        reason="Kafka's offset was deleted before its retention was over (group, offset or topic deleted); "
        "only ZooKeeper still has one",
        remedy=_COMMIT_IN_KAFKA,
    ),
    AuditRule(
        number="A24", kind=Kind.REMOVED, weight=_EXPLAINED,
        when=(Fact.ONLY_NODE, Fact.REMOVED),
        reason="Kafka's copy was deleted before its retention was over; ZooKeeper's word counts in this mode",
    ),
    AuditRule(
        number="A25", kind=Kind.TOMBSTONED, weight=_MISMATCH,
        when=(Fact.ONLY_NODE, Fact.TOMBSTONED, Fact.KAFKA_MODE),
        reason="Kafka's offset has a tombstone, and the log no longer tells whether it expired or was "
        "deleted; only ZooKeeper still has one",
        remedy=_COMMIT_IN_KAFKA,
    ),
    AuditRule(
        number="A26", kind=Kind.TOMBSTONED, weight=_EXPLAINED,
        when=(Fact.ONLY_NODE, Fact.TOMBSTONED),
        reason="Kafka's copy has a tombstone; ZooKeeper's word counts in this mode",
    ),
    AuditRule(
        number="A27", kind=Kind.NEVER_COMMITTED, weight=_MISMATCH,
        when=(Fact.ONLY_NODE, Fact.KAFKA_MODE),
        reason="Kafka's word counts, but neither coordinator nor log has an offset; only ZooKeeper has one",
        remedy=_COMMIT_IN_KAFKA,
    ),
    AuditRule(
        number="A28", kind=Kind.NEVER_COMMITTED, weight=_EXPLAINED,
        when=(Fact.ONLY_NODE,),
        reason="the group commits to ZooKeeper, whose word counts in this mode; Kafka never had an offset",
    ),
    AuditRule(
        number="A29", kind=Kind.ZOOKEEPER_LATER, weight=_EXPLAINED,
        when=(Fact.NODE_BEHIND, Fact.NODE_WITHIN), unless=(Fact.STORES_AGREE,),
        reason="ZooKeeper is behind Kafka for no longer than a commit interval",
    ),
    AuditRule(
        number="A30", kind=Kind.KAFKA_LATER, weight=_EXPLAINED,
        when=(Fact.KAFKA_WITHIN,), unless=(Fact.STORES_AGREE, Fact.NODE_BEHIND),
        reason="Kafka is behind ZooKeeper for no longer than a commit interval: its own last commit is "
        "younger",
    ),
    AuditRule(
        number="A31", kind=Kind.LEFT_BEHIND, weight=_EXPLAINED,
        when=(Fact.UNWRITTEN,), unless=(Fact.STORES_AGREE,),
        reason="no member of the group commits to the store that is behind",
    ),
    AuditRule(
        number="A38", kind=Kind.KAFKA_UNDATED, weight=_UNKNOWN,
        unless=(Fact.STORES_AGREE, Fact.NODE_BEHIND, Fact.KAFKA_DATED),
        reason="Kafka is behind ZooKeeper, and its log does not tell when its last commit was made: that it "
        "is no longer than a commit interval is not proven",
        remedy="audit the group again after its next commit to Kafka; no such commit means that it fails",
    ),
    AuditRule(
        number="A32", kind=Kind.NOT_IN_ZOOKEEPER, weight=_MISMATCH,
        unless=(Fact.STORES_AGREE, Fact.NODE),
        reason="Kafka has an offset and ZooKeeper none: a member that reads ZooKeeper would start elsewhere",
        remedy="let a migration-aware member commit, which writes both stores",
    ),
    AuditRule(
        number="A33", kind=Kind.STORES_DIVERGE, weight=_MISMATCH,
        unless=(Fact.STORES_AGREE,),
        reason="ZooKeeper and Kafka differ for longer than a commit interval though members write both",
        remedy="see which store counts in the group's mode; let a migration-aware member commit",
    ),
)  # fmt: skip
"""ZooKeeper against Kafka, once coordinator and log agree."""

BY_NUMBER = {rule.number: rule for rule in (*KAFKA_RULES, *STORE_RULES)}
"""Every rule by its number."""
