"""Scenarios 23 and 24: a Scala member joins a group in Kafka mode, and leaves it again."""

from __future__ import annotations

from group_probe import PATIENCE_S, GroupProbe
from groupshift.domain.coordination import Mode
from groupshift.sandbox import ledger as ledgers
from groupshift.sandbox.processes import wait_until


def test_scenario_23_scala_joins_kafka_mode_and_24_leaves(
    topic, group, producer, consume_member, scala_member, kazoo, ledger, log_ends
):
    """All go to ZooKeeper mode, Scala gets its share at the last commit; then Kafka mode by itself."""
    name, probe = topic(8), GroupProbe(kazoo, group)
    producer(name, 8, rate=20)
    node = probe.set_mode(b"kafka")
    ours = [consume_member("migrating", f"m{number}-1", [name]) for number in (1, 2, 3)]
    names = [each.member_id for each in ours]
    probe.await_published(names, Mode.KAFKA, node)
    probe.await_shares(name, dict(zip(names, (3, 3, 2), strict=True)))
    wait_until(
        lambda: all(probe.offset(name, number) for number in range(8)), PATIENCE_S, "all offsets committed"
    )
    scala = scala_member("1.1.1", "m4-1", [name])
    probe.await_shares(name, dict.fromkeys([*names, scala.member_id], 2))
    probe.await_published(names, Mode.ZOOKEEPER, node)
    wait_until(lambda: len(scala.deliveries()) > 20, PATIENCE_S, "Scala is delivered records")
    assert "ConsumerRebalanceFailedException" not in scala.log_file.read_text()
    scala.stop()
    probe.await_published(names, Mode.KAFKA, node)
    probe.await_shares(name, dict(zip(names, (3, 3, 2), strict=True)))
    ledger.await_all({each: end + 10 for each, end in log_ends(name, 8).items()})
    ledger.assert_no_overlap()
    assert not ledgers.duplicates(ledger.deliveries())
