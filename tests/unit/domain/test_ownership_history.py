"""Who owned what when, from observations and from the audit; and the lag."""

from __future__ import annotations

from groupshift.domain.ownership_history import (
    Observation,
    OwnershipInterval,
    Position,
    audited,
    hand_overs,
    intervals_from,
    lags,
)
from groupshift.domain.partitions import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def look(at_ms: int, **owners: tuple[str, ...]) -> Observation:
    """Owners of partitions 0 (``a``) and 1 (``b``)."""
    names = {"a": P0, "b": P1}
    return Observation(at_ms=at_ms, what="look", owners={names[key]: who for key, who in owners.items()})


def spans(intervals: tuple[OwnershipInterval, ...]) -> list[tuple[int, str, int, int]]:
    """Partition, member, from, to."""
    return [(t.partition.partition, t.member, t.start_ms, t.end_ms) for t in intervals]


def test_a_tenure_lasts_from_the_first_to_the_last_look() -> None:
    """Nothing is said about the time between two looks with different owners, or without any."""
    found = intervals_from([look(0, a=("m1",)), look(10, a=("m1",)), look(20, a=("m2",)), look(30, a=())])
    assert spans(found) == [(0, "m1", 0, 10), (0, "m2", 20, 20)]


def test_two_owners_at_once_are_two_tenures_and_absent_partitions_none() -> None:
    """A look that does not know a partition says nothing of it."""
    found = intervals_from([look(0, a=("m1", "m2"), b=("m3",)), look(10, a=("m1",)), look(20, b=("m3",))])
    assert spans(found) == [(0, "m1", 0, 0), (0, "m2", 0, 0), (0, "m1", 10, 10), (1, "m3", 0, 20)]


def change(partition: int, who: tuple[str, str], released: int, taken: int) -> dict[str, object]:
    """One hand-over as ``audit.json`` has it."""
    return {
        "topic": "orders", "partition": partition, "from": who[0], "to": who[1],
        "released_ms": released, "taken_ms": taken, "unowned_ms": taken - released,
    }  # fmt: skip


def test_an_audit_gives_every_owner_to_the_millisecond() -> None:
    """The first one from the start, the last one to the end, and the time between them."""
    found = audited([change(0, ("m2", "m1"), 60, 70), change(0, ("m1", "m2"), 20, 25)], 0, 100)
    assert spans(found) == [(0, "m1", 0, 20), (0, "m2", 25, 60), (0, "m1", 70, 100)]
    assert [each.unowned_ms for each in found] == [None, 5, 10]
    assert audited([change(0, ("m1", "m2"), 20, 25)], 200, 300)[-1].member == "m2"
    assert all(each.end_ms >= each.start_ms for each in found)


def test_hand_overs_are_counted_per_partition() -> None:
    """The same member again is none."""
    found = audited([change(0, ("m1", "m2"), 20, 25), change(1, ("m1", "m1"), 20, 25)], 0, 100)
    assert hand_overs(found) == {P0: 1, P1: 0}


def test_the_lag_is_that_of_known_offsets() -> None:
    """In all and at worst; partitions without a committed offset are counted apart."""
    positions = {P0: Position(committed=5, end=9), P1: Position(committed=None, end=100)}
    (found,) = lags([Observation(at_ms=1, what="look", owners={}, positions=positions)])
    assert (found.total, found.worst, found.worst_at, found.unknown) == (4, 4, P0, 1)
    assert lags([look(1, a=())]) == ()
    assert Position(committed=9, end=5).lag == 0
