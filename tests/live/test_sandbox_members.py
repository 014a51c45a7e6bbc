"""Real Scala members on real servers, and the faults tests use on them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from groupshift.audit.ownership import Ended
from groupshift_sandbox import faults, legacy
from groupshift_sandbox.processes import is_running, wait_until
from support.group_log import GroupLog


@pytest.mark.parametrize("release", legacy.RELEASES)
def test_a_scala_member_is_delivered_every_record_of_the_topic(
    cluster, release, topic, producer, scala_member, ledger, log_ends, group
):
    """One old consumer of each release reads all numbered records, and each offset is its sequence."""
    name = topic(4)
    writing = producer(name, 4, rate=200, count=150)
    member = scala_member(release, "m1-1", [name], seed=4)
    wait_until(lambda: sum(log_ends(name, 4).values()) == 600, 90, "600 records written", every_s=0.2)
    ledger.await_all(log_ends(name, 4))
    assert member.member_id == f"{group}_m1-1"
    intervals = GroupLog(cluster.home.zookeeper, group).history().intervals
    if all(each.ended is not Ended.SESSION for each in intervals):
        assert len(ledger.deliveries()) == 600
    wait_until(lambda: not faults.session_of(writing.pid), 90, "the producer ended")


def test_a_stopped_scala_member_hands_over_without_loss_or_repetition(
    cluster, topic, producer, scala_member, ledger, log_ends, group, owners
):
    """SIGTERM commits: the member that stays goes on where the other stopped."""
    name = topic(2)
    producer(name, 2, rate=50)
    first = scala_member("1.1.1", "m1-1", [name], seed=2)
    second = scala_member("0.10.2.2", "m2-1", [name])
    wait_until(
        lambda: (
            {owner.rpartition("-")[0] for owner in owners(name).values()}
            == {first.member_id, second.member_id}
        ),
        90,
        "one partition each",
    )
    wait_until(
        lambda: len(first.deliveries()) > 20 < len(second.deliveries()), 90, "both are delivered records"
    )
    first.stop()
    ends = {partition: end + 20 for partition, end in log_ends(name, 2).items()}
    ledger.await_all(ends)
    log, old = GroupLog(cluster.home.zookeeper, group), [first.member_id, second.member_id]
    log.assert_no_overlap(ledger.deliveries(), old=old)
    log.assert_fenced(ledger.deliveries(), ends, old=old)
    assert not first.running


def test_an_expired_session_takes_the_members_nodes_and_it_comes_back(
    cluster, topic, producer, scala_member, kazoo, group, owners
):
    """Ending a foreign session on the server removes its ephemerals; the old consumer registers again."""
    name = topic(1)
    producer(name, 1)
    member = scala_member("1.1.1", "m1-1", [name], seed=1)
    path = f"/consumers/{group}/ids/{member.member_id}"
    wait_until(lambda: owners(name) == {0: f"{member.member_id}-0"}, 90, "owner node there")
    session = kazoo.exists(path).owner_session_id
    faults.expire_session(cluster.zookeeper, session)
    wait_until(
        lambda: (stat := kazoo.exists(path)) is not None and stat.owner_session_id != session,
        90,
        "registered under a new session",
    )
    wait_until(lambda: owners(name) == {0: f"{member.member_id}-0"}, 90, "owner node again")
    assert kazoo.exists(path).owner_session_id != session
    assert member.running


def test_the_producer_keeps_sequence_and_offset_equal_over_a_broker_restart(
    cluster, topic, producer, scala_member, ledger, log_ends
):
    """It checks every delivery report itself: a clean end means that none differed."""
    name = topic(2)
    writing = producer(name, 2, rate=100, count=600)
    scala_member("1.1.1", "m1-1", [name], seed=2)
    wait_until(lambda: min(log_ends(name, 2).values()) > 50, 90, "records written")
    faults.restart_server(cluster.home, "kafka")
    wait_until(lambda: not is_running(writing), 90, "producer ended by itself", every_s=0.2)
    assert set(log_ends(name, 2).values()) == {600}
    ledger.await_all(log_ends(name, 2))
    log = (cluster.home.logs / f"producer-{name}.log").read_text()
    assert "somebody else writes" not in log


def test_a_second_producer_goes_on_where_the_first_ended(topic, producer, scala_member, ledger, log_ends):
    """Its first sequence is the log end."""
    name = topic(1)
    for total in (50, 100):
        writing = producer(name, 1, rate=500, count=50)
        wait_until(lambda writing=writing: not is_running(writing), 90, "producer ended")
        assert sum(log_ends(name, 1).values()) == total
    scala_member("0.10.2.2", "m1-1", [name], seed=1)
    ledger.await_all(log_ends(name, 1))


def test_a_producer_that_is_not_alone_says_so(cluster, topic, producer, log_ends):
    """Records of somebody else would make offsets differ from sequences: it ends with one sentence."""
    name = topic(1)
    writing = producer(name, 1, rate=50)
    wait_until(lambda: log_ends(name, 1).popitem()[1] > 10, 90, "records written")
    intruder = Producer({"bootstrap.servers": cluster.bootstrap})
    intruder.produce(name, b"mine", partition=0)
    intruder.flush(60)
    wait_until(lambda: not is_running(writing), 90, "producer ended")
    assert "somebody else writes to this topic" in (cluster.home.logs / f"producer-{name}.log").read_text()


def test_a_killed_scala_member_leaves_no_process_and_its_successor_takes_over(
    cluster, topic, producer, scala_member, ledger, log_ends, group, owners
):
    """Kill -9 takes recorder and JVM; after the session's end the other member owns everything, and goes on
    where the killed one had committed: what its recorder never wrote down (§6.6), that one passed over."""
    name = topic(2)
    producer(name, 2, rate=50)
    first = scala_member("1.1.1", "m1-1", [name], seed=2)
    wait_until(lambda: len(owners(name)) == 2, 90, "m1 owns both")
    second = scala_member("0.10.2.2", "m2-1", [name])
    wait_until(lambda: len(set(owners(name).values())) == 2, 90, "one partition each")
    faults.kill(first.process)
    assert faults.session_of(first.process.pid) == []
    wait_until(lambda: set(owners(name).values()) == {f"{second.member_id}-0"}, 90, "m2 owns both")
    log, ends = GroupLog(cluster.home.zookeeper, group), log_ends(name, 2)
    log.assert_delivered(ledger.deliveries, ends, old=[first.member_id])
    delivered = {each.partition for each in second.deliveries() if each.offset == ends[each.partition] - 1}
    assert delivered == set(ends)
