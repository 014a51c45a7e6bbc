"""Which source offset each target record is a copy of, and where a group has to go on.

The replicator copies each run in the order of the source. So between two records whose source offsets are
known and rise, every other record is a copy of an offset between them, or foreign. Content that is unique
gives the known ones; between them, equal content in equal number gives the rest (`map_copies`).

A target record is a copy of one source offset, or may be one of several, where content repeats or the source
no longer has the record. `Places` computes both bounds of the exact position; it is proven where they meet.

Source: docs/reference/cross-cluster-offsets.md §§1, 8, method 4.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from groupshift.links.record_reads import Content, Stretch

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

    def highest(self, key: Content, low: int, high: int) -> tuple[int, int | None]:
        """How many records with this content lie between two offsets (both exclusive), and the highest."""
        places = self._places.get(key, ())
        first = bisect_right(places, low, key=self.offsets.__getitem__)
        end = bisect_left(places, high, first, key=self.offsets.__getitem__)
        return end - first, self.offsets[places[end - 1]] if end > first else None

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

    @property
    def has_holes(self) -> bool:
        """True if an offset of the stretch has no record: a marker, or a record that was removed."""
        return self.highest_hole(_BELOW_ALL, OPEN) is not None


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

    ``is_sure``: no replay hides inside that goes beyond the two: it would have copied one of them again.
    ``is_in_order``: the records inside lie between the two on the source as well.
    """

    first: int
    last: int
    low: int
    high: int
    is_sure: bool
    is_in_order: bool


class _Mapping:
    """The work of `map_copies`."""

    def __init__(
        self,
        source: SourceIndex,
        target: Stretch[Content],
        pins: Mapping[int, int],
        traits: CopyTraits,
        limit: int,
    ) -> None:
        self.source, self.target = source, target
        self.traits, self.limit = traits, limit
        self.pins = pins
        self._times = Counter(target.keys) if traits.foreign_writers else Counter[Content]()
        self.known: list[int | None] = []
        self.copies: list[Copy] = []

    def recognise(self) -> None:
        """Note the source offset of records with unique content, and of those that a sync names."""
        for target, key in zip(self.target.offsets, self.target.keys, strict=True):
            times, original = self.source.highest(key, _BELOW_ALL, OPEN)
            self.known.append(self.pins.get(target, original if times == 1 else None))

    def doubt_strays(self) -> None:
        """Forget a single record that is out of order between two that are in order: its original was
        removed, and another one has the same content."""
        certain = [at for at, source in enumerate(self.known) if source is not None]
        known = [source for source in self.known if source is not None]
        for at in range(1, len(certain) - 1):
            before, here, after = known[at - 1 : at + 2]
            stray = before < after and not before <= here <= after
            if stray and self.target.offsets[certain[at]] not in self.pins:
                self.known[certain[at]] = None

    def gaps(self) -> list[_Gap]:
        """The stretches of records that are not known yet."""
        gaps, at, size = [], 0, len(self.known)
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
                gaps.append(self._gap(first, at, low, high))
        return gaps

    def _gap(self, first: int, last: int, low: int, high: int) -> _Gap:
        ends = [end for end in (first - 1, last) if 0 <= end < len(self.known)]
        is_sure = {self.target.keys[end] for end in ends}.isdisjoint(self.target.keys[first:last])
        is_in_order = is_sure and _BELOW_ALL < low < high < OPEN
        if self.traits.foreign_writers:
            # what no sync names may be of others' own, unless nothing else has its content and its time
            doubtful = [end for end in ends if self.target.offsets[end] not in self.pins]
            is_in_order = is_in_order and not doubtful
            is_sure = is_sure and all(self._is_single(self.target.keys[end]) for end in doubtful)
        return _Gap(first, last, low, high, is_sure, is_in_order)

    def _is_single(self, content: Content) -> bool:
        return content.timestamp_ms is not None and self._times[content] == 1

    def close(self, gap: _Gap) -> None:
        """Find the source offsets of a gap's records, or their bounds."""
        is_complete = not (self.traits.drops_records or self.traits.foreign_writers)
        if is_complete and (self._by_number(gap) or self._by_distance(gap)):
            return
        for at in range(gap.first, gap.last):
            self._bound(at, gap)

    def _by_number(self, gap: _Gap) -> bool:
        """Both sides have the same records in the same number: each is the copy of its counterpart."""
        if not _BELOW_ALL < gap.low < gap.high < OPEN:
            return False
        first, last = self.source.index(gap.low + 1), self.source.index(gap.high)
        if self.source.keys[first:last] != self.target.keys[gap.first : gap.last]:
            return False
        self.known[gap.first : gap.last] = self.source.offsets[first:last]
        return True

    def _by_distance(self, gap: _Gap) -> bool:
        """Every source offset between the two had a record, and the target has all: so removed ones, too,
        are known by their distance."""
        if not gap.is_in_order:
            return False
        size, shift = gap.last - gap.first, self.target.offsets[gap.first - 1] - gap.low
        whole = size + 1 == gap.high - gap.low == self.target.offsets[gap.last] - shift - gap.low
        if not whole or len(set(self.target.keys[gap.first - 1 : gap.last + 1])) < size + 2:
            return False  # the same content twice may be a replay
        for at in range(self.source.index(gap.low + 1), self.source.index(gap.high)):
            here = gap.first + self.source.offsets[at] - gap.low - 1
            if self.target.keys[here] != self.source.keys[at]:
                return False
        self.known[gap.first : gap.last] = range(gap.low + 1, gap.high)
        return True

    def _bound(self, at: int, gap: _Gap) -> None:
        content, low, high = self.target.keys[at], _BELOW_ALL, OPEN
        if gap.is_in_order:
            times, original = self.source.highest(content, gap.low, gap.high)
            if times == 1:
                self.known[at] = original
                return
            if times:
                low, high = gap.low, gap.high
        _, highest = self.source.highest(content, low, high)
        if highest is None or highest >= self.limit:
            # it is foreign, or its original was removed, perhaps for a later one with the same content
            _, below = self.source.highest(content, low, self.limit)
            low, high = self._hole_bounds(gap)
            hole = self.source.highest_hole(low, min(high, self.limit))
            highest = max((each for each in (below, hole) if each is not None), default=None)
        if highest is not None:
            self.copies.append(Copy(self.target.offsets[at], highest, is_certain=False))

    def known_copies(self) -> list[Copy]:
        """The copies of known records. Of several copies of one record the last counts, for the replicator
        copied it again. But any that no sync names may be of a removed record with that content, or of
        others' own: then an earlier one is doubtful, and so is one of a record behind the limit."""
        is_plain = not (self.traits.drops_records or self.traits.foreign_writers or self.source.has_holes)
        hole = self.source.highest_hole(_BELOW_ALL, self.limit)
        copies, again = [], set[int]()
        for at in range(len(self.known) - 1, -1, -1):
            source, target = self.known[at], self.target.offsets[at]
            if source is None:
                continue
            copies.append(Copy(target, source, is_plain or source not in again))
            again.add(source)
            if hole is not None and source >= self.limit and target not in self.pins:
                copies.append(Copy(target, hole, is_certain=False))
        return copies

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
    work = _Mapping(source, target, pins, traits, limit)
    work.recognise()
    work.doubt_strays()
    for gap in work.gaps():
        work.close(gap)
    return sorted([*work.known_copies(), *work.copies])
