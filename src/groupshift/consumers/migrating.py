"""The consumer that follows its group's mode (KIP-125)."""

from __future__ import annotations

from groupshift.consumers.group_consumer import GroupConsumer


class MigratingConsumer(GroupConsumer):
    """Takes part in ZooKeeper and Kafka coordination at once and obeys the one the mode node names.

    Commits to both stores. ``coordination.migration.<key>`` sets a key of the embedded Kafka consumer;
    ``bootstrap.servers`` alone suffices. With ``coordination.migration.enabled=false`` it is a
    `ZookeeperConsumer`: no migration id, no Kafka membership.
    Source: KIP-125; specs/zookeeper-coordination.md §8.10.
    """

    _migrating = True
