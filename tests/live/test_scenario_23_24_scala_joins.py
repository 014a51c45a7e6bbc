"""Scenarios 23 and 24: a Scala member joins a group in Kafka mode, and leaves it again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest

from group_log import GroupLog
from group_probe import PATIENCE_S, GroupProbe
from groupshift.domain.coordination import Mode, ModeNode
from groupshift.sandbox import ledger as ledgers
from groupshift.sandbox.processes import wait_until
from started import started

PARTITIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Three of ours were in Kafka mode when the Scala member came."""

    topic: str
    node: ModeNode
    ours: tuple[str, ...]
    scala: object


@pytest.fixture(scope="module")
def group():
    """One group for both scenarios."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def process(cluster):
    """Its processes live until both are over."""
    with started(cluster.home) as run:
        yield run


@pytest.fixture(scope="module")
def begun():
    """The set-up, once it is made."""
    return []


@pytest.fixture
def joined(begun, topic, group, producer, consume_member, scala_member, kazoo):
    """The group after a Scala member has got its share."""
    if begun:
        return begun[0]
    name, probe = topic(PARTITIONS), GroupProbe(kazoo, group)
    producer(name, PARTITIONS, rate=20)
    node = probe.set_mode(b"kafka")
    ours = tuple(consume_member("migrating", f"m{number}-1", [name]).member_id for number in (1, 2, 3))
    probe.await_published([*ours], Mode.KAFKA, node)
    probe.await_shares(name, dict(zip(ours, (3, 3, 2), strict=True)))
    wait_until(
        lambda: all(probe.offset(name, number) for number in range(PARTITIONS)),
        PATIENCE_S,
        "all offsets committed",
    )
    scala = scala_member("1.1.1", "m4-1", [name])
    probe.await_shares(name, dict.fromkeys([*ours, scala.member_id], 2))
    begun.append(Joined(topic=name, node=node, ours=ours, scala=scala))
    return begun[0]


def test_scenario_23_scala_joins_kafka_mode(cluster, joined, group, kazoo, ledger, log_ends):
    """All go to ZooKeeper mode; Scala gets its share without giving up, and starts at the last commits."""
    name, scala = joined.topic, joined.scala
    GroupProbe(kazoo, group).await_published([*joined.ours], Mode.ZOOKEEPER, joined.node)
    ends = {each: end + 10 for each, end in log_ends(name, PARTITIONS).items()}
    ledger.await_all(ends)
    assert "ConsumerRebalanceFailedException" not in scala.log_file.read_text()
    log = GroupLog(cluster.home.zookeeper, group)
    known = log.history()
    mine = [each for each in known.intervals if each.member_id == scala.member_id]
    # the first ones: an old member may rebalance twice, and take the same again
    taken = {each.partition: each.start_zxid for each in reversed(mine)}
    starts = {
        each.partition: each.offset
        for each in known.offset_writes
        if each.zxid < taken.get(each.partition, 0)
    }
    first = {each.partition: each.offset for each in reversed(scala.deliveries())}
    assert len(first) == 2
    assert first == starts
    ledger.assert_no_overlap()
    log.assert_fenced(ledger.deliveries(), ends, old=[scala.member_id])


def test_scenario_24_scala_leaves(cluster, joined, group, kazoo, ledger, log_ends):
    """The group returns to Kafka mode by itself: nobody writes the mode node."""
    name, scala, probe = joined.topic, joined.scala, GroupProbe(kazoo, group)
    probe.await_published([*joined.ours], Mode.ZOOKEEPER, joined.node)
    scala.stop()
    probe.await_published([*joined.ours], Mode.KAFKA, joined.node)
    probe.await_shares(name, dict(zip(joined.ours, (3, 3, 2), strict=True)))
    ends = {each: end + 10 for each, end in log_ends(name, PARTITIONS).items()}
    ledger.await_all(ends)
    assert probe.mode_node() == joined.node
    ledger.assert_no_overlap()
    assert not ledgers.duplicates(ledger.deliveries())
    log = GroupLog(cluster.home.zookeeper, group)
    log.assert_fenced(ledger.deliveries(), ends, old=[scala.member_id])
