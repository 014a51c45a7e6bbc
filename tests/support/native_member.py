"""A member of a consumer group that is nothing but its heartbeats (KIP-848), on any broker since 3.8."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import TypeVar

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.wire import raise_for
from groupshift_sandbox.processes import wait_until

_HEARTBEAT = 68
_SHARE_HEARTBEAT = 76
_LEAVE, _PAUSE = -1, -2


class NativeMember:
    """Joins at once; ``beat`` must be called often enough."""

    def __init__(self, coordinator: BrokerConnection, group: str, topics: Sequence[str]) -> None:
        self._coordinator, self._group, self._topics = coordinator, group, tuple(topics)
        version = coordinator.highest(_HEARTBEAT)
        module = load_payload_module(_HEARTBEAT, version, EntityType.request)
        self._request, self._partitions = module.ConsumerGroupHeartbeatRequest, module.TopicPartitions
        self.member_id, self.epoch = str(uuid.uuid4()) if version else "", 0
        self.assigned: set[tuple[uuid.UUID, int]] = set()
        self._beat(dt.timedelta(minutes=5), topics=self._topics, owned=())

    def beat(self) -> None:
        """One heartbeat that acknowledges what is assigned."""
        owned = tuple(
            self._partitions(topic_id=topic, partitions=tuple(n for at, n in self.assigned if at == topic))
            for topic in {topic for topic, _ in self.assigned}
        )
        self._beat(dt.timedelta(milliseconds=-1), topics=None, owned=owned)

    def await_assigned(self, count: int, deadline_s: float = 30.0) -> None:
        """Beat until ``count`` partitions are assigned and acknowledged."""

        def settled() -> bool:
            before = len(self.assigned)
            self.beat()
            return before == len(self.assigned) == count

        wait_until(
            settled, deadline_s, f"{count} partitions for a native member of {self._group}", every_s=0.2
        )

    def leave(self) -> None:
        """Leave the group."""
        self.epoch = _LEAVE
        self._beat(dt.timedelta(milliseconds=-1), topics=None, owned=None)

    def pause(self) -> None:
        """Close as a static member does: it may come back until its session ends."""
        self.epoch = _PAUSE
        self._beat(dt.timedelta(milliseconds=-1), topics=None, owned=None)

    def _beat(self, timeout: dt.timedelta, *, topics, owned) -> None:
        answer = self._coordinator.ask(
            self._request(
                group_id=self._group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                rebalance_timeout=timeout,
                subscribed_topic_names=topics,
                server_assignor=None,
                topic_partitions=owned,
            )
        )
        raise_for(answer.error_code, f"heartbeat in {self._group}", said=answer.error_message)
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                (each.topic_id, n) for each in answer.assignment.topic_partitions for n in each.partitions
            }


Member = TypeVar("Member", "NativeMember", "ShareMember")


def joined(kind: type[Member], cluster: KafkaCluster, group: str, topics: Sequence[str]) -> Member:
    """A member, once its coordinator takes it: one that is told may not have loaded its part of the log."""

    def join() -> Member:
        nodes, errors = cluster.coordinators([group])
        for code in errors.values():
            raise_for(code, f"group {group!r} has no coordinator")
        return kind(cluster.broker(nodes[group]), group, topics)

    return cluster.attempt(join)


class ShareMember:
    """A member of a share group (KIP-932, brokers since 4.1), likewise."""

    def __init__(self, coordinator: BrokerConnection, group: str, topics: Sequence[str]) -> None:
        self._coordinator, self._group, self._topics = coordinator, group, tuple(topics)
        version = coordinator.highest(_SHARE_HEARTBEAT)
        self._request = load_payload_module(
            _SHARE_HEARTBEAT, version, EntityType.request
        ).ShareGroupHeartbeatRequest
        self.member_id, self.epoch, self.assigned = str(uuid.uuid4()), 0, 0

    def beat(self) -> None:
        """One heartbeat."""
        answer = self._coordinator.ask(
            self._request(
                group_id=self._group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                subscribed_topic_names=self._topics,
            )
        )
        raise_for(answer.error_code, f"heartbeat in {self._group}", said=answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = sum(len(each.partitions) for each in answer.assignment.topic_partitions)

    def leave(self) -> None:
        """Leave the group."""
        self.epoch = _LEAVE
        self.beat()
