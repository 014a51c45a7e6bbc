"""The consumer of the old protocol."""

from __future__ import annotations

from groupshift.consumers.group_consumer import GroupConsumer


class ZookeeperConsumer(GroupConsumer):
    """Coordinates and commits through ZooKeeper only, side by side with the Scala high-level consumer.

    It is not migration-aware: a group with one of these stays in ZooKeeper mode.
    Source: specs/zookeeper-coordination.md §§1-7.
    """

    _migrating = False
