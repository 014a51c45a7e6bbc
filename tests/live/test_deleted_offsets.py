"""An operator deletes a group's offsets in ZooKeeper while the group is running."""

from __future__ import annotations

from kazoo.client import KazooClient

from groupshift.consumers.zookeeper_session import ZookeeperCoordination
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import OffsetNode, OffsetWrite

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Deaf:
    """Hears of changes, and does nothing."""

    def session_changed(self, session):
        """Nothing."""

    def view_changed(self):
        """Nothing."""

    def owner_changed(self, partition):
        """Nothing."""


def test_commits_go_on_and_partitions_are_given_up_after_the_offsets_were_deleted(cluster, group, kazoo):
    """Else a member would commit nothing any more, and keep its partitions until it ends."""
    link = ZookeeperCoordination(KazooClient(hosts=cluster.zookeeper), group, f"{group}_m1")
    link.start(Deaf(), 15)
    try:
        link.register(b"{}", b"{}")
        link.claim(dict.fromkeys((P0, P1), f"{group}_m1-0"))
        link.write_offsets(dict.fromkeys((P0, P1), OffsetWrite(offset=3, version=-1)))
        kazoo.delete(f"/consumers/{group}/offsets", recursive=True)
        late = OffsetWrite(offset=5, version=0)
        assert link.write_offsets({P0: late}) == {P0: OffsetNode(value=5, version=0)}
        kazoo.delete(f"/consumers/{group}/offsets", recursive=True)
        link.release(dict.fromkeys((P0, P1), late))
    finally:
        link.close()
    assert [kazoo.get(f"/consumers/{group}/offsets/t/{each}")[0] for each in (0, 1)] == [b"5", b"5"]
