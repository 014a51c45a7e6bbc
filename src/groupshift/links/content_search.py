"""Finds positions by the content of records around offset syncs: prediction, and scan.

Both work on the *segment* of a committed offset: what lies between the newest sync at or below it (its
anchor) and the next one. Near the end of the target a replay may be under way that no sync shows. There, an
answer counts only if both tails are equal from the newest sync to their ends, or if the whole end of the
target was read.

Source: docs/reference/cross-cluster-offsets.md §8, methods 3 and 4, and the replay guard (H10).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from groupshift.links.alignment import OPEN, Place, Places
from groupshift.links.fingerprints import Content
from groupshift.links.header_search import position_behind
from groupshift.links.prediction import predict
from groupshift.links.record_reads import SharedReads, Stretch
from groupshift.links.segment_scan import CopyTraits, SourceIndex, map_copies
from groupshift.links.sync_history import REPLAY_GUARD_RECORDS, Sync, SyncHistory
from groupshift.links.translation import Method


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
        records = search.target.span(self.anchor.downstream, self.target_end, search.limits.scan)
        if records is None or following is None or inside is None:
            return None
        # a replay inside the segment may have begun before it, and what it repeats may have gone beyond it
        before = search.source.before(self.anchor.upstream, len(records))
        behind = search.source.read(following.upstream, len(records))
        copies = map_copies(
            SourceIndex(before + inside + behind, search.covered(before, behind, len(records))),
            records,
            pins={self.anchor.downstream: self.anchor.upstream},
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
        low = since
        if sync:
            pins[sync.downstream] = sync.upstream
            low = max(target.start, sync.downstream)
        most = limits.guard + limits.scan
        records = target.span(low, target.end, most)
        if records is None:
            low = since
            records = target.span(low, target.end, most) or Stretch([], [])
        lowest = min(pins.values(), default=source.end)
        before, behind = source.before(lowest, len(records)), source.read(lowest, 2 * most)
        index = SourceIndex(before + behind, search.covered(before, behind, len(records), 2 * most))
        copies = map_copies(index, records, pins=pins, traits=search.traits)
        self.places = Places(copies, end=position_behind(copies, records, target.end))
        self._is_whole = low <= target.start

    def covers(self, committed: int) -> bool:
        """True if records before what was read cannot matter for a committed offset."""
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

        If its place is exact, it is proven. If not, nothing is known of what lies behind ``low``."""
        segment = self._segment(committed)
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
        self, before: Stretch[Content], behind: Stretch[Content], asked: int, asked_behind: int | None = None
    ) -> tuple[int, int]:
        """Which source offsets two reads cover; where fewer records came than asked, the log ended."""
        is_cut = len(behind) >= (asked if asked_behind is None else asked_behind) and behind.offsets
        low = before.offsets[0] if before.offsets and len(before) >= asked else self.source.start
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
        elif segment.source is None:
            return None
        else:
            x = predict(
                segment.source,
                committed,
                self.target,
                bounds=(segment.anchor.downstream, segment.following.downstream),
                neighbours=self.limits.neighbours,
                drops_records=self.traits.drops_records,
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
