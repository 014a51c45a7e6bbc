"""What must be equal of a captured release; each check is one test in tests/live and in tests/matrix."""

from __future__ import annotations

from equal_maps import assert_equal
from groupshift.domain.coordinator_log.records import DecodeStatus
from groupshift.domain.coordinator_log.state import GroupFamily
from release_capture import Captured
from release_dump import fields, shape_of

GROUPS = {
    "transactions": (),
    "consumer": ("native", "emptied", "mixed"),
    "share": ("shared",),
    "streams": ("streaming",),
}
"""Groups that are there at the end where the release has their kind."""
_CLASSIC = ("classic", "sticky", "left", "workers", "simple", "simple-5", "expiring", "orphaned", "thinned")
_TYPES = {"consumer": {3, 5, 6, 7, 8}, "share": {10, 11, 12, 13, 14, 15}, "streams": {17, 19, 20, 21, 22, 23}}
_OF_MEMBERS = {"consumer": {5, 7, 8}, "share": {10, 13, 14}, "streams": {19, 21, 22}}
_EARLY_SHARE = {9, 10, 11, 12, 13, 14}
"""Share groups in early access: their topics in type 9, and no type 15 yet."""


def check_answers(found: Captured) -> None:
    """Every group that the broker knows, and no other, with every field that it tells."""
    assert_equal(found.decoded, found.answered)
    assert set(_CLASSIC) <= set(found.answered)
    assert not {"expired", "deleted", "native-deleted"} & set(found.answered)
    assert {"classic", "sticky", "workers"} <= set(found.generations)
    assert set(found.generations.values()) == {(True, False)}


def check_spark(found: Captured) -> None:
    """The same columns and state by the Spark jobs' transforms; fetching reads what the files hold."""
    assert_equal(found.rows, found.columns)
    assert found.in_spark == {
        name: (group.family.value, group.epoch, list(group.members), sum(one.live for one in group.commits))
        for name, group in found.state.groups.items()
    }
    assert found.fetched is None or found.fetched == found.visible
    assert found.state.unknown == found.state.unreadable == found.state.foreign_commits == ()


def check_dump(found: Captured) -> None:
    """The release's own tool prints of every record what we decode of it, and of every offset something."""
    shape = shape_of(found.release.numbers)
    printed = {(line.partition, line.offset): line for line in found.text if line.marker is None}
    assert {one.decode_status for one in found.records.values()} == {DecodeStatus.OK}
    assert_equal(
        {
            at: (one.record_ts, len(one.raw_key), -1 if one.raw_value is None else len(one.raw_value))
            for at, one in found.records.items()
        },
        {at: (line.timestamp_ms, line.key_size, line.value_size) for at, line in printed.items()},
    )
    assert_equal(
        {at: fields(one, shape) for at, one in found.records.items()},
        {at: line.fields for at, line in printed.items()},
    )
    places = sorted([*printed, *((line.partition, line.offset) for line in found.text if line.marker)])
    assert places == [
        (number, offset)
        for number in sorted({at for at, _ in places})
        for offset in range(1 + max(offset for at, offset in places if at == number))
    ]


def check_kind(found: Captured, kind: str) -> None:
    """The story has what it claims to have: records of this kind, live ones and tombstones."""
    if kind == "transactions":
        markers = [line.marker for line in found.text if line.marker]
        assert sorted(set(markers)) == ["ABORT", "COMMIT"]
        assert len(found.records) > len(found.visible)
        return
    family = GroupFamily(kind)
    for name in GROUPS[kind]:
        assert found.state.groups[name].family is family
        assert found.answered[name]["type"] == kind
    live = {one.record_type for one in found.records.values() if not one.is_tombstone}
    early = found.release.early_share and kind == "share"
    types = _EARLY_SHARE if early else _TYPES[kind]
    assert live >= types, f"live records of the types {sorted(live)} only"
    gone = {one.record_type for one in found.records.values() if one.is_tombstone}
    assert gone >= _OF_MEMBERS[kind] & types, f"tombstones of the types {sorted(gone)} only"
