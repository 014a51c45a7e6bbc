"""What the account of a fleet makes of its members' events (`support.protocol_fleet`)."""

from __future__ import annotations

from typing import Any

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.client_members.events import MemberEvent, Owned, gaps
from support.protocol_fleet import account

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def event(at_ms: int, member: str, name: str, **fields: Any) -> MemberEvent:
    """One line."""
    return MemberEvent(at_ms=at_ms, member=member, event=name, fields=fields)


def given(at_ms: int, member: str, *partitions: int) -> MemberEvent:
    """These partitions of the topic are assigned."""
    return event(at_ms, member, "assigned", partitions=[["t", each] for each in partitions])


def taken(at_ms: int, member: str, *partitions: int) -> MemberEvent:
    """These are revoked."""
    return event(at_ms, member, "revoked", partitions=[["t", each] for each in partitions])


def records(at_ms: int, member: str, partition: int, first: int, last: int) -> MemberEvent:
    """A run of offsets is delivered."""
    return event(at_ms, member, "records", topic="t", partition=partition, first=first, last=last)


def test_a_clean_hand_over_leaves_a_gap_and_nothing_else() -> None:
    """m1 has both, gives them up, and m2 takes them at different times."""
    told = [
        given(10, "m1", 0, 1),
        records(20, "m1", 0, 0, 4),
        taken(30, "m1", 0, 1),
        event(31, "m1", "closed", code=0),
        given(40, "m2", 0),
        given(70, "m2", 1),
        records(80, "m2", 0, 5, 9),
        records(90, "m2", 1, 0, 9),
    ]
    found = account(told, {P0: 10, P1: 10})
    assert (found.lost, found.repeated, found.repeated_within) == ({}, {}, {})
    assert (found.overlaps, found.fatal) == ([], [])
    assert found.unowned_ms == {P0: [10], P1: [40]}
    assert (found.all_unowned_ms, found.longest_unowned_ms) == ([10], 40)


def test_lost_and_repeated_records_are_named() -> None:
    """One that came to nobody, one that came again after a hand-over, one without a hand-over."""
    told = [
        given(10, "m1", 0),
        records(20, "m1", 0, 0, 4),
        records(21, "m1", 0, 2, 2),
        taken(30, "m1", 0),
        given(40, "m2", 0),
        records(50, "m2", 0, 4, 5),
        records(60, "m2", 0, 7, 7),
    ]
    found = account(told, {P0: 9, P1: 1})
    assert found.lost == {P0: [6, 8], P1: [0]}
    assert found.repeated == {P0: {2: 1, 4: 1}}
    assert found.repeated_within == {P0: [2]}


def test_two_owners_at_one_time_are_an_overlap() -> None:
    """Also when the former one was killed and could not tell."""
    told = [given(10, "m1", 0), given(20, "m2", 0), taken(30, "m1", 0)]
    assert [(at, former.member, later.member) for at, former, later in account(told, {P0: 0}).overlaps] == [
        (P0, "m1", "m2")
    ]
    killed = [given(10, "m1", 0), given(60, "m2", 0)]
    assert len(account(killed, {P0: 0}).overlaps) == 1
    after = account(killed, {P0: 0}, {"m1": 50})
    assert (after.overlaps, after.unowned_ms) == ([], {P0: [10]})


def test_errors_that_end_a_member_are_told_apart() -> None:
    """-150 does, though it is not called fatal; a broker that is away for a moment does not."""
    told = [
        event(1, "m1", "error", code=-195, fatal=False),
        event(2, "m1", "error", code=-150, fatal=False),
        event(3, "m2", "error", code=-1, fatal=True),
    ]
    assert [each.at_ms for each in account(told, {}).fatal] == [2, 3]


def test_gaps_are_between_owners_only() -> None:
    """Not before the first, not after the last, and not while one of two goes on."""
    owners = [
        Owned(member="m1", from_ms=10, to_ms=50),
        Owned(member="m2", from_ms=20, to_ms=30),
        Owned(member="m3", from_ms=60, to_ms=None),
        Owned(member="m4", from_ms=90, to_ms=95),
    ]
    assert gaps(owners) == [(50, 60)]
    assert gaps([]) == []
