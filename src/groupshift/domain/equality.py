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
     "owners": "one_each",              # every partition exactly one owner, who is a member; "nobody": the
                                        # group is empty, and neither owners nor subscriptions are compared
     "ledger": "optional",              # with a ledger row: offset <= last_delivered + 1, unless the log says
     "log": [                           # (only where it was asked) that nothing between was to be delivered
        {"topic": "orders", "partition": 0, "from": 4, "to": 6, "answer": "nothing", "reason": "..."}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from typing import Any

from groupshift.domain.evidence import Moment, Row
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plan import ReplaceMembers, SetMode, Stage, StageName

RULES_VERSION = 1

Snapshot = Mapping[str, Sequence[Row]]
"""All tables of a snapshot as `EvidenceStore.read` gives them."""


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
    nobody: bool = False

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
            "owners": "nobody" if self.nobody else "one_each",
            "ledger": "optional",
        }


def allowed_changes(
    stage: Stage, moment: Moment, before: Snapshot, after: Snapshot, commit_interval_records: int
) -> AllowedChanges:
    """What may differ between these two snapshots around (or, for ``before``, ahead of) a stage.

    Ahead of a stage nothing may have changed but offsets; after it, what its step says. Where ``before`` was
    taken ahead of an earlier stage, ``stage`` holds both steps as one (`ReplaceMembers.after`)."""
    then, now = before["group"][0], after["group"][0]
    step = stage.step
    replaced = step if moment is Moment.AFTER and isinstance(step, ReplaceMembers) else None
    toggled = moment is Moment.AFTER and isinstance(step, SetMode)
    return AllowedChanges(
        stage=stage.name,
        moment=moment,
        kafka_mode=now["effective_mode"] == Mode.KAFKA.value,
        was_kafka_mode=then["effective_mode"] == Mode.KAFKA.value,
        commit_interval_records=commit_interval_records,
        members=MemberChange.REPLACED if replaced else MemberChange.EQUAL,
        count=len(replaced.slots) if replaced else 0,
        old=replaced.old if replaced else None,
        new=replaced.new if replaced else None,
        nobody=nobody_at(stage, moment),
        mode_before=_text(then),
        mode_after=step.to.value if toggled and isinstance(step, SetMode) else _text(then),
    )


def nobody_at(stage: Stage, moment: Moment) -> bool:
    """Whether the group is meant to be empty then: vacated by this stage, or by the one before it."""
    step = stage.step
    if not isinstance(step, ReplaceMembers):
        return False
    return (step.new if moment is Moment.AFTER else step.old) is MemberKind.VACANT


def restored_changes(changes: AllowedChanges, mode_after: str | None) -> AllowedChanges:
    """The comparison of the first snapshot with the last one of a way back to old members.

    Members are as they were; the mode node may say ``zookeeper`` where it was absent (D13)."""
    return replace(changes, members=MemberChange.RESTORED, count=0, old=None, new=None, mode_after=mode_after)


def _text(group: Row) -> str | None:
    text = group["mode_text"]
    return None if text is None else str(text)


def records_per_interval(before: Snapshot, after: Snapshot, interval_ms: int) -> int:
    """The most records one commit interval produced in any partition between two snapshots.

    0 when both are of one moment: there is no rate to speak of."""
    elapsed_ms = _long(after["group"][0], "taken_at_ms") - _long(before["group"][0], "taken_at_ms")
    if elapsed_ms <= 0:
        return 0
    then = {(row["topic"], row["partition"]): _long(row, "log_end") for row in before["log_ends"]}
    grown = [
        _long(row, "log_end") - then.get((row["topic"], row["partition"]), _long(row, "log_end"))
        for row in after["log_ends"]
    ]
    return ceil(max(grown, default=0) * interval_ms / elapsed_ms)


def _long(row: Row, column: str) -> int:
    return int(row[column] or 0)
