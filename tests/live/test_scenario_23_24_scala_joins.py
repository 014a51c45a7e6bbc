"""Scenarios 23 and 24: a Scala member joins a group in Kafka mode, and leaves it again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest

from groupshift.domain.modes import Mode, ModeNode
from groupshift_sandbox.processes import wait_until
from support.delivered_again import delivered_again
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe
from support.old_member_log import rebalances
from support.started import started

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
    wait_until(
        lambda: len({each.partition for each in scala.deliveries()}) == 2,
        PATIENCE_S,
        "Scala is delivered both: it commits when it is stopped",
    )
    begun.append(Joined(topic=name, node=node, ours=ours, scala=scala))
    return begun[0]


def repeated_by(cluster, group, scala):
    """What an old member was delivered again, by partition: it began at the last commit before its own.

    It reads the offset and then takes the partition. A commit that comes in between, with the release of who
    had it, is too late: then it begins at the one that was there when its attempt began."""
    known = GroupLog(cluster.home.zookeeper, group).history()
    began = rebalances(scala.log_file.read_text())
    first = {each.partition: each.offset for each in reversed(scala.deliveries())}
    # the first ones: an old member may rebalance twice, and take the same again
    mine = [each for each in reversed(known.intervals) if each.member_id == scala.member_id]
    found = {}
    for taken in {each.partition: each for each in mine}.values():
        written = [
            each
            for each in known.offset_writes
            if each.partition == taken.partition and each.zxid < taken.start_zxid
        ]
        attempt_ms = max(each for each in began if each <= taken.start_ms)
        before = [each.offset for each in written if each.at_ms <= attempt_ms][-1:]
        since = [each.offset for each in written if each.at_ms >= attempt_ms]
        found[taken.partition] = list(range(first[taken.partition], written[-1].offset))
        assert first[taken.partition] in {*before, *since}, (taken, written[-2:])
    return found


def printed_after_its_commit(log, scala):
    """What an old member was delivered at or beyond its last commit: while it ends it commits, and whoever
    reads from it may be inside a chunk."""
    known, deliveries = log.history(), scala.deliveries()
    mine = {each.session for each in known.intervals if each.member_id == scala.member_id}
    last = {each.partition: each.offset for each in known.offset_writes if each.session in mine}
    return {each for each in deliveries if each.offset >= last.get(each.partition, each.offset + 1)}


def test_scenario_23_scala_joins_kafka_mode(cluster, joined, group, kazoo, ledger, log_ends):
    """All go to ZooKeeper mode; Scala gets its share without giving up, and starts at the last commits."""
    name, scala = joined.topic, joined.scala
    GroupProbe(kazoo, group).await_published([*joined.ours], Mode.ZOOKEEPER, joined.node)
    ends = {each: end + 10 for each, end in log_ends(name, PARTITIONS).items()}
    ledger.await_all(ends)
    assert "ConsumerRebalanceFailedException" not in scala.log_file.read_text()
    assert len(repeated_by(cluster, group, scala)) == 2
    log = GroupLog(cluster.home.zookeeper, group)
    log.assert_no_overlap(ledger.deliveries(), old=[scala.member_id])
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
    log = GroupLog(cluster.home.zookeeper, group)
    log.assert_no_overlap(ledger.deliveries(), old=[scala.member_id])
    repeated = repeated_by(cluster, group, scala)
    unfinished = printed_after_its_commit(log, scala)
    found = delivered_again(each for each in ledger.deliveries() if each not in unfinished)
    assert found == {each: again for each, again in repeated.items() if again}
    log.assert_fenced(ledger.deliveries(), ends, old=[scala.member_id])
