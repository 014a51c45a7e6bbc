"""The numbered rules of an audit: how the three sources can differ, why, and the remedy; first match decides.

``rules.toml`` beside this module is the table. `groupshift.audit.offsets.judge` reads it, in a process and in
the Spark job. A rule names facts about one (group, topic, partition), each true or false:
`groupshift.audit.sources.Sources.row` has them by name, and ``sql/audit/facts.sql`` has a column for each.

Source: docs/reference/group-coordinator.md §§1.6, 1.7, 3.1 to 3.3, 4;
docs/reference/zookeeper-coordination.md §§6.2, 8.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from groupshift.domain.tables import table_of


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

    def applies(self, row: Mapping[str, Any]) -> bool:
        """Whether it speaks about the key of which these are the facts."""
        return all(row[fact] for fact in self.when) and not any(row[fact] for fact in self.unless)


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
