"""Which source offset each target record is a copy of, and where a group has to go on.

A target record is a copy of one source offset, or may be one of several, where content repeats or the source
no longer has the record. `Places` computes both bounds of the exact position; it is proven where they meet.

Source: docs/reference/cross-cluster-offsets.md §§1, 8.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

OPEN = 1 << 63
"""Above every offset."""


class Copy(NamedTuple):
    """A target record at ``target`` that is a copy of ``source``; if that is not certain, ``source`` is the
    highest source offset that it may be a copy of."""

    target: int
    source: int
    is_certain: bool = True


class Place(NamedTuple):
    """The exact position lies from ``low`` to ``high``; at or below ``low`` nothing is skipped."""

    low: int
    high: int

    @property
    def is_exact(self) -> bool:
        """True if both bounds meet."""
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class _Minima:
    """The smallest target offset of all entries from a source offset on."""

    sources: list[int]
    minima: list[int]

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> _Minima:
        """Index pairs of source offset and target offset."""
        ordered = sorted(pairs)
        minima = [target for _, target in ordered]
        for at in range(len(minima) - 2, -1, -1):
            minima[at] = min(minima[at], minima[at + 1])
        return cls([source for source, _ in ordered], minima)

    def from_(self, source: int) -> int | None:
        """The smallest target offset of entries at or above ``source``; none if there are none."""
        at = bisect_left(self.sources, source)
        return self.minima[at] if at < len(self.minima) else None


class Places:
    """Positions for any committed offset among target records whose copies are known.

    ``limit``: source offsets from there on are none of its business, because their last copies lie behind
    ``end``. ``end`` is the answer where no copy at or behind the committed offset is here.
    """

    def __init__(self, copies: Sequence[Copy], *, end: int, limit: int = OPEN) -> None:
        last: dict[int, int] = {}
        for copy in copies:
            if copy.is_certain and copy.source < limit:
                last[copy.source] = max(copy.target, last.get(copy.source, -1))
        self._certain = _Minima.of(list(last.items()))
        self._possible = _Minima.of([(copy.source, copy.target) for copy in copies if not copy.is_certain])
        self._end = end
        certain = [copy.source for copy in copies if copy.is_certain]
        self.lowest = min(certain, default=OPEN)
        """The lowest source offset that certainly has a copy here."""
        self._first, self._last = (certain[0], certain[-1]) if certain else (OPEN, OPEN)
        self.is_replay = bool(certain) and self._last < max(certain)
        """True if the last copy is of a lower source offset than an earlier one: a replay is under way."""

    @property
    def is_known(self) -> bool:
        """True if at least one copy is certain."""
        return self.lowest < OPEN

    def covers(self, committed: int) -> bool:
        """True if copies before these cannot matter for a committed offset: the replicator passed it in here.
        In a replay, what it has not copied again must be here from its first copy on."""
        is_passed = self.lowest < committed
        return is_passed and (not self.is_replay or self._first <= max(committed, self._last + 1))

    def at(self, committed: int) -> Place:
        """Return the bounds of the position for a committed offset."""
        high = self._certain.from_(committed)
        high = self._end if high is None else high
        possible = self._possible.from_(committed)
        return Place(high if possible is None else min(possible, high), high)
