"""What a translation says: the target offset, by which method, how certain, on what evidence, or why none.

`Reason` is the closed vocabulary of reports. A translation gives those that it can know;
`groupshift.links.write_rules` gives the one of the report, and has the sentences for people.

Source: docs/reference/cross-cluster-offsets.md §§1, 8, 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why; one for each group and partition."""

    OK = "OK"
    OK_NEW_GROUP = "OK_NEW_GROUP"
    SKIP_ACTIVE = "SKIP_ACTIVE"
    SKIP_STATE_UNKNOWN = "SKIP_STATE_UNKNOWN"
    SKIP_WATERMARK = "SKIP_WATERMARK"
    SKIP_SOURCE_REWIND = "SKIP_SOURCE_REWIND"
    SKIP_NO_SYNC = "SKIP_NO_SYNC"
    """The current epoch has no evidence about the partition."""
    SKIP_BEFORE_FIRST_SYNC = "SKIP_BEFORE_FIRST_SYNC"
    """The commit is older than all evidence, and the policy is to skip it."""
    SKIP_TOPIC_MISSING = "SKIP_TOPIC_MISSING"
    SKIP_TOPIC_RECREATED = "SKIP_TOPIC_RECREATED"
    """The commit or the evidence is about an older log of either topic."""
    SKIP_FILTERED = "SKIP_FILTERED"
    SKIP_ADMIN_ERROR = "SKIP_ADMIN_ERROR"
    CLAMPED_HIGH = "CLAMPED_HIGH"
    CLAMPED_LOW = "CLAMPED_LOW"
    RACED = "RACED"


class Method(StrEnum):
    """How a target offset was found, in the order in which the methods are tried."""

    IDENTITY = "identity"
    HEADER = "header"
    PREDICTION = "prediction"
    SCAN = "scan"
    CONSERVATIVE = "conservative"
    BEFORE_FIRST_SYNC = "before-first-sync"


class Certainty(StrEnum):
    """What a target offset is worth."""

    EXACT_PROVEN = "exact-proven"
    EXACT_LIKELY = "exact-likely"
    CONSERVATIVE = "conservative"
    """Nothing is skipped once replication is at rest; records may be read again."""

    def satisfies(self, least: Certainty) -> bool:
        """True if it is at least as certain as ``least``."""
        order = list(Certainty)
        return order.index(self) <= order.index(least)


class OffsetPair(NamedTuple):
    """A source offset and the target offset of its copy."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The offsets that a translation rests on. ``anchor`` and ``next_sync`` are syncs around the committed
    offset. ``note`` says in a clause why better methods gave nothing. ``before_replay`` is the offset by
    syncs alone, where a replay under way lowered it. ``unclamped`` is the offset before it was put between
    log start and log end of the target, if it lay outside; ``expired`` counts the offsets between the
    committed one and the source's log start. ``is_behind``: the offset is the target's log end, and the last
    record before the committed one is not known to be there yet."""

    anchor: OffsetPair | None = None
    next_sync: OffsetPair | None = None
    note: str = ""
    before_replay: int | None = None
    unclamped: int | None = None
    expired: int = 0
    is_behind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The target offset ``x`` for a group's ``committed`` offset; None: there is none, for ``reason``."""

    committed: int
    x: int | None
    method: Method
    certainty: Certainty
    evidence: Evidence = field(default_factory=Evidence)
    reason: Reason = Reason.OK

    @property
    def unclamped(self) -> int | None:
        """The offset before it was put between log start and log end of the target; None: there is none."""
        return self.x if self.evidence.unclamped is None else self.evidence.unclamped
