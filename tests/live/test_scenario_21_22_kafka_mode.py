"""Scenarios 21 and 22: toggles in quick succession, and a slow member that joins in Kafka mode."""

from __future__ import annotations

import contextlib
import random
import time
from itertools import pairwise

from groupshift.domain.modes import Mode
from groupshift_sandbox.faults import expire_session, paused
from groupshift_sandbox.processes import wait_until
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe

TOGGLES = 50
APART_MS = 2_000


def await_moment(at: float) -> None:
    """Wait for a moment of the monotonic clock."""
    wait_until(lambda: time.monotonic() >= at, PATIENCE_S, "the next toggle is due")


def test_scenario_21_switch_back_and_forth(
    cluster, topic, group, producer, consume_member, kazoo, ledger, log_ends
):
    """50 toggles 0.1 to 0.9 s apart, quicker than the table's 3 s: most come while the one before is still
    being acted on, and at every third a member stands still until the next."""
    name, probe, chance = topic(12), GroupProbe(kazoo, group), random.Random(21)
    producer(name, 12, rate=20)
    node = probe.set_mode(b"zookeeper")
    # three streams of six: a toggle moves partitions (N6)
    members = [consume_member("migrating", "m1-1", [f"{name}:3"])]
    members += [consume_member("migrating", f"m{n}-1", [name]) for n in (2, 3, 4)]
    names = [each.member_id for each in members]
    probe.await_published(names, Mode.ZOOKEEPER, node)
    probe.await_shares(name, {names[0]: 6} | dict.fromkeys(names[1:], 2))
    for number in range(TOGGLES):
        node = probe.set_mode(b"zookeeper" if number % 2 else b"kafka")
        until = time.monotonic() + chance.uniform(0.1, 0.9)
        stopped = chance.choice(members)
        with paused(stopped.process) if number % 3 == 0 else contextlib.nullcontext():
            await_moment(until)
    probe.await_published(names, Mode.ZOOKEEPER, node)
    probe.await_shares(name, {names[0]: 6} | dict.fromkeys(names[1:], 2))
    ends = log_ends(name, 12)
    ledger.await_all({each: end + 10 for each, end in ends.items()})
    ledger.assert_no_overlap()
    log = GroupLog(cluster.home.zookeeper, group)
    log.assert_fenced(ledger.deliveries(), ends)
    seen = log.history()
    assert len(seen.mode_writes) == TOGGLES + 1
    assert len(seen.intervals) > 12 + TOGGLES, "the toggles moved hardly anything"
    assert not seen.problems


def test_scenario_22_join_in_kafka_mode(
    cluster, topic, group, producer, consume_member, relay, kazoo, ledger, log_ends
):
    """A member joins with 2 s between any two of its writes, another's session expires: nobody ever
    publishes another mode than kafka, nor looks unaware in between (D4, D5)."""
    name, probe, link = topic(6), GroupProbe(kazoo, group), relay("zookeeper")
    log = GroupLog(cluster.home.zookeeper, group)
    producer(name, 6, rate=20)
    node = probe.set_mode(b"kafka")
    there = [consume_member("migrating", f"m{n}-1", [name]) for n in (1, 2)]
    names = [each.member_id for each in there]
    probe.await_published(names, Mode.KAFKA, node)
    probe.await_shares(name, dict.fromkeys(names, 3))
    link.delay(APART_MS / 2)  # in each direction
    session = {"zookeeper.session.timeout.ms": "40000"}
    slow = consume_member("migrating", "m3-1", [name], zookeeper=link.address, properties=session)
    registered = probe.paths.id_of(slow.member_id)
    wait_until(lambda: kazoo.exists(registered) is not None, PATIENCE_S, "the slow member is registered")
    former = kazoo.exists(probe.paths.id_of(names[0])).ephemeralOwner
    expire_session(cluster.zookeeper, former)
    everybody = [*names, slow.member_id]
    probe.await_published(everybody, Mode.KAFKA, node)
    probe.await_shares(name, dict.fromkeys(everybody, 2))
    assert kazoo.exists(probe.paths.id_of(names[0])).ephemeralOwner != former
    writes = log.written_by(kazoo.exists(registered).ephemeralOwner)
    apart = [later.time_ms - earlier.time_ms for earlier, later in pairwise(writes)]
    link.restore()
    ends = log_ends(name, 6)
    ledger.await_all({each: end + 10 for each, end in ends.items()})
    said = log.published()
    assert {each.member for each in said} == set(everybody)
    assert {each.mode for each in said} <= {None, Mode.KAFKA}
    assert not log.unaware()
    # what does not depend on each other goes out in one go: only owner nodes
    together = [
        change
        for each, gap in zip(writes[1:], apart, strict=True)
        if gap < APART_MS * 0.9
        for change in each.changes
    ]
    assert sum(gap >= APART_MS * 0.9 for gap in apart) > 1, writes
    assert all(change.path.startswith(probe.paths.owners) for change in together), together
    ledger.assert_no_overlap()
    log.assert_fenced(ledger.deliveries(), ends)
