"""Finds positions by the header in which the replicator wrote the source offset.

The end of the target (the replay guard) is read whole, because a replay may be under way there. Before it,
positions are found by bisection: it ends between a record below the committed offset and the next one, which
is at or above it.

Source: docs/reference/cross-cluster-offsets.md §8, method 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.links.alignment import Copy, Place, Places
from groupshift.links.record_reads import K, SharedReads, Stretch
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetHeader:
    """The header of target records that holds the source offset."""

    name: str
    encoding: HeaderEncoding = HeaderEncoding.DECIMAL

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
        if self.encoding is HeaderEncoding.INT64:
            number = int.from_bytes(value, "big", signed=True) if len(value) == _INT64 else -1
        else:
            number = int(value) if value.isdigit() and len(value) <= _DIGITS else -1
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
