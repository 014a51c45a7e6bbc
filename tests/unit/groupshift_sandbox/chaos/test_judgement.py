"""What a chaos run is judged by: it must be able to fail."""

from __future__ import annotations

from dataclasses import replace

from groupshift.audit.ownership import Ended, History, Interval, OffsetWrite
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.chaos.judgement import Judged, Pause, Ran, evidence, judge
from groupshift_sandbox.ledger import Delivery

P0 = TopicPartition("t", 0)
OURS, OTHER, OLD = "g_c1-1", "g_c2-1", "g_s1-1"
SESSIONS = {OURS: 1, OTHER: 2, OLD: 3}


def owned(member: str, start: int, end: int | None = None) -> Interval:
    """An interval whose zxids are its times."""
    return Interval(
        partition=P0, thread_id=f"{member}-0", session=SESSIONS[member], start_zxid=start, start_ms=start,
        end_zxid=end, end_ms=end, ended=Ended.HELD if end is None else Ended.RELEASED,
    )  # fmt: skip


def got(member: str, offset: int, at: int) -> Delivery:
    """One delivery."""
    return Delivery(member=member, partition=P0, offset=offset, at_ms=at)


def judged(
    intervals: list[Interval],
    deliveries: list[Delivery],
    *,
    end: int,
    commits: list[OffsetWrite] | None = None,
    pauses: list[Pause] | None = None,
    calm: int = 0,
) -> Judged:
    """The verdict on these logs."""
    kinds = {OURS: MemberKind.AWARE, OTHER: MemberKind.AWARE, OLD: MemberKind.ZOOKEEPER}
    history = History(
        intervals=tuple(intervals),
        offset_writes=tuple(commits or ()),
        mode_writes=(),
        kinds=kinds,
        problems=(),
    )
    return judge(
        Ran(
            history=history,
            deliveries=deliveries,
            ends={P0: end},
            old=[OLD],
            pauses=pauses or [],
            calm_ms=calm,
        )
    )


def test_a_hand_over_in_order_is_clean():
    """Repeated records are counted, and are no fault."""
    found = judged(
        [owned(OURS, 10, 50), owned(OTHER, 60)],
        [got(OURS, 0, 20), got(OTHER, 0, 70), got(OTHER, 1, 71)],
        end=2,
    )
    assert (found.lost, found.outside, found.repeated, found.owned_s) == ((), (), 1, 0.06)


def test_a_record_that_nobody_got_is_lost():
    """Whoever owned the partition."""
    assert judged([owned(OURS, 10)], [got(OURS, 1, 20)], end=2).lost == ((P0, 0),)


def test_a_delivery_after_the_release_is_outside():
    """Also when nobody else owned the partition then."""
    found = judged([owned(OURS, 10, 50)], [got(OURS, 0, 51)], end=1)
    assert [each.at_ms for each in found.outside] == [51]
    assert any("outside" in line for line in evidence(found))


def test_only_the_first_call_after_a_pause_is_counted_apart():
    """One call bears one stamp."""
    pause = Pause(member=OURS, stopped_ms=40, resumed_ms=100)
    late = [got(OURS, 0, 101), got(OURS, 1, 101), got(OURS, 2, 105)]
    found = judged([owned(OURS, 10, 50), owned(OTHER, 60)], late, end=3, pauses=[pause])
    assert [each.offset for each in found.in_flight] == [0, 1]
    assert [each.offset for each in found.outside] == [2]


def test_a_session_closed_at_the_server_is_an_excuse_only_while_nobody_owns_the_partition():
    """And only for the moment until the member is told."""
    closed = replace(owned(OURS, 10, 50), ended=Ended.SESSION)
    early, late, overlapping = got(OURS, 0, 60), got(OURS, 1, 300), got(OURS, 2, 75)
    found = judged([closed, owned(OTHER, 70, 80)], [early, late, overlapping], end=3)
    assert found.untold == (early,)
    assert found.outside == (late, overlapping)


def test_what_an_old_member_commits_and_never_prints_is_its_own_flaw():
    """The commit that passed over the record says who had it."""
    by_old = OffsetWrite(partition=P0, offset=1, session=3, zxid=20, at_ms=20)
    by_ours = OffsetWrite(partition=P0, offset=1, session=1, zxid=20, at_ms=20)
    assert judged([owned(OLD, 10)], [], end=1, commits=[by_old]).lost_old == ((P0, 0),)
    assert judged([owned(OURS, 10)], [], end=1, commits=[by_ours]).lost == ((P0, 0),)


def test_a_partition_that_stays_without_owner_is_never_owned():
    """The figure is infinite, not small."""
    assert judged([owned(OURS, 10, 50)], [got(OURS, 0, 20)], end=1, calm=60).owned_s == float("inf")
    assert judged([owned(OURS, 1_000)], [got(OURS, 0, 1_020)], end=1, calm=600).owned_s == 0.4
