"""Scenarios 25 and 27: plain Kafka consumers take the place of ours, and the whole rollback."""

from __future__ import annotations

from groupshift.domain.modes import Mode
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.producer import NumberedProducer
from support.delivered_again import delivered_again
from support.group_probe import PATIENCE_S, GroupProbe

UNHEARD = ("hand-over without a commit to Kafka", "last commit to Kafka")
"""What a member logs that gives partitions up while Kafka does not answer; ZooKeeper has the commit."""


def test_scenario_25_kc_canary(topic, group, producer, consume_member, kazoo, ledger, log_ends):
    """One member is replaced by a plain Kafka consumer, then all: no overlap, nothing lost, and repeated only
    where a member says that Kafka did not take its last commit in time."""
    name, probe = topic(6), GroupProbe(kazoo, group)
    producer(name, 6, rate=20)
    node = probe.set_mode(b"kafka")
    ours = [consume_member("migrating", f"m{number}-1", [name]) for number in (1, 2, 3)]
    names = [each.member_id for each in ours]
    probe.await_published(names, Mode.KAFKA, node)
    probe.await_shares(name, dict.fromkeys(names, 2))
    for number, old in enumerate(ours, start=1):
        old.stop()
        plain = consume_member("plain", f"m{number}-2", [name])
        wait_until(lambda plain=plain: len(plain.deliveries()) > 20, PATIENCE_S, "the new one delivers")
        probe.await_shares(name, dict.fromkeys(names[number:], 2))
    ledger.await_all({each: end + 10 for each, end in log_ends(name, 6).items()})
    ledger.assert_no_overlap()
    unheard = {each.member_id for each in ours if any(said in each.log_file.read_text() for said in UNHEARD)}
    assert not delivered_again(each for each in ledger.deliveries() if each.member not in unheard)


def test_scenario_27_rollback_chain(
    cluster, topic, group, consume_member, scala_member, kazoo, ledger, log_ends
):
    """Plain → migrating → Scala: Scala starts exactly where the plain one stopped, idle partitions too."""
    name, probe = topic(2), GroupProbe(kazoo, group)

    def write(partition: int) -> None:
        numbered = NumberedProducer(cluster.bootstrap, name, 2)
        for _ in range(50):
            numbered.send(partition)
        numbered.flush()
        assert not numbered.failure

    for partition in (0, 1):
        write(partition)
    plain = consume_member("plain", "m1-1", [name])
    ledger.await_all(log_ends(name, 2))
    plain.stop()
    node = probe.set_mode(b"kafka")
    ours = consume_member("migrating", "m1-2", [name])
    probe.await_published([ours.member_id], Mode.KAFKA, node)
    probe.await_shares(name, {ours.member_id: 2})
    wait_until(lambda: probe.offset(name, 1) == 50, PATIENCE_S, "the idle partition's znode is raised")
    write(0)
    probe.await_published([ours.member_id], Mode.ZOOKEEPER, probe.set_mode(b"zookeeper"))
    ledger.await_all(log_ends(name, 2))
    ours.stop()
    scala = scala_member("0.10.2.2", "m1-3", [name])
    probe.await_shares(name, {scala.member_id: 2})
    for partition in (0, 1):
        write(partition)
    ledger.await_all(log_ends(name, 2))
    assert not delivered_again(ledger.deliveries())
    first = {each.partition.partition: each.offset for each in reversed(scala.deliveries())}
    assert first == {0: 100, 1: 50}
