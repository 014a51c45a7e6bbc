"""`groupshift.ports.cluster.Access` at the real servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from groupshift.domain.group import GroupView
from groupshift.ports.cluster import Identity


class ZookeeperAsks(Protocol):
    """The ZooKeeper half."""

    def identity(self, group: str) -> Identity:
        """Who is logged in, and what it may not do."""
        ...


class KafkaAsks(Protocol):
    """The Kafka half."""

    def identity(self, group: str, topics: Sequence[str]) -> Identity:
        """Who is logged in, and what it may not do."""
        ...


class LiveAccess:
    """Both halves, asked one after the other."""

    def __init__(self, zookeeper: ZookeeperAsks, kafka: KafkaAsks) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """See the port; a group that does not exist is nothing to have rights on."""
        if not view.exists:
            return ()
        return (
            self._zookeeper.identity(view.group),
            self._kafka.identity(view.group, sorted(_topics(view))),
        )


class KafkaAccess:
    """Kafka alone, where a move has nothing to do with ZooKeeper."""

    def __init__(self, kafka: KafkaAsks) -> None:
        self._kafka = kafka

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """See the port; a group that does not exist is nothing to have rights on."""
        return (self._kafka.identity(view.group, sorted(_topics(view))),) if view.exists else ()


def _topics(view: GroupView) -> set[str]:
    """Every topic that the group has to do with, whether or not Kafka shows it."""
    owned = {each.partition.topic for each in view.owners}
    committed = {each.partition.topic for each in (*view.zookeeper_offsets, *view.kafka_offsets)}
    static = [member for member in view.members if member.pattern == "static"]
    return owned | committed | {topic for member in static for topic, _ in member.subscription}
