"""What a translation says: the target offset, by which method, how certain, and on what evidence.

Source: docs/reference/cross-cluster-offsets.md §§1, 8, 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from groupshift.links.reasons import Reason


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
    committed one and the source's log start."""

    anchor: OffsetPair | None = None
    next_sync: OffsetPair | None = None
    note: str = ""
    before_replay: int | None = None
    unclamped: int | None = None
    expired: int = 0


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
