"""What is not as it must be of a captured release, in sentences, and what is in its log.

Each function is one test in tests/matrix and one line of that in tests/live; they assert that there is
nothing to say, and that there was something to compare.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from groupshift.log import LogRecord
from groupshift.log.group_states import GroupFamily
from support.equal_maps import differences
from support.release_capture import Captured
from support.release_dump import fields, shape_of

LASTING = frozenset(
    ("classic", "sticky", "left", "workers", "simple", "simple-5", "expiring", "orphaned", "thinned")
)
"""Groups that every release has at the end."""
REMOVED = frozenset(("expired", "deleted", "native-deleted"))
"""Groups of which tombstones are left."""
STAYING = frozenset(("classic", "sticky", "workers"))
"""Classic groups that have members at the end in every release."""
_GROUPS = {
    "consumer": ("native", "emptied", "mixed"),
    "share": ("shared",),
    "streams": ("streaming",),
}
"""Groups that are there at the end where the release has their kind."""
_TYPES = {"consumer": {3, 5, 6, 7, 8}, "share": {10, 11, 12, 13, 14, 15}, "streams": {17, 19, 20, 21, 22, 23}}
_OF_MEMBERS = {"consumer": {5, 7, 8}, "share": {10, 13, 14}, "streams": {19, 21, 22}}
_EARLY_SHARE = {9, 10, 11, 12, 13, 14}
"""Share groups in early access: their topics in type 9, and no type 15 yet."""


def unlike_answers(found: Captured) -> list[str]:
    """Groups of which the broker tells otherwise than its log: any field that it tells, any group that only
    one of the two has, and any generation whose heartbeat it refuses (or takes, of the next one)."""
    taken_and_next_refused = dict.fromkeys(found.generations, (True, False))
    return [
        *differences(found.decoded, found.answered),
        *(f"generation of {each}" for each in differences(found.generations, taken_and_next_refused)),
    ]


def unlike_domain(found: Captured) -> list[str]:
    """What the Spark jobs' transforms and our fetches give otherwise than the decoder and the files, and
    what the decoder could not place."""
    in_domain = {
        name: (group.family.value, group.epoch, list(group.members), sum(one.live for one in group.commits))
        for name, group in found.state.groups.items()
    }
    fetched = found.visible if found.fetched is None else found.fetched
    state = found.state
    return [
        *differences(found.rows, found.columns),
        *differences(found.in_spark, in_domain),
        *(f"fetched: {each}" for each in differences(_placed(fetched), _placed(found.visible))),
        *(f"out of place: {each}" for each in (*state.unknown, *state.unreadable, *state.foreign_commits)),
    ]


def _placed(records: Iterable[LogRecord]) -> dict[tuple[int, int], LogRecord]:
    return {(one.partition, one.offset): one for one in records}


def unlike_dump(found: Captured) -> list[str]:
    """Records whose sizes, times or fields the release's own tool prints otherwise than we decode them, and
    offsets of which it prints nothing."""
    shape = shape_of(found.release.numbers)
    printed = {(line.partition, line.offset): line for line in found.text if line.marker is None}
    sizes = {
        at: (one.record_ts, len(one.raw_key), -1 if one.raw_value is None else len(one.raw_value))
        for at, one in found.records.items()
    }
    told = {at: (line.timestamp_ms, line.key_size, line.value_size) for at, line in printed.items()}
    decoded = {at: fields(one, shape) for at, one in found.records.items()}
    return [
        *differences(sizes, told),
        *differences(decoded, {at: line.fields for at, line in printed.items()}),
        *_gaps(found),
    ]


def _gaps(found: Captured) -> list[str]:
    """Offsets that are not printed once, up to the last one of each partition."""
    places: dict[int, list[int]] = {}
    for line in found.text:
        places.setdefault(line.partition, []).append(line.offset)
    return [
        f"partition {number}: the offsets printed are {sorted(offsets)}"
        for number, offsets in places.items()
        if sorted(offsets) != list(range(len(offsets)))
    ]


def kinds_in(found: Captured) -> set[str]:
    """Kinds of groups that the log holds, ``transactions`` among them where both markers are there and the
    aborted records are seen by no reader of decided ones."""
    families = {group.family.value for group in found.state.groups.values()}
    markers = {line.marker for line in found.text if line.marker}
    hidden = len(found.records) > len(found.visible)
    return families | ({"transactions"} if markers == {"ABORT", "COMMIT"} and hidden else set())


def lacking(found: Captured, kind: str) -> list[str]:
    """What the log does not have of a kind: its groups, live records of its types, tombstones of members."""
    types = _EARLY_SHARE if found.release.early_share and kind == "share" else _TYPES.get(kind, set())
    live = {one.record_type for one in found.records.values() if not one.is_tombstone}
    gone = {one.record_type for one in found.records.values() if one.is_tombstone}
    groups: dict[str, Any] = {
        name: (group.family, found.answered.get(name, {}).get("type"))
        for name, group in found.state.groups.items()
    }
    return [
        *(
            f"group {name}: decoded and answered {groups.get(name)}"
            for name in _GROUPS.get(kind, ())
            if groups.get(name) != (GroupFamily(kind), kind)
        ),
        *(f"no live record of type {number}" for number in sorted(types - live)),
        *(f"no tombstone of type {number}" for number in sorted(types & _OF_MEMBERS.get(kind, set()) - gone)),
    ]
