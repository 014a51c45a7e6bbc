"""Scenario 14: a member that was stopped for longer than its session comes back as if nothing had been."""

from __future__ import annotations

import time
from itertools import groupby, pairwise

from groupshift_sandbox.faults import paused
from groupshift_sandbox.processes import wait_until
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe
from support.numbered_records import write

SESSION_S = 6
RARELY = {
    "zookeeper.session.timeout.ms": str(SESSION_S * 1000),
    "zookeeper.connection.timeout.ms": "60000",
    "auto.commit.interval.ms": "600000",
}


def test_scenario_14_zombie_pause(
    cluster, topic, group, consume_member, scala_member, kazoo, ledger, log_ends
):
    """What was fetched for it meanwhile is delivered by the successor alone, whose commits stand.

    It is stopped with progress that it has not committed, and idle: no call is in flight."""
    name, probe = topic(4), GroupProbe(kazoo, group)
    scala = scala_member("1.1.1", "s1", [name], seed=4)
    probe.await_shares(name, {scala.member_id: 4})
    zombie = consume_member("migrating", "m1", [name], properties=RARELY)
    shared = {zombie.member_id: 2, scala.member_id: 2}
    probe.await_shares(name, shared)
    write(cluster.bootstrap, name, 4, 50)
    ledger.await_all(log_ends(name, 4))
    mine = [number for number, (member, _, _) in probe.owners(name).items() if member == zombie.member_id]
    assert [probe.offset(name, number) for number in mine] == [0, 0]
    begun = time.monotonic()
    with paused(zombie.process):
        write(cluster.bootstrap, name, 4, 50)
        probe.await_shares(name, {scala.member_id: 4})
        wait_until(
            lambda: [probe.offset(name, number) for number in mine] == [100, 100],
            PATIENCE_S,
            "the successor has committed",
        )
        wait_until(lambda: time.monotonic() - begun > 3 * SESSION_S, PATIENCE_S, "three sessions are over")
    probe.await_shares(name, shared)
    write(cluster.bootstrap, name, 4, 50)
    ledger.await_all(log_ends(name, 4))
    zombie.stop()
    probe.await_shares(name, {scala.member_id: 4})
    log = GroupLog(cluster.home.zookeeper, group)
    log.assert_fenced(ledger.deliveries(), log_ends(name, 4), old=[scala.member_id])
    written = sorted(log.history().offset_writes, key=lambda each: each.partition)
    for partition, writes in groupby(written, key=lambda each: each.partition):
        offsets = [each.offset for each in writes]
        assert all(one <= other for one, other in pairwise(offsets)), f"{partition}: {offsets}"
        assert offsets[-1] == 150
