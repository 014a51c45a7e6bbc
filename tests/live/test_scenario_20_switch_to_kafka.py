"""Scenario 20: a toggle while one member hears of it late."""

from __future__ import annotations

from groupshift.domain.modes import Mode
from groupshift_sandbox.processes import wait_until
from support.group_probe import PATIENCE_S, GroupProbe

SLOW_MS = 10_000  # in each direction: 20 s there and back


def test_scenario_20_switch_to_kafka(topic, group, producer, consume_member, relay, kazoo, ledger, log_ends):
    """Partitions of the slow member wait for it; nobody overlaps; all is consumed in the end."""
    name, probe, link = topic(12), GroupProbe(kazoo, group), relay("zookeeper")
    producer(name, 12, rate=20)
    session = {"zookeeper.session.timeout.ms": "40000"}
    # three streams of six: the toggle moves partitions (N6)
    slow = consume_member("migrating", "m1-1", [f"{name}:3"], zookeeper=link.address, properties=session)
    quick = [consume_member("migrating", f"m{n}-1", [name], properties=session) for n in (2, 3, 4)]
    names = [each.member_id for each in quick]
    probe.await_shares(name, {slow.member_id: 6} | dict.fromkeys(names, 2))
    before = probe.owners(name)
    link.delay(SLOW_MS)
    node = probe.set_mode(b"kafka")
    probe.await_published(names, Mode.KAFKA, node)
    probe.await_shares(name, {slow.member_id: 6} | dict.fromkeys(names[1:], 3))
    assert {n: each for n, each in probe.owners(name).items() if each[0] == slow.member_id} == {
        n: each for n, each in before.items() if each[0] == slow.member_id
    }
    end = max(log_ends(name, 12).values())
    wait_until(lambda: min(log_ends(name, 12).values()) > end + 40, PATIENCE_S, "two seconds of records")
    link.restore()
    probe.await_published([slow.member_id, *names], Mode.KAFKA, node)
    probe.await_shares(name, dict.fromkeys([slow.member_id, *names], 3))
    ledger.await_all({each: end + 10 for each, end in log_ends(name, 12).items()})
    ledger.assert_no_overlap()
