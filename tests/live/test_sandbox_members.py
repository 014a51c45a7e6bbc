"""Real Scala members on real servers, and the faults tests use on them."""

from __future__ import annotations

import pytest

from groupshift.sandbox import faults, legacy
from groupshift.sandbox.processes import wait_until


@pytest.mark.parametrize("release", legacy.RELEASES)
def test_a_scala_member_is_delivered_every_record_of_the_topic(
    release, topic, producer, scala_member, ledger, log_ends, group
):
    """One old consumer of each release reads all numbered records, and each offset is its sequence."""
    name = topic(4)
    writing = producer(name, 4, rate=200, count=150)
    member = scala_member(release, "m1-1", [name], seed=4)
    wait_until(lambda: sum(log_ends(name, 4).values()) == 600, 60, "600 records written", every_s=0.2)
    ledger.await_all(log_ends(name, 4))
    assert member.member_id == f"{group}_m1-1"
    assert len(ledger.deliveries()) == 600
    assert not faults.session_of(writing.pid)


def test_a_stopped_scala_member_hands_over_without_loss_or_repetition(
    topic, producer, scala_member, ledger, log_ends, owners
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
        40,
        "one partition each",
    )
    wait_until(
        lambda: len(first.deliveries()) > 20 < len(second.deliveries()), 30, "both are delivered records"
    )
    first.stop()
    ends = log_ends(name, 2)
    ledger.await_all({partition: end + 20 for partition, end in ends.items()})
    ledger.assert_no_overlap()
    assert not first.running


def test_an_expired_session_takes_the_members_nodes_and_it_comes_back(
    cluster, topic, producer, scala_member, kazoo, group, owners
):
    """Ending a foreign session on the server removes its ephemerals; the old consumer registers again."""
    name = topic(1)
    producer(name, 1)
    member = scala_member("1.1.1", "m1-1", [name], seed=1)
    path = f"/consumers/{group}/ids/{member.member_id}"
    wait_until(lambda: owners(name) == {0: f"{member.member_id}-0"}, 30, "owner node there")
    session = kazoo.exists(path).owner_session_id
    faults.expire_session(cluster.zookeeper, session)
    wait_until(
        lambda: (stat := kazoo.exists(path)) is not None and stat.owner_session_id != session,
        30,
        "registered under a new session",
    )
    wait_until(lambda: owners(name) == {0: f"{member.member_id}-0"}, 30, "owner node again")
