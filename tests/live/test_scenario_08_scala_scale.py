"""Scenario 8: three Scala members and three of ours share four topics by round-robin; one of each dies."""

from __future__ import annotations

import os
import signal
import time
import uuid

import pytest

from groupshift.domain.assignment import Assignor, TextForm, assign, thread_ids
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.faults import kill
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import session_of, wait_until
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe

TOPICS, PARTITIONS = 4, 3
GAVE_UP = "after 4 retries"
SHARED = {
    "partition.assignment.strategy": "roundrobin",
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "60000",
}
OURS = {"roundrobin.text.form": "dash", "enable.auto.offset.store": "false", **SHARED}


def assignment(topics, members, form=TextForm.DASH):
    """What §5.2 gives to members with one stream each: partition → thread id."""
    threads = [thread for member in members for thread in thread_ids(member, 1)]
    partitions = dict.fromkeys(topics, range(PARTITIONS))
    return assign(Assignor.ROUND_ROBIN, dict.fromkeys(topics, threads), partitions, form)


@pytest.fixture
def topics(cluster, producer):
    """Four topics under load whose partitions the two text forms put into different orders."""
    names = []
    while assignment(names, "abcdef") == assignment(names, "abcdef", TextForm.BRACKET):
        names = [f"rr{uuid.uuid4().hex[:6]}" for _ in range(TOPICS)]
    for name in names:
        create_topic(cluster.bootstrap, name, PARTITIONS)
        producer(name, PARTITIONS, rate=10)
    return names


def kill_consumer(member):
    """SIGKILL to a Scala member's JVM: its recorder still writes down what had been printed."""
    for pid in session_of(member.process.pid):
        if pid != member.process.pid:
            os.kill(pid, signal.SIGKILL)


def test_scenario_08_scala_scale(
    cluster, topics, group, scala_member, consume_member, kazoo, ledger, log_ends, owners
):
    """Every partition has the owner that §5.2 names, before and after; no old member gives up."""
    probe = GroupProbe(kazoo, group)

    def await_assigned(members):
        expected = assignment(topics, [each.member_id for each in members])
        wait_until(
            lambda: (
                {
                    TopicPartition(name, number): thread
                    for name in topics
                    for number, thread in owners(name).items()
                }
                == expected
            ),
            PATIENCE_S,
            f"{len(expected)} partitions owned as computed",
        )

    old = [
        scala_member("1.1.1", f"m{number}", topics, seed=PARTITIONS, properties=SHARED)
        for number in (1, 3, 5)
    ]
    await_assigned(old)
    ours = [
        consume_member(kind, f"m{number}", topics, properties=OURS)
        for kind, number in (("migrating", 2), ("zookeeper", 4), ("migrating", 6))
    ]
    await_assigned([*old, *ours])
    wait_until(lambda: all(each.deliveries() for each in (*old, *ours)), PATIENCE_S, "all are delivered")
    kill_consumer(old[0])
    kill(ours[0].process)
    killed_ms = time.time_ns() // 1_000_000
    await_assigned([*old[1:], *ours[1:]])
    assert len(kazoo.get_children(probe.paths.ids)) == 4
    ends = {each: end + 10 for name in topics for each, end in log_ends(name, PARTITIONS).items()}

    log, before = GroupLog(cluster.home.zookeeper, group), [each.member_id for each in old]

    def verdict():
        return log.judged(ledger.deliveries(), ends, old=before)

    wait_until(lambda: not verdict().lost, PATIENCE_S, "everything is delivered", every_s=0.5)
    assert verdict().outside == ()
    # What our killed member had not committed goes to whoever had the partition before it, as if that one had
    # kept it all the while: so what came before the kill and what came after it are looked at each alone.
    for period in (lambda at_ms: at_ms <= killed_ms, lambda at_ms: at_ms > killed_ms):
        log.assert_no_overlap([each for each in ledger.deliveries() if period(each.at_ms)], old=before)
    assert [each.member_id for each in old if GAVE_UP in each.log_file.read_text()] == []
