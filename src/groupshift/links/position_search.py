"""Finds positions in one partition: by the header with the source offset, or by the content of records.

By header, the end of the target (the replay guard) is read whole, because a replay may be under way there.
Before it, positions are found by bisection.

By content, prediction and scan work on the *segment* of a committed offset: what lies between the newest sync
at or below it (its anchor) and the next one. Near the end of the target a replay may be under way that no
sync shows. There, an answer counts only if both tails are equal from the newest sync to their ends, or if the
whole end of the target was read.

Source: docs/reference/cross-cluster-offsets.md §8, methods 2 to 4, and the replay guard (H10).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from groupshift.links.alignment import OPEN, Copy, CopyTraits, Place, Places, SourceIndex, map_copies
from groupshift.links.record_reads import Content, K, SharedReads, Stretch
from groupshift.links.sync_history import REPLAY_GUARD_RECORDS, Sync, SyncHistory
from groupshift.links.translation import Method
from groupshift.ports.records import LogRecordView, PartitionReader

_INT64 = 8
_DIGITS = 19
"""No int64 has more."""
MANY = 60
"""From so many bisections of one partition on, reading it whole is faster."""


class HeaderEncoding(StrEnum):
    """How a header holds a number."""

    DECIMAL = "decimal"
    """ASCII digits."""
    INT64 = "int64"
    """Eight bytes, big-endian, signed."""
    INT64_LITTLE = "int64-little"
    """Eight bytes, little-endian, signed."""


_KNOWN = {
    "redpanda-migrator-offset": (HeaderEncoding.INT64, ("redpanda-migrator-provenance",)),
    "x-original-offset": (
        HeaderEncoding.INT64_LITTLE,
        ("x-original-timestamp", "x-source-cluster", "x-source-partition"),
    ),
}
"""By name, how a header of a known replicator holds the offset, and what other headers it adds: Redpanda's
migrator (redpanda-data/connect, internal/impl/redpanda/migrator/migrator.go) and kafka-backup
(osodevops/kafka-backup, crates/kafka-backup-core/src/offset_headers.rs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetHeader:
    """The header of target records that holds the source offset."""

    name: str
    encoding: HeaderEncoding = HeaderEncoding.DECIMAL

    @classmethod
    def of(cls, name: str, encoding: HeaderEncoding | None = None) -> OffsetHeader:
        """The header of this name; without an ``encoding`` it has that of its replicator, and digits where
        that is not known."""
        return cls(name=name, encoding=encoding or _KNOWN.get(name, (HeaderEncoding.DECIMAL,))[0])

    @property
    def added(self) -> frozenset[str]:
        """Every header that the replicator adds, this one among them: no part of a record's content."""
        return frozenset({self.name, *_KNOWN.get(self.name, ((), ()))[1]})

    def source_offset(self, record: LogRecordView) -> int | None:
        """Return the source offset in a record's header; none where there is none that can be read. If the
        header is there more than once, the last counts: clients append headers, so it is of the last hop."""
        for name, value in reversed(record.headers):
            if name == self.name:
                return self._decode(value)
        return None

    def _decode(self, value: bytes | None) -> int | None:
        if value is None:
            return None
        if self.encoding is HeaderEncoding.DECIMAL:
            number = int(value) if value.isdigit() and len(value) <= _DIGITS else -1
        else:
            order: Literal["big", "little"] = "big" if self.encoding is HeaderEncoding.INT64 else "little"
            number = int.from_bytes(value, order, signed=True) if len(value) == _INT64 else -1
        return number if number >= 0 else None


def position_behind(copies: list[Copy], records: Stretch[K], end: int) -> int:
    """Return the position for a group that has read every copy: behind the last one.

    It is the log end if no record follows the last copy; markers do not count."""
    if not copies or not records.offsets or copies[-1].target == records.offsets[-1]:
        return end
    return copies[-1].target + 1


class HeaderSearch:
    """Positions in one target partition whose records carry their source offset.

    ``guard`` is the number of offsets before the log end in which a replay may be under way, ``window`` the
    number of records behind a position that are looked through for replays.
    """

    def __init__(self, target: PartitionReader, header: OffsetHeader, *, guard: int, window: int) -> None:
        # a probe needs one record: small fetches
        self._target = SharedReads(target, header.source_offset, chunk=1)
        self._window = window
        self._since = max(target.start, target.end - guard)
        self._tail: Places | None = None
        self._bisections = 0

    def place(self, committed: int) -> Place | None:
        """Return the position for a committed offset; none if headers do not tell it."""
        if self._tail is None:
            self._tail = self._read_tail()
        if self._tail.covers(committed):
            return self._tail.at(committed)
        self._bisections += 1
        if self._bisections == MANY and self._since > self._target.start:
            self._since = self._target.start
            self._tail = self._read_tail()
        if self._since <= self._target.start:
            return self._tail.at(committed) if self._tail.is_known else None
        return self._bisect(committed)

    def _read_tail(self) -> Places:
        records = self._target.span(self._since, self._target.end, self._target.end)
        assert records is not None  # noqa: S101 - there are never more records than offsets
        copies = _copies(records)
        return Places(copies, end=position_behind(copies, records, self._target.end))

    def _bisect(self, committed: int) -> Place | None:
        """Search below the tail, whose first record is above ``committed``."""
        low, high = self._target.start, self._since
        while low < high:
            middle = (low + high) // 2
            probe = self._first(middle, high)
            if probe is None:
                # no record with a header from the middle on: go on below it
                high = middle
            elif probe[1] < committed:
                low = probe[0] + 1
            else:
                high = middle
        window = self._target.read(low, self._window)
        copies = _copies(window)
        if not copies or copies[0].source < committed:
            return None
        before = _copies(self._target.before(low, self._window))
        if before and before[-1].source >= committed:
            return None
        if not before and low > self._target.start:
            return None
        return Places(copies, end=self._target.end).at(committed)

    def _first(self, low: int, high: int) -> tuple[int, int] | None:
        """The first record from ``low`` on, below ``high``, with a header: its offset, and the original's."""
        records = self._target.read(low, 1)
        size = 1
        while records.offsets and records.offsets[0] < high:
            for at, source in zip(records.offsets, records.keys, strict=True):
                if at >= high:
                    return None
                if source is not None:
                    return at, source
            size = min(2 * size, self._window)
            records = self._target.read(records.offsets[-1] + 1, size)
        return None


def _copies(records: Stretch[int | None]) -> list[Copy]:
    return [
        Copy(target, source)
        for target, source in zip(records.offsets, records.keys, strict=True)
        if source is not None
    ]


def predict(
    segment: SourceIndex,
    committed: int,
    target: SharedReads[Content],
    *,
    bounds: tuple[int, int],
    neighbours: int,
) -> int | None:
    """Return the position for a committed offset if counts and content prove it; else none.

    ``segment`` holds the source records between two syncs, ``bounds`` the target offsets of these syncs. The
    target must have grown by one offset for each of the records. As the replicator leaves none out, nothing
    was copied twice or written by others. Up to ``neighbours`` records before and behind the position must be
    the same on both sides.
    """
    start, end = bounds
    size = len(segment.offsets)
    if end - start != size:
        return None
    at = segment.index(committed)
    low, high = max(0, at - neighbours), min(size, at + neighbours)
    around = target.span(start + low, start + high, high - low)
    if around is None or around.keys != segment.keys[low:high]:
        return None
    return start + at


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """How far records are read, in records: ``neighbours`` on each side of a prediction, ``scan`` for a
    segment, ``guard`` before the target's end, where a replay may be under way."""

    neighbours: int = 16
    scan: int = 100_000
    guard: int = REPLAY_GUARD_RECORDS


class Finding(NamedTuple):
    """A position by one method. ``is_replay``: a replay is under way, so syncs may lie behind it."""

    method: Method
    place: Place
    is_replay: bool = False


class _Segment:
    """Both logs between an anchor and the next sync (none: up to the ends); read when it is needed."""

    def __init__(self, search: ContentSearch, anchor: Sync, following: Sync | None) -> None:
        self._search = search
        self.anchor, self.following = anchor, following
        self._source: SourceIndex | None = None
        self._places: Places | None = None
        self._is_read = self._is_scanned = False

    @property
    def target_end(self) -> int:
        """Where the segment ends on the target."""
        return self.following.downstream if self.following else self._search.target.end

    @property
    def source(self) -> SourceIndex | None:
        """The source records; none if there are too many, or no next sync."""
        if not self._is_read:
            self._is_read = True
            records = self._inside()
            if records and self.following:
                self._source = SourceIndex(records, (self.anchor.upstream, self.following.upstream))
        return self._source

    @property
    def places(self) -> Places | None:
        """Positions by a scan of both sides; none if there are too many records, or no next sync."""
        if not self._is_scanned:
            self._is_scanned = True
            self._places = self._scan()
        return self._places

    def _inside(self) -> Stretch[Content] | None:
        if self.following is None:
            return None
        search = self._search
        return search.source.span(self.anchor.upstream, self.following.upstream, search.limits.scan)

    def _scan(self) -> Places | None:
        search, following, inside = self._search, self.following, self._inside()
        if following is None or inside is None:
            return None
        records = search.target.span(self.anchor.downstream, following.downstream + 1, search.limits.scan + 1)
        if records is None:
            return None
        # a replay inside the segment may have begun before it, and what it repeats may have gone beyond it
        before = search.source.before(self.anchor.upstream, len(records))
        behind = search.source.read(following.upstream, len(records))
        copies = map_copies(
            SourceIndex(
                before + inside + behind, search.covered(before, behind, (len(records), len(records)))
            ),
            records,
            pins={sync.downstream: sync.upstream for sync in (self.anchor, following)},
            traits=search.traits,
            limit=following.upstream,
        )
        return Places(copies, end=following.downstream, limit=following.upstream)


class _Tail:
    """The end of the target, read whole and mapped to the source."""

    def __init__(self, search: ContentSearch, syncs: SyncHistory) -> None:
        source, target, limits = search.source, search.target, search.limits
        since = search.guarded_from
        pins: dict[int, int] = {}
        sync = syncs.newest
        while sync and sync.downstream > since:
            pins[sync.downstream] = sync.upstream
            older = syncs.inverse(sync.downstream - 1)
            sync = older.sync if older else None
        low, most = since, limits.guard + limits.scan
        records = None
        if sync:
            low = max(target.start, sync.downstream)
            records = target.span(low, target.end, most)
        if sync and records is not None:
            pins[sync.downstream] = sync.upstream
        if records is None:
            low = since
            records = target.span(low, target.end, most) or Stretch([], [])
        lowest = min(pins.values(), default=source.end)
        before, behind = source.before(lowest, len(records)), source.read(lowest, 2 * most)
        span = search.covered(before, behind, (len(records), 2 * most))
        copies = map_copies(
            SourceIndex(before + behind, span), records, pins=pins, traits=search.traits, limit=source.end
        )
        self.places = Places(copies, end=position_behind(copies, records, target.end))
        self._is_whole = low <= target.start
        self._has_originals = bool(pins) and span[1] >= source.end

    def covers(self, committed: int) -> bool:
        """True if records before what was read cannot matter for a committed offset."""
        if not self._has_originals:
            return False
        return (self._is_whole and self.places.is_known) or self.places.covers(committed)


class ContentSearch:
    """Positions in one partition by the content of its records."""

    def __init__(
        self,
        source: SharedReads[Content],
        target: SharedReads[Content],
        syncs: SyncHistory,
        *,
        limits: SearchLimits,
        traits: CopyTraits,
    ) -> None:
        self.source, self.target = source, target
        self.limits, self.traits = limits, traits
        self.guarded_from = max(target.start, target.end - limits.guard)
        """From this target offset on a replay may be under way."""
        self._syncs = syncs
        self._segments: dict[tuple[int, int], _Segment] = {}
        self._tail: _Tail | None = None
        self._equal_tails: tuple[Stretch[Content], Stretch[Content]] | None = None
        self._is_tail_compared = False

    def find(self, committed: int) -> Finding | None:
        """Return the best that prediction and scan find for a committed offset; none without an anchor.

        If its place is exact, it is proven. If not, nothing is known of what lies behind ``low``. Below the
        source's log start there is nothing to compare, while the target may have copies still."""
        segment = self._segment(committed) if committed >= self.source.start else None
        if segment is None:
            return None
        best = None
        for method in (self._by_prediction, self._by_scan):
            finding = method(segment, committed)
            if finding and self._is_safe(finding.place.high):
                finding = self._narrowed(finding, committed)
                if finding.place.is_exact:
                    return finding
            best = best or finding
        if segment.target_end > self.guarded_from:
            by_tail = self._by_tail(committed)
            if by_tail:
                return by_tail
            best = best and best._replace(place=Place(best.place.low, OPEN))
        return best

    def covered(
        self, before: Stretch[Content], behind: Stretch[Content], limits: tuple[int, int]
    ) -> tuple[int, int]:
        """Which source offsets two reads of at most so many records cover. Where fewer came, the log ended;
        below its start there is nothing, and that is known."""
        is_cut = len(behind) >= limits[1] and behind.offsets
        low = before.offsets[0] if before.offsets and len(before) >= limits[0] else 0
        return low, behind.offsets[-1] + 1 if is_cut else self.source.end

    def _segment(self, committed: int) -> _Segment | None:
        anchor = self._syncs.anchor(committed)
        if anchor is None:
            return None
        # a sync of the committed offset itself is the anchor, so the segment ends at the one behind it
        following = self._syncs.next_sync(committed + 1)
        if following and following.downstream <= anchor.downstream:
            return None
        at = (anchor.downstream, following.downstream if following else -1)
        if at not in self._segments:
            self._segments[at] = _Segment(self, anchor, following)
        return self._segments[at]

    def _narrowed(self, finding: Finding, committed: int) -> Finding:
        """Where no replay is under way, the position is not below the conservative offset either."""
        lowest = self._syncs.conservative(committed)
        if lowest is None or not finding.place.low < lowest.offset <= finding.place.high:
            return finding
        return finding._replace(place=Place(lowest.offset, finding.place.high))

    def _is_safe(self, x: int) -> bool:
        """True if no replay can be under way behind ``x`` that has not passed what lies before it."""
        return x <= self.guarded_from or self._tails() is not None

    def _tails(self) -> tuple[Stretch[Content], Stretch[Content]] | None:
        """Both logs from the newest sync to their ends, if they are equal, record by record."""
        if not self._is_tail_compared:
            self._is_tail_compared = True
            newest = self._syncs.newest
            if newest and not self.traits.drops_records:
                source = self.source.span(newest.upstream, self.source.end, self.limits.scan)
                target = self.target.span(newest.downstream, self.target.end, self.limits.scan)
                if source and target and source.keys == target.keys:
                    self._equal_tails = source, target
        return self._equal_tails

    def _by_prediction(self, segment: _Segment, committed: int) -> Finding | None:
        if segment.following is None:
            x = self._by_equal_tails(segment, committed)
        elif segment.source is None or self.traits.drops_records:
            return None  # a count proves nothing where records may have been left out
        else:
            x = predict(
                segment.source,
                committed,
                self.target,
                bounds=(segment.anchor.downstream, segment.following.downstream),
                neighbours=self.limits.neighbours,
            )
        return None if x is None else Finding(Method.PREDICTION, Place(x, x))

    def _by_equal_tails(self, segment: _Segment, committed: int) -> int | None:
        """Behind the newest sync: the record at the same place, or the log end behind the last one."""
        tails = self._tails()
        if tails is None or segment.anchor != self._syncs.newest:
            return None
        source, target = tails
        at = bisect_left(source.offsets, committed)
        return target.offsets[at] if at < len(target) else self.target.end

    def _by_scan(self, segment: _Segment, committed: int) -> Finding | None:
        places = segment.places
        return None if places is None else Finding(Method.SCAN, places.at(committed))

    def _by_tail(self, committed: int) -> Finding | None:
        if self._tail is None:
            self._tail = _Tail(self, self._syncs)
        if not self._tail.covers(committed):
            return None
        return Finding(Method.SCAN, self._tail.places.at(committed), is_replay=self._tail.places.is_replay)
