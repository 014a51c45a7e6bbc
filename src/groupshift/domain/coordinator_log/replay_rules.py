"""The rules of the replay lint: what each one means for a group, and why.

Source: specs/group-coordinator.md §§1.7, 3.1, 4; specs/verified-coordinator.md §§D, F.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.coordinator_log.records import Decoded


class LoadOutcome(StrEnum):
    """What becomes of a group when its coordinator loads the log; in order of harm."""

    LOADS = "loads"
    LOADS_WITH_LOSS = "loads_with_loss"
    FAILS_SHARD = "fails_shard"
    """The coordinator of its partition answers NOT_COORDINATOR (16) for every group in it."""
    NOT_PROVEN = "not_proven"
    """Nothing is said: the log was not written by Apache Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRule:
    """One rule: its number, what it means and the reason with its source."""

    number: str
    outcome: LoadOutcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """What the coordinator would make of one group, by which rule, and the record that decides.

    ``partition`` is where the group belongs; the deciding record is the first of its kind, and None
    where the group simply loads.
    """

    group_id: str
    partition: int
    outcome: LoadOutcome
    rule: str
    reason: str
    record: Decoded | None


_LOSS, _FAILS = LoadOutcome.LOADS_WITH_LOSS, LoadOutcome.FAILS_SHARD


def _rule(number: str, outcome: LoadOutcome, *reason: str) -> ReplayRule:
    return ReplayRule(number=number, outcome=outcome, reason=" ".join(reason))


_TABLE = (
    _rule("L0", LoadOutcome.LOADS, "nothing in the log keeps this coordinator from loading the group"),
    _rule(
        "O1", _LOSS,
        "a record type that this release does not know breaks the load off, tombstone or not: the partition",
        "is served empty and offsets are answered -1 with error NONE (before 3.4.1, KIP-915)",
    ),
    _rule(
        "O2", _LOSS,
        "a value version that this release does not know breaks the load off: the partition is served empty",
        "and offsets are answered -1 with error NONE",
    ),
    _rule(
        "O3", _LOSS,
        "a record that cannot be read breaks the load off: the partition is served empty and offsets are",
        "answered -1 with error NONE",
    ),
    _rule(
        "O4", _LOSS,
        "offsets load but the records of the newer protocols are ignored: members and epochs are gone, the",
        "group appears simple and Empty, a share group not at all",
    ),
    _rule(
        "O5", _LOSS,
        "the old coordinator keeps one cache over all partitions: a copy of the group in another partition",
        "(residue of an expansion) can shadow its offsets at any load",
    ),
    _rule(
        "N1", _FAILS,
        "a record of one kind of group comes while the group is of another kind, the coordinator stops with",
        "'Group ... is not a consumer group' (class of KAFKA-21117 and KAFKA-20254; compaction does it)",
    ),
    _rule(
        "N2", _FAILS,
        "a member's tombstone comes before the tombstones of its current and its target assignment (class of",
        "KAFKA-19862 and KAFKA-21102)",
    ),
    _rule(
        "N3", _FAILS,
        "a group's tombstone comes while members or targets remain, or before the tombstone of its",
        "assignment epoch (class of KAFKA-19862 and KAFKA-21102)",
    ),
    _rule("N4", _FAILS, "the tombstone of the assignment epoch comes while target assignments remain"),
    _rule(
        "N5", _FAILS,
        "a record comes for a group or member that the log has not created before it, which this release",
        "does not forgive (3.7 to 3.9; share groups up to 4.0)",
    ),
    _rule(
        "N6", _FAILS,
        "the value has the layout of another release under the same version number (3.7 against 3.8 and",
        "later; share groups up to 4.0 against 4.1)",
    ),
    _rule(
        "N7", _FAILS,
        "the record cannot be read, or its value is of an unknown version and has nested structs",
    ),
    _rule(
        "N8", _LOSS,
        "the log removes the group after its offsets and nothing creates it again: offsets are answered -1",
    ),
    _rule("N9", _LOSS, "records of types that this release does not know are ignored with a warning"),
    _rule(
        "X1", _LOSS,
        "all its live records lie outside the partition it belongs to (residue of an expansion): its",
        "coordinator answers -1 with error NONE",
    ),
    _rule(
        "X2", LoadOutcome.NOT_PROVEN,
        "the log was not written by Apache Kafka: no value of a type can be read (Redpanda writes one int16",
        "more into each member), so how Apache Kafka would load it says nothing",
    ),
)  # fmt: skip

RULES = {rule.number: rule for rule in _TABLE}
"""Number → rule. L: loads, O: old coordinator, N: new coordinator, X: both."""


def verdict(group_id: str, partition: int, rule: str, record: Decoded | None = None) -> GroupVerdict:
    """The verdict of this rule on one group."""
    found = RULES[rule]
    return GroupVerdict(
        group_id=group_id,
        partition=partition,
        outcome=found.outcome,
        rule=found.number,
        reason=found.reason,
        record=record,
    )
