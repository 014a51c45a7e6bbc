"""Predicts a position from the number of records since a sync, and verifies it by the records around it.

Source: docs/reference/cross-cluster-offsets.md §8, method 3.
"""

from __future__ import annotations

from groupshift.links.fingerprints import Content
from groupshift.links.record_reads import SharedReads
from groupshift.links.segment_scan import SourceIndex


def predict(
    segment: SourceIndex,
    committed: int,
    target: SharedReads[Content],
    *,
    bounds: tuple[int, int],
    neighbours: int,
    drops_records: bool,
) -> int | None:
    """Return the position for a committed offset if counts and content prove it; else none.

    ``segment`` holds the source records between two syncs, ``bounds`` the target offsets of these syncs. The
    target must have grown by one offset for each of the records: then none was left out, and nothing was
    copied twice or written by others. Up to ``neighbours`` records before and behind the position must be the
    same on both sides. If the replicator ``drops_records``, the count proves nothing; then these records may
    stand only once in the segment, or a shift by a repeated stretch would not show.
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
    if drops_records and segment.repeats(min(at, size - 1), neighbours):
        return None
    return start + at
