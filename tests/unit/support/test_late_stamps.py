"""Which overlaps a stamp that came late explains, and which it does not."""

from __future__ import annotations

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.ledger import Delivery, overlaps
from support.late_stamps import second_owners

P0 = TopicPartition("orders", 0)


def _given(member: str, *stamps: tuple[int, int]) -> list[Delivery]:
    """What it was delivered: (offset, time)."""
    return [Delivery(member=member, partition=P0, offset=offset, at_ms=at) for offset, at in stamps]


def test_the_last_record_of_the_old_owner_stamped_late_is_explained() -> None:
    """While the next one reads on from there."""
    told = _given("old", (1, 10), (2, 35)) + _given("new", (3, 30), (4, 40))
    assert overlaps(told) != []
    assert second_owners(told, {"old"}) == []


def test_the_same_of_a_member_without_a_pipe_is_a_second_owner() -> None:
    """Its stamps are of the moment."""
    told = _given("old", (1, 10), (2, 35)) + _given("new", (3, 30), (4, 40))
    assert second_owners(told, {"new"}) == overlaps(told)


def test_a_former_owner_that_goes_forward_from_there_is_a_second_owner() -> None:
    """Its records come twice."""
    told = _given("old", (1, 10), (2, 20), (3, 45), (4, 55)) + _given(
        "new", (3, 30), (4, 40), (5, 50), (6, 60)
    )
    assert {(one.member, one.intruder) for one in second_owners(told, {"old"})} == {
        ("new", "old"),
        ("old", "new"),
    }


def test_one_that_begins_anew_before_the_run_of_the_owner_is_a_second_owner() -> None:
    """Though it never reaches that run: somebody had its records before."""
    told = _given("first", (1, 1), (2, 2)) + _given("new", (3, 10), (4, 30), (5, 50))
    told += _given("old", (1, 20), (2, 40))
    assert {one.intruder for one in second_owners(told, {"old"})} == {"old"}
