"""Scenario 7: one of ours joins a group of one Scala member."""

from __future__ import annotations

import pytest

from groupshift_sandbox.processes import wait_until
from support.delivered_again import delivered_again
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe

COMMIT_OFTEN = {"zookeeper.session.timeout.ms": "4000"}


@pytest.mark.parametrize(("kind", "release"), [("zookeeper", "0.10.2.2"), ("migrating", "1.1.1")])
def test_scenario_07_scala_two(
    cluster,
    kind,
    release,
    topic,
    group,
    producer,
    scala_member,
    consume_member,
    kazoo,
    ledger,
    log_ends,
    owners,
):
    """One partition each, owner data are thread ids, offsets go on, and nobody overlaps."""
    name, probe = topic(2), GroupProbe(kazoo, group)
    producer(name, 2, rate=50)
    scala = scala_member(release, "m1-1", [name], seed=2)
    probe.await_shares(name, {scala.member_id: 2})
    wait_until(lambda: len(scala.deliveries()) > 20, PATIENCE_S, "Scala is delivered records")
    ours = consume_member(kind, "m2-1", [name])
    shared = {0: f"{scala.member_id}-0", 1: f"{ours.member_id}-0"}
    wait_until(lambda: owners(name) == shared, PATIENCE_S, "one partition each, by thread ids")
    wait_until(lambda: len(ours.deliveries()) > 20, PATIENCE_S, "ours is delivered records")
    ours.stop()
    ends = {each: end + 10 for each, end in log_ends(name, 2).items()}
    ledger.await_all(ends)
    log = GroupLog(cluster.home.zookeeper, group)
    log.assert_no_overlap(ledger.deliveries(), old=[scala.member_id])
    log.assert_fenced(ledger.deliveries(), ends, old=[scala.member_id])
    first = min(each.offset for each in ours.deliveries())
    repeated = delivered_again(ledger.deliveries())
    assert all(offset >= first - 50 for offsets in repeated.values() for offset in offsets)
