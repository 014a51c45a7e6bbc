"""Scenario 29: members that lose the coordinator, and only the coordinator."""

from __future__ import annotations

import time

from groupshift.domain.modes import Mode
from groupshift_sandbox.ledger import Delivery
from groupshift_sandbox.processes import wait_until
from support.delivered_again import delivered_again
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe, exported

SESSION_S = 6


def since(member, moment_ms) -> list[Delivery]:
    """What a member was delivered after a moment."""
    return [each for each in member.deliveries() if each.at_ms > moment_ms]


def test_scenario_29_evicted_member(
    cluster, topic, group, producer, consume_member, relay, kazoo, ledger, log_ends
):
    """One link is cut, one says nothing more; records and ZooKeeper can be reached all the while. Both stop
    before their Kafka session ends, the successor starts after they let go, and they come back."""
    name, probe = topic(6), GroupProbe(kazoo, group)
    producer(name, 6, rate=20)
    links = [relay("kafka"), relay("kafka")]
    session = {"session.timeout.ms": str(SESSION_S * 1000)}
    node = probe.set_mode(b"kafka")
    cut_off = [
        consume_member(
            "migrating",
            f"m{number}-1",
            [name],
            properties={**session, "coordination.migration.bootstrap.servers": link.address},
        )
        for number, link in enumerate(links, start=1)
    ]
    successor = consume_member("migrating", "m3-1", [name], properties=session)
    lost = [each.member_id for each in cut_off]
    everybody = [*lost, successor.member_id]
    probe.await_published(everybody, Mode.KAFKA, node)
    probe.await_shares(name, dict.fromkeys(everybody, 2))
    wait_until(lambda: all(len(each.deliveries()) > 20 for each in cut_off), PATIENCE_S, "both deliver")
    moved = {number for number, (member, _, _) in probe.owners(name).items() if member in lost}
    links[0].cut()
    links[1].stall()
    cut_ms = time.time_ns() // 1_000_000
    probe.await_shares(name, {successor.member_id: 6})
    for member in cut_off:
        assert member.deliveries()[-1].at_ms - cut_ms <= SESSION_S * 1000
    last = {each.partition.partition: each.at_ms for member in cut_off for each in member.deliveries()}
    wait_until(
        lambda: moved <= {each.partition.partition for each in since(successor, cut_ms)},
        PATIENCE_S,
        "the successor is delivered what moved",
    )
    for each in since(successor, cut_ms):
        assert each.partition.partition not in moved or each.at_ms >= last[each.partition.partition]
    assert all(member.running for member in cut_off)
    assert {exported(member.state_file)["mode"] for member in cut_off} == {Mode.KAFKA.value}
    for link in links:
        link.restore()
    probe.await_shares(name, dict.fromkeys(everybody, 2))
    ends = log_ends(name, 6)
    ledger.await_all({each: end + 10 for each, end in ends.items()})
    ledger.assert_no_overlap()
    GroupLog(cluster.home.zookeeper, group).assert_fenced(ledger.deliveries(), ends)
    assert not delivered_again(ledger.deliveries())
