"""Who wakes old members, when, and how often."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Member
from groupshift.domain.registration import Registration
from groupshift.domain.waking_old_members import (
    NEGLECT_S,
    PATIENCE_S,
    Vigil,
    due,
    entrusted,
    neglected,
    responsible,
    watch,
)

OLD, FIRST, SECOND = "g_a", "g_m1", "g_m2"
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
THREAD = f"{OLD}-0"


def member(name: str) -> Member:
    """An aware one."""
    return Member(consumer_id=name, subscription={"t": 1}, aware=True)


def view(**changes: object) -> CoordinationView:
    """An old member and two aware ones on three partitions."""
    registration = Registration(subscription=(("t", 1),))
    base = CoordinationView(
        registrations=dict.fromkeys((OLD, FIRST, SECOND), registration),
        migration_ids=(FIRST, SECOND),
        partitions={"t": (0, 1, 2)},
    )
    return replace(base, **changes)


def test_the_first_aware_member_alone_is_responsible() -> None:
    """And only in ZooKeeper mode, with an old member there and every node readable."""
    assert responsible(member(FIRST), view(), Mode.ZOOKEEPER)
    assert not responsible(member(SECOND), view(), Mode.ZOOKEEPER)
    assert not responsible(member(FIRST), view(), Mode.KAFKA)
    assert not responsible(member(FIRST), view(problems=("x",)), Mode.ZOOKEEPER)
    assert not responsible(member(FIRST), view(migration_ids=(OLD, FIRST, SECOND)), Mode.ZOOKEEPER)
    assert not responsible(member(OLD), view(migration_ids=()), Mode.ZOOKEEPER)


def test_only_the_shares_of_old_members_are_watched() -> None:
    """Those of aware members are taken without being woken."""
    assert entrusted(member(FIRST), view()) == {P0: THREAD}


def test_a_share_must_be_free_for_longer_than_an_old_member_tries() -> None:
    """From the first sight on; an owner in between starts anew, and so does another thread."""
    first = watch(Vigil(), {P0: THREAD}, {P0}, 100.0)
    later = watch(first, {P0: THREAD}, {P0}, 105.0)
    assert not due(later, 1.0, 100.0 + PATIENCE_S)
    assert due(later, 1.0, 100.1 + PATIENCE_S)
    assert watch(later, {P0: THREAD}, set(), 106.0).free == {}
    moved = watch(later, {P0: f"{OLD}-1"}, {P0}, 106.0)
    assert not due(moved, 1.0, 101.0 + PATIENCE_S)


def test_waking_is_rate_limited() -> None:
    """However long something is free."""
    vigil = replace(watch(Vigil(), {P0: THREAD}, {P0}, 0.0), woken_at=50.0)
    assert not due(vigil, 60.0, 109.0)
    assert due(vigil, 60.0, 110.0)


def test_what_aware_members_left_free_wakes_nobody() -> None:
    """It is theirs to take."""
    assert watch(Vigil(), entrusted(member(FIRST), view()), {P1}, 0.0).free == {}


def test_a_share_that_nobody_takes_is_told_to_people() -> None:
    """Where old members are woken, that gets its time first."""
    vigil = watch(Vigil(), {P0: THREAD}, {P0}, 0.0)
    assert neglected(vigil, 0.0, PATIENCE_S) == {}
    assert neglected(vigil, 0.0, PATIENCE_S + 0.1) == {P0: THREAD}
    assert neglected(vigil, 1.0, NEGLECT_S) == {}
    assert neglected(replace(vigil, woken_at=15.0), 1.0, NEGLECT_S + 0.1) == {P0: THREAD}
    assert not due(vigil, 0.0, 100.0)
