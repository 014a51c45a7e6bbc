"""Which differences between two snapshots a stage allows: data, handed to the Spark job as JSON.

The Spark job ``validate.py`` reads exactly the keys of `AllowedChanges.to_data`::

    {"version": 1, "stage": "toggle", "moment": "after",
     "kafka_mode": true,                # effective mode of the *after* snapshot: kafka, else zookeeper
     "was_kafka_mode": false,           # the same of the *before* snapshot
     "offsets": {"advanced": "allowed", "regressed": "never", "lost": "never", "extra": "allowed",
                 "metadata_only": "allowed"},
     "commit_interval_records": 40,     # in kafka mode: znode <= kafka <= znode + this, per partition
     "members": {"change": "replaced",  # "equal" | "replaced" (kinds below) | "restored" (first = last)
                 "count": 1, "from": "old", "to": "aware"},
     "mode_node": {"from": null, "to": "kafka"},   # allowed text before and after; null = absent
     "subscriptions": "equal",          # per topic: total streams and the set of topics, members apart
     "partitions": "equal",             # the set of partitions with log ends
     "owners": "one_each",              # every partition exactly one owner, who is a member
     "ledger": "optional"}              # with a ledger row: offset <= last_delivered + 1
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from groupshift.domain.coordination import MemberKind
from groupshift.domain.evidence import Moment
from groupshift.domain.moves import StageName

RULES_VERSION = 1


class MemberChange(StrEnum):
    """What may have happened to the members between two snapshots."""

    EQUAL = "equal"
    """Same number of members of each kind (a restarted member has a new id and is still equal)."""
    REPLACED = "replaced"
    """``count`` members of kind ``from`` became kind ``to``; all others equal."""
    RESTORED = "restored"
    """Same number of members of each kind as in the migration's first snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedChanges:
    """What one comparison allows; see the module text for the JSON and the meaning of each key."""

    stage: StageName
    moment: Moment
    kafka_mode: bool
    was_kafka_mode: bool
    commit_interval_records: int
    members: MemberChange = MemberChange.EQUAL
    count: int = 0
    old: MemberKind | None = None
    new: MemberKind | None = None
    mode_before: str | None = None
    mode_after: str | None = None

    def to_data(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "version": RULES_VERSION,
            "stage": self.stage.value,
            "moment": self.moment.value,
            "kafka_mode": self.kafka_mode,
            "was_kafka_mode": self.was_kafka_mode,
            "offsets": {
                "advanced": "allowed",
                "regressed": "never",
                "lost": "never",
                "extra": "allowed",
                "metadata_only": "allowed",
            },
            "commit_interval_records": self.commit_interval_records,
            "members": {
                "change": self.members.value,
                "count": self.count,
                "from": self.old.value if self.old else None,
                "to": self.new.value if self.new else None,
            },
            "mode_node": {"from": self.mode_before, "to": self.mode_after},
            "subscriptions": "equal",
            "partitions": "equal",
            "owners": "one_each",
            "ledger": "optional",
        }
