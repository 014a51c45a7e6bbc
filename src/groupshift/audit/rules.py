"""The numbered rules of an audit: how the three sources can differ, why, and the remedy; first match decides.

``rules.toml`` beside this module is the table. `groupshift.audit.offsets.judge` reads it, and the Spark job
makes Catalyst expressions of it. A rule names facts about one (group, topic, partition), each true or false:
`FACTS` reads them off a `Case`; ``sql/audit/facts.sql`` computes a column of the same name for each.
What most of them mean is in the docstrings of `Case`.

Source: docs/reference/group-coordinator.md §§1.6, 1.7, 3.1 to 3.3, 4;
docs/reference/zookeeper-coordination.md §§6.2, 8.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter

from groupshift.audit.case import Case
from groupshift.domain.commit_places import Stray
from groupshift.domain.tables import table_of


def _answers_foreign(case: Case) -> bool:
    return case.answered is not None and case.answered in {one.commit.offset for one in case.foreign}


def _is_astray(stray: Stray, case: Case) -> bool:
    return stray in case.strays


def _beyond_end(case: Case) -> bool:
    return case.end is not None and case.answered is not None and case.answered > case.end.log_end


def _below_start(case: Case) -> bool:
    return case.end is not None and case.answered is not None and case.answered < case.end.log_start


def _unwritten(case: Case) -> bool:
    """Whether the store that is behind is one that no member of the group commits to."""
    group = case.zookeeper
    if group is None:
        return False
    return group.members == 0 if case.node_behind else not case.kafka_mode and group.aware == 0


_OWN = (
    "answered_in_full agrees follows same_details served_before is_tombstone unreadable overdue silent "
    "foreign_moving kafka_mode stores_agree node_behind node_within_interval kafka_within_interval"
)
FACTS: Mapping[str, Callable[[Case], bool]] = {
    **{name: attrgetter(name) for name in _OWN.split()},
    "has_answer": lambda case: case.answered is not None,
    "has_logged": lambda case: case.logged is not None,
    "has_foreign": lambda case: bool(case.foreign),
    "answers_foreign": _answers_foreign,
    "beyond_end": _beyond_end,
    "below_start": _below_start,
    **{stray.name.lower(): partial(_is_astray, stray) for stray in Stray},
    "has_node": lambda case: case.znode is not None,
    "nodes_unread": lambda case: case.zookeeper is not None and bool(case.zookeeper.problems),
    "only_node": lambda case: case.answered is None and case.agrees and case.znode is not None,
    "expired": lambda case: case.removed_by_retention is True,
    "removed": lambda case: case.removed_by_retention is False,
    "kafka_dated": lambda case: case.kafka_committed_ms is not None,
    "unwritten": _unwritten,
}
"""Every question that a rule may ask about the three sources, by the name of its column in Spark."""


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
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    reason: str
    remedy: str = ""

    def applies(self, case: Case) -> bool:
        """Whether it speaks about this case."""
        return all(FACTS[each](case) for each in self.when) and not any(
            FACTS[each](case) for each in self.unless
        )


FILE = "audit/rules.toml"
"""The table of rules, below the package ``groupshift``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRules:
    """The file: the coordinator's answer against its own log and the topic's (``kafka``); ZooKeeper against
    Kafka, once coordinator and log agree (``store``). Each in its order."""

    kafka: tuple[AuditRule, ...]
    store: tuple[AuditRule, ...]


_READ = table_of(AuditRules, FILE)
KAFKA_RULES, STORE_RULES = _READ.kafka, _READ.store
"""The coordinator's answer against its own log and the topic's; ZooKeeper against Kafka, once coordinator
and log agree."""

BY_NUMBER = {rule.number: rule for rule in (*KAFKA_RULES, *STORE_RULES)}
"""Every rule by its number."""
