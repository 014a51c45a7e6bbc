"""What a member does with the partitions it holds, in the cases that rarely happen."""

from __future__ import annotations

import time

from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import OffsetNode

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_late_writer_is_overwritten_also_on_an_idle_partition(bench) -> None:
    """O6: an old member's late commit must not rewind the next owner, even if nothing was read since."""
    member = bench.join(1)
    bench.settle()
    member.read()
    member.reconciler.commit(dict.fromkeys(bench.ends, 4))
    member.step()
    assert bench.zookeeper.offsets[P0] == OffsetNode(value=4, version=bench.zookeeper.offsets[P0].version)
    late = OffsetNode(value=1, version=bench.zookeeper.offsets[P0].version + 1)
    bench.zookeeper.offsets[P0] = late
    bench.zookeeper.partitions = {"t": (1, 2, 3)}
    bench.zookeeper.tell()
    member.step()
    assert P0 not in bench.zookeeper.owners
    assert bench.zookeeper.offsets[P0].value == 4


def test_a_position_out_of_range_is_reset_as_soon_as_its_leader_answers(bench, monkeypatch) -> None:
    """§6.5: until then it is asked for again, and the rest goes on and is committed."""
    member = bench.join(1)
    bench.settle()
    resolve, down = member.fetch.offsets_at, [True]
    member.fetch.offsets_at = lambda asked, to: {} if down[0] else resolve(asked, to)
    member.reconciler.out_of_range(P0)
    member.step()
    assert member.reconciler._sleep_s() <= 0.2
    assert [each.where for each in member.read()].count(P1) == 4
    down[0] = False
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 0.3)
    member.step()
    member.pump()
    member.pump()
    assert [each.at for each in member.read() if each.where == P0] == [0, 1, 2, 3]
    assert member.reconciler._loop.left("lookups") is None


def test_partitions_come_and_go_with_their_topic(bench) -> None:
    """Added ones are taken, those of a deleted topic released; nothing is asked for in a loop."""
    member = bench.join(1)
    bench.settle()
    bench.ends[TopicPartition("t", 4)] = 2
    bench.zookeeper.partitions = {"t": (0, 1, 2, 3, 4)}
    bench.zookeeper.tell()
    bench.settle()
    assert TopicPartition("t", 4) in member.reconciler.held()
    bench.zookeeper.partitions = {"t": ()}
    bench.zookeeper.tell()
    bench.settle()
    assert member.reconciler.held() == frozenset()
    assert bench.zookeeper.owners == {}
    assert member.reconciler._sleep_s() > 0


def test_a_rebalance_is_counted_once_it_is_over(bench) -> None:
    """From the first difference to the last partition delivered; commits by partition."""
    member = bench.join(1)
    bench.settle()
    counters = member.parts.counters
    assert counters.rebalances == 1
    assert counters.rebalance_s > 0
    member.read()
    bench.join(2)
    bench.settle()
    assert counters.rebalances == 2
    assert counters.zookeeper_commits >= 2


def test_a_partition_that_another_member_keeps_is_told_to_people(bench, monkeypatch) -> None:
    """Members that compute different assignments contend for ever: one of them has to say so."""
    bench.zookeeper.owners[P0] = ("g_x-0", 99)
    member = bench.join(1)
    bench.settle()
    assert member.reconciler.alarms == ()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 31.0)
    member.step()
    assert [alarm for alarm in member.reconciler.alarms if "t-0" in alarm and "text.form" in alarm]
    bench.zookeeper.expire(99)
    member.step()
    member.step()
    assert member.reconciler.alarms == ()
    assert P0 in member.reconciler.held()


def test_a_commit_that_goes_back_is_what_is_left_to_the_next_owner(bench) -> None:
    """Without auto commit the application says where to go on, in both modes; F8."""
    bench.group.offsets[P0] = 4
    bench.zookeeper.offsets[P0] = OffsetNode(value=4, version=0)
    member = bench.join(1, auto_commit=False)
    bench.settle()
    member.reconciler.commit({P0: 1})
    member.step()
    bench.zookeeper.partitions = {"t": (1, 2, 3)}
    bench.zookeeper.tell()
    member.step()
    assert P0 not in bench.zookeeper.owners
    assert (bench.zookeeper.offsets[P0].value, bench.group.offsets[P0]) == (1, 1)


def in_kafka_mode(bench):
    """A member that has read everything."""
    member = bench.join(1)
    bench.zookeeper.toggle(Mode.KAFKA)
    bench.settle()
    assert len(member.read()) == 16
    return member


def test_who_was_evicted_and_is_a_member_again_commits_nothing_of_before(bench) -> None:
    """D3, also when both are noted at once: in between a plain consumer may have gone on."""
    member = in_kafka_mode(bench)
    bench.group.offsets = dict.fromkeys(bench.ends, 9)
    member.reconciler.lost()
    member.reconciler.assigned(frozenset({P0}))
    member.step()
    assert not member.delivery.lease.holds(time.monotonic())
    assert set(bench.group.offsets.values()) == {9}
    assert member.reconciler.held() == frozenset()
    member.step()
    assert member.reconciler.held() == {P0}
    assert member.delivery.next_offsets() == {P0: 9}


def test_a_commit_that_was_answered_before_the_eviction_is_no_proof_afterwards(bench) -> None:
    """The eviction may be noted first."""
    member = in_kafka_mode(bench)
    commit = member.membership.commit

    def evicted_meanwhile(offsets, timeout):
        commit(offsets, timeout)
        member.reconciler.lost()

    member.membership.commit = evicted_meanwhile
    member.reconciler.commit({P0: 4})
    member.reconciler._loop.receive(0)
    assert not member.delivery.lease.holds(time.monotonic())
