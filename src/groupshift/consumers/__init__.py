"""Consumers for service teams: in place of the ZooKeeper consumer, with confluent-kafka's methods."""

from __future__ import annotations

from groupshift.consumers.consumer import MigratingConsumer, ZookeeperConsumer
from groupshift.consumers.metrics import ConsumerStatus, Stream
from groupshift.domain.assignment import GroupAssignment
from groupshift.domain.topic_filter import Blacklist, Whitelist

__all__ = [
    "Blacklist",
    "ConsumerStatus",
    "GroupAssignment",
    "MigratingConsumer",
    "Stream",
    "Whitelist",
    "ZookeeperConsumer",
]
