"""Which Kafka cluster keeps its nodes in a ZooKeeper ensemble."""

from __future__ import annotations

from groupshift.adapters.zookeeper.connection import ZookeeperConnection
from groupshift.domain.znodes import CLUSTER_ID, parse_cluster_id


def cluster_id(connection: ZookeeperConnection) -> str:
    """The cluster's id; empty where it is not told. Raises as `ZookeeperConnection.call`."""
    (node,) = connection.call(lambda session: session.read((CLUSTER_ID,)))
    return parse_cluster_id(node.data if node else None)
