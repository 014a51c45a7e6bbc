"""Scenario 19: every cell of the mode table."""

from __future__ import annotations

from groupshift.domain.modes import Mode
from groupshift.domain.registration import Registration, encode_registration
from groupshift_sandbox.processes import wait_until
from support.group_probe import PATIENCE_S, GroupProbe, exported

CELLS = [b"kafka", b"zookeeper", b"kafka", b"kafka\n", b"kafka", b"KAFKA", b"kafka", b"", b"kafka", None]


def test_scenario_19_mode_table(topic, group, consume_member, kazoo):
    """Each member publishes the effective mode and the write of the mode node that it obeys."""
    name, probe = topic(2), GroupProbe(kazoo, group)
    members = [consume_member("migrating", f"m{number}-1", [name]) for number in (1, 2)]
    ids = [each.member_id for each in members]
    probe.await_published(ids, Mode.ZOOKEEPER, probe.mode_node())
    for cell in CELLS:
        wanted = Mode.KAFKA if cell == b"kafka" else Mode.ZOOKEEPER
        probe.await_published(ids, wanted, probe.set_mode(cell))
    unaware = f"{probe.paths.ids}/{group}_old"
    kazoo.create(unaware, encode_registration(Registration(subscription=())), ephemeral=True)
    for cell in (b"kafka", b"zookeeper", b"kafka\n", None, b"kafka"):
        probe.await_published(ids, Mode.ZOOKEEPER, probe.set_mode(cell))
    kazoo.delete(unaware)
    probe.await_published(ids, Mode.KAFKA, probe.mode_node())
    assert [probe.published(each).mode for each in ids] == [Mode.KAFKA, Mode.KAFKA]


def test_a_member_without_the_fence_keeps_the_group_in_zookeeper_mode(topic, group, consume_member, kazoo):
    """F6: a Ref-style member's shadow nodes would collide with owner nodes that mean something."""
    name, probe = topic(2), GroupProbe(kazoo, group)
    member = consume_member("migrating", "m1-1", [name])
    probe.await_published([member.member_id], Mode.ZOOKEEPER, probe.mode_node())
    data = encode_registration(Registration(subscription=()))
    other = f"{group}_ref"
    change = kazoo.transaction()
    change.create(probe.paths.id_of(other), data, ephemeral=True)
    change.create(probe.paths.migration_id_of(other), data, ephemeral=True)
    change.commit()
    probe.await_published([member.member_id], Mode.ZOOKEEPER, probe.set_mode(b"kafka"))

    def alarms():
        return exported(member.state_file).get("alarms", [])

    wait_until(lambda: any("fence" in each for each in alarms()), PATIENCE_S, "the reason is reported")
    assert any(other in each for each in alarms())
    assert probe.published(member.member_id).mode is Mode.ZOOKEEPER
