"""Live snapshots of streams groups (KIP-1071): members, epochs, and the partitions of their active tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from support.streams_member import StreamsMember


@pytest.fixture
def raw(kraft: Cluster) -> Iterator[KafkaCluster]:
    """Connections of this test's own."""
    found = KafkaCluster(kraft.bootstrap, timeout_s=20.0)
    yield found
    found.close()


def test_a_streams_group_is_read_with_the_partitions_of_its_tasks(
    kraft: Cluster, raw: KafkaCluster, group: str
) -> None:
    """Two members share the tasks of two parts; the second part reads topics of unequal partition counts, of
    which each partition is listed once and none that is not there."""
    names = [f"{kind}-{group}" for kind in ("orders", "large", "small")]
    for name, count in zip(names, (2, 3, 1), strict=True):
        create_topic(kraft.bootstrap, name, count)
    parts = {"0": names[:1], "1": names[1:]}
    wait_until(lambda: group in raw.coordinators([group])[0], 60, "a coordinator")

    def join() -> StreamsMember:
        return StreamsMember(raw.broker(raw.coordinators([group])[0][group]), group, parts)

    members = [raw.attempt(join) for _ in range(2)]

    def shared() -> bool:
        for member in members:
            member.beat()
        return all(member.active for member in members) and sum(len(m.active) for m in members) == 5

    wait_until(shared, 60, "the five tasks are shared", every_s=0.2)
    for member in members:
        member.beat()  # acknowledges the last task
    snapshots = LiveGroupSnapshots(raw, SystemClock())
    state = snapshots.take([group])
    for member in members:
        member.leave()
    (row,) = state.groups
    assert (row.type, row.protocol_type, row.state) == ("streams", "streams", "Stable")
    assert row.generation == row.assignment_epoch
    assert {each.member_id for each in state.members} == {member.member_id for member in members}
    assert {each.member_epoch for each in state.members} == {row.generation}
    assert {each.member_type for each in state.members} == {"streams"}
    assert {(each.member_id, each.topic) for each in state.subscriptions} == {
        (member.member_id, name) for member in members for name in names
    }
    partitions = sorted((each.topic, each.partition) for each in state.assignments)
    there = [(name, n) for name, count in zip(names, (2, 3, 1), strict=True) for n in range(count)]
    assert partitions == sorted(there)
    owner = {(part, number): member.member_id for member in members for part, number in member.active}
    assert all(
        each.member_id == owner["0" if each.topic == names[0] else "1", each.partition]
        for each in state.assignments
    )
    assert state.problems == []
