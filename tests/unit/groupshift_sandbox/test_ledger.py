"""What follows from deliveries."""

from __future__ import annotations

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.ledger import Delivery, delivered, lost, overlaps

P0 = TopicPartition("orders", 0)


def _delivery(member: str, offset: int, at_ms: int) -> Delivery:
    return Delivery(member=member, partition=P0, offset=offset, at_ms=at_ms)


def test_a_hand_over_without_repetition_is_neither_overlap_nor_duplicate():
    """One member up to 2, the other from 3."""
    found = [_delivery("a", n, n) for n in range(3)] + [_delivery("b", n, n) for n in range(3, 6)]
    assert overlaps(found) == []
    assert set(delivered(found)[P0].values()) == {1}
    assert lost(found, {P0: 6}) == []


def test_a_repeated_tail_at_a_hand_over_is_a_duplicate_but_no_overlap():
    """The successor starts at the last commit, after the former owner ended."""
    found = [_delivery("a", n, n) for n in range(5)] + [_delivery("b", n, 10 + n) for n in range(3, 8)]
    assert overlaps(found) == []
    assert [at for at, times in delivered(found)[P0].items() if times > 1] == [3, 4]


def test_two_members_delivered_in_turn_overlap():
    """A delivery to b between a's offsets 1 and 2 is named."""
    found = [_delivery("a", 1, 10), _delivery("b", 1, 12), _delivery("a", 2, 14), _delivery("b", 2, 16)]
    first = overlaps(found)[0]
    assert (first.member, first.intruder, first.offset, first.at_ms) == ("a", "b", 2, 12)


def test_a_paused_member_that_goes_on_afterwards_overlaps():
    """The one who took over is between its last record and its next."""
    found = [
        _delivery("a", 1, 10),
        *(_delivery("b", n, 1000 + n) for n in range(2, 9)),
        _delivery("a", 2, 5000),
    ]
    assert len(overlaps(found)) == 7


def test_a_partition_that_comes_back_is_no_overlap():
    """a, then b, then a again at a later offset."""
    found = [_delivery("a", 1, 1), _delivery("b", 2, 2), _delivery("b", 3, 3), _delivery("a", 4, 4)]
    assert overlaps(found) == []


def test_an_offset_nobody_got_is_lost():
    """Holes and a missing end are both found."""
    found = [_delivery("a", 0, 1), _delivery("a", 2, 2)]
    assert lost(found, {P0: 4}) == [(P0, 1), (P0, 3)]
    assert delivered(found)[P0] == {0: 1, 2: 1}
