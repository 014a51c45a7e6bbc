"""Scenarios 12 and 13: a ZooKeeper session that ends, and one that is only silent for a moment."""

from __future__ import annotations

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.processes import wait_until
from support.delivered_again import delivered_again
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe

SESSION = {"zookeeper.session.timeout.ms": "10000", "zookeeper.connection.timeout.ms": "60000"}


def test_scenario_12_expiry(cluster, topic, group, producer, consume_member, relay, kazoo, ledger, log_ends):
    """The member stops before its successor may start, and comes back under the same id."""
    name, probe, link = topic(4), GroupProbe(kazoo, group), relay("zookeeper")
    producer(name, 4, rate=50)
    cut_off = consume_member("migrating", "m1-1", [name], zookeeper=link.address, properties=SESSION)
    probe.await_shares(name, {cut_off.member_id: 4})
    stays = consume_member("migrating", "m2-1", [name], properties=SESSION)
    both = {cut_off.member_id: 2, stays.member_id: 2}
    probe.await_shares(name, both)
    before = probe.owners(name)
    moved = [number for number, (member, _, _) in before.items() if member == cut_off.member_id]
    wait_until(
        lambda: set(moved) <= {each.partition.partition for each in cut_off.deliveries()},
        PATIENCE_S,
        "the first is delivered records",
    )
    link.stall()
    probe.await_shares(name, {stays.member_id: 4})
    after = probe.owners(name)
    assert all(after[number][1] == before[number][1] for number in before if number not in moved)
    link.restore()
    probe.await_shares(name, both)
    ends = {each: end + 10 for each, end in log_ends(name, 4).items()}
    ledger.await_all(ends)
    ledger.assert_no_overlap()
    GroupLog(cluster.home.zookeeper, group).assert_fenced(ledger.deliveries(), ends)
    assert sorted(kazoo.get_children(probe.paths.ids)) == sorted(both)
    assert sorted(kazoo.get_children(probe.paths.migration_ids)) == sorted(both)


def test_scenario_13_suspended_brief(topic, group, producer, consume_member, relay, kazoo, ledger, log_ends):
    """Delivery pauses with the link and goes on at the same position in the same session."""
    name, probe, link = topic(2), GroupProbe(kazoo, group), relay("zookeeper")
    producer(name, 2, rate=50)
    session = {"zookeeper.session.timeout.ms": "90000"}
    member = consume_member("migrating", "m1-1", [name], zookeeper=link.address, properties=session)
    probe.await_shares(name, {member.member_id: 2})
    wait_until(lambda: len(member.deliveries()) > 20, PATIENCE_S, "records are delivered")
    before = probe.owners(name)
    link.cut()

    def last() -> dict[TopicPartition, int]:
        return {each.partition: each.offset for each in member.deliveries()}

    def paused() -> bool:
        """Fifty records of each partition later, nothing more was delivered."""
        seen, ends = last(), log_ends(name, 2)
        wait_until(
            lambda: all(log_ends(name, 2)[each] > end + 50 for each, end in ends.items()),
            PATIENCE_S,
            "records are written meanwhile",
        )
        return last() == seen

    wait_until(paused, PATIENCE_S, "nothing is delivered while the link is cut")
    link.restore()
    ledger.await_all({each: end + 10 for each, end in log_ends(name, 2).items()})
    assert probe.owners(name) == before
    assert not delivered_again(ledger.deliveries())
