"""Maps target records to source offsets by content, in a stretch of both logs.

The replicator copies each run in the order of the source. So between two records whose source offsets are
known and rise, every other record is a copy of an offset between them, or foreign. Content that is unique
gives the known ones; between them, equal content in equal number gives the rest.

Source: docs/reference/cross-cluster-offsets.md §8, method 4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groupshift.links.alignment import OPEN, Copy
from groupshift.links.fingerprints import Content
from groupshift.links.record_reads import Stretch

_BELOW_ALL = -1


class SourceIndex:
    """Source records of a stretch by their content, and the offsets that have no record (any more).

    ``span``: the stretch holds all records from the first of these offsets up to the second (exclusive).
    """

    def __init__(self, records: Stretch[Content], span: tuple[int, int]) -> None:
        self.offsets, self.keys = records.offsets, records.keys
        self._from, self._until = span
        self._places: dict[Content, list[int]] = defaultdict(list)
        for at, key in enumerate(records.keys):
            self._places[key].append(at)
        self._unbroken_from: list[int] = []
        previous = None
        for offset in records.offsets:
            goes_on = previous is not None and offset == previous + 1
            self._unbroken_from.append(self._unbroken_from[-1] if goes_on else offset)
            previous = offset

    def places(self, key: Content) -> Sequence[int]:
        """Where records with this content stand, as rising indexes."""
        return self._places.get(key, ())

    def index(self, offset: int) -> int:
        """The index of the first record at or behind an offset."""
        return bisect_left(self.offsets, offset)

    def highest_hole(self, low: int, high: int) -> int | None:
        """The highest offset between ``low`` and ``high`` (both exclusive) without a record."""
        high = min(high, self._until)
        at = self.index(high)
        is_record = at > 0 and self.offsets[at - 1] == high - 1
        hole = (self._unbroken_from[at - 1] if is_record else high) - 1
        return hole if hole > low and hole >= self._from else None

    def repeats(self, at: int, neighbours: int) -> bool:
        """True if the records around index ``at`` stand elsewhere in the stretch, too.

        Compares up to ``neighbours`` records before it, the record itself, and those behind it."""
        low, high = max(0, at - neighbours), at + neighbours
        around = self.keys[low:high]
        return any(
            self.keys[max(0, other - (at - low)) : other + neighbours] == around
            for other in self.places(self.keys[at])
            if other != at
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTraits:
    """What is declared of the target's records. ``drops_records``: the replicator leaves out some (by a
    filter or a predicate). ``foreign_writers``: others write to the topic, too."""

    drops_records: bool = False
    foreign_writers: bool = False


@dataclass(slots=True)
class _Gap:
    """Target records between two known ones, ``first`` to ``last`` (exclusive) by index. ``low`` and ``high``
    are the source offsets of these two; -1 and `OPEN` at the ends of the stretch.

    ``is_sure``: no replay can hide inside. It would begin with a copy of the record before or the one behind,
    and they would be recognised there, because their content is unique.
    """

    first: int
    last: int
    low: int
    high: int
    is_sure: bool

    @property
    def is_in_order(self) -> bool:
        """True if the records inside lie between the two on the source as well."""
        return self.is_sure and _BELOW_ALL < self.low < self.high < OPEN


class _Mapping:
    """The work of `map_copies`."""

    def __init__(self, source: SourceIndex, target: Stretch[Content], traits: CopyTraits, limit: int) -> None:
        self.source, self.target = source, target
        self.traits, self.limit = traits, limit
        self.known: list[int | None] = []
        self.copies: list[Copy] = []

    def recognise(self, pins: Mapping[int, int]) -> None:
        """Note the source offset of records with unique content, and of those that a sync names."""
        for target, key in zip(self.target.offsets, self.target.keys, strict=True):
            pinned = pins.get(target)
            places = self.source.places(key)
            unique = self.source.offsets[places[0]] if len(places) == 1 else None
            self.known.append(unique if pinned is None else pinned)

    def doubt_strays(self, pins: Mapping[int, int]) -> None:
        """Forget a single record that is out of order between two that are in order: its original was
        removed, and another one has the same content."""
        certain = [at for at, source in enumerate(self.known) if source is not None]
        known = [source for source in self.known if source is not None]
        for at in range(1, len(certain) - 1):
            before, here, after = known[at - 1 : at + 2]
            stray = before < after and not before <= here <= after
            if stray and self.target.offsets[certain[at]] not in pins:
                self.known[certain[at]] = None

    def gaps(self) -> list[_Gap]:
        """The stretches of records that are not known yet."""
        found, at, size = [], 0, len(self.known)
        while at < size:
            if self.known[at] is not None:
                at += 1
                continue
            first = at
            while at < size and self.known[at] is None:
                at += 1
            low = self.known[first - 1] if first else _BELOW_ALL
            high = self.known[at] if at < size else OPEN
            if low is not None and high is not None:
                is_sure = all(
                    len(self.source.places(self.target.keys[end])) <= 1 for end in (first - 1, at % size)
                )
                found.append(_Gap(first, at, low, high, is_sure))
        return found

    def close(self, gap: _Gap) -> None:
        """Find the source offsets of a gap's records, or their bounds."""
        if not self.traits.drops_records and (self._by_number(gap) or self._by_distance(gap)):
            return
        for at in range(gap.first, gap.last):
            self._bound(at, gap)

    def _by_number(self, gap: _Gap) -> bool:
        """Both sides have the same records in the same number: each is the copy of its counterpart."""
        if gap.low == _BELOW_ALL or gap.low >= gap.high:
            return False
        size, first = gap.last - gap.first, self.source.index(gap.low + 1)
        last = first + size if gap.high == OPEN else self.source.index(gap.high)
        if last - first != size or self.source.keys[first:last] != self.target.keys[gap.first : gap.last]:
            return False
        self.known[gap.first : gap.last] = self.source.offsets[first:last]
        return True

    def _by_distance(self, gap: _Gap) -> bool:
        """Every source offset between the two had a record, and the target has all: so removed ones, too,
        are known by their distance."""
        if not gap.is_in_order or self.traits.foreign_writers:
            return False
        size, shift = gap.last - gap.first, self.target.offsets[gap.first - 1] - gap.low
        whole = size + 1 == gap.high - gap.low == self.target.offsets[gap.last] - shift - gap.low
        if not whole:
            return False
        for at in range(self.source.index(gap.low + 1), self.source.index(gap.high)):
            here = gap.first + self.source.offsets[at] - gap.low - 1
            if self.target.keys[here] != self.source.keys[at]:
                return False
        self.known[gap.first : gap.last] = range(gap.low + 1, gap.high)
        return True

    def _bound(self, at: int, gap: _Gap) -> None:
        offsets = self.source.offsets
        possible = [offsets[place] for place in self.source.places(self.target.keys[at])]
        if gap.is_in_order:
            inside = [source for source in possible if gap.low < source < gap.high]
            if len(inside) == 1:
                self.known[at] = inside[0]
                return
            possible = inside or possible
        if possible:
            highest = max((source for source in possible if source < self.limit), default=None)
        else:
            # no record of the source is like it: it is foreign, or its original was removed
            low, high = self._hole_bounds(gap)
            highest = self.source.highest_hole(low, min(high, self.limit))
        if highest is not None:
            self.copies.append(Copy(self.target.offsets[at], highest, is_certain=False))

    @staticmethod
    def _hole_bounds(gap: _Gap) -> tuple[int, int]:
        """Between which source offsets a removed record may have been, of which the target has a copy."""
        if not gap.is_sure or gap.low >= gap.high:
            return _BELOW_ALL, OPEN
        return gap.low, gap.high


def map_copies(
    source: SourceIndex,
    target: Stretch[Content],
    *,
    pins: Mapping[int, int],
    traits: CopyTraits,
    limit: int = OPEN,
) -> list[Copy]:
    """Return the target records that are copies, or may be, in the order of the target.

    ``pins`` are known copies: target offset to source offset, as syncs say. ``limit``: source offsets from
    there on do not count.
    """
    work = _Mapping(source, target, traits, limit)
    work.recognise(pins)
    work.doubt_strays(pins)
    for gap in work.gaps():
        work.close(gap)
    certain = [Copy(target.offsets[at], known) for at, known in enumerate(work.known) if known is not None]
    return sorted([*certain, *work.copies])
