"""A cooperative Kafka assignor: what does not move is not given back, and nobody overlaps."""

from __future__ import annotations

from groupshift.domain.modes import Mode
from support.group_probe import GroupProbe

ASSIGNOR = "partition.assignment.strategy"
LONG = {"session.timeout.ms": "60000"}
"""Nobody is taken for dead here, however slow the machine is."""
OURS = {
    f"coordination.migration.{ASSIGNOR}": "cooperative-sticky",
    "zookeeper.session.timeout.ms": "60000",
    **LONG,
}
PLAIN = {ASSIGNOR: "cooperative-sticky", **LONG}


def test_what_does_not_move_keeps_its_owner_node(
    topic, group, producer, consume_member, kazoo, ledger, log_ends
):
    """When a member joins in kafka mode, when one leaves, and when a plain consumer takes part."""
    name, probe = topic(12), GroupProbe(kazoo, group)
    producer(name, 12, rate=20)
    kazoo.create(probe.paths.mode, b"kafka", makepath=True)
    first, second = (consume_member("migrating", f"m{n}-1", [name], properties=OURS) for n in (1, 2))
    probe.await_published([first.member_id, second.member_id], Mode.KAFKA, probe.mode_node())
    before = probe.await_shares(name, dict.fromkeys([first.member_id, second.member_id], 6))
    third = consume_member("migrating", "m3-1", [name], properties=OURS)
    ours = [first.member_id, second.member_id, third.member_id]
    after = probe.await_shares(name, dict.fromkeys(ours, 4))
    stayed = [each for each in before if after[each][0] == before[each][0]]
    assert len(stayed) == 8
    assert [after[each] for each in stayed] == [before[each] for each in stayed]
    consume_member("plain", "k1-1", [name], properties=PLAIN)
    again = probe.await_shares(name, dict.fromkeys(ours, 3))
    assert [again[each] for each in again] == [after[each] for each in again]
    ledger.await_all({each: end + 10 for each, end in log_ends(name, 12).items()})
    ledger.assert_no_overlap()
