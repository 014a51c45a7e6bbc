"""Live looks at a whole cluster before a downgrade: `groupshift.ports.cluster.DowngradeViews`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from groupshift.adapters.kafka.raw import downgrade_calls, group_calls
from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.features import describe_quorum
from groupshift.adapters.kafka.raw.protocol_rows import kind_of
from groupshift.adapters.kafka.raw.replicas import metadata_of
from groupshift.adapters.kafka.raw.transactions import OFFSETS_TOPIC
from groupshift.adapters.kafka.raw.wire import BrokerError, error_name, raise_for
from groupshift.domain.cluster import Asked, BrokerView, ClusterView, ListedGroup, QuorumView
from groupshift.domain.versions import METADATA
from groupshift.ports.clock import Clock

_WAITING = frozenset({14, 15})
"""Error codes of a coordinator that is loading or not there yet."""
_DESCRIBE_QUORUM = 55
_GENERAL = 22
"""The first metadata.version of 4.0: groups have configurations from there on."""
_UNKNOWN_TOPIC = 3

Read = Callable[[Any], tuple[int, dict[str, Any]]]
"""What makes of an answer the node and the fields that it tells."""


class LiveDowngradeViews:
    """Looks through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def look(self) -> ClusterView:
        """See the port."""
        self._cluster.attempt(self._cluster.refuse_several)
        view = self._cluster.attempt(self._read)
        return replace(view, **self._quorum()) if view.kraft else view

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _read(self) -> ClusterView:
        taken_at_ms = self._clock.now_ms()
        nodes = [node.node_id for node in self._cluster.brokers()]
        brokers = {node: BrokerView(node_id=node) for node in nodes}
        asked = {node: _questions(self._cluster.broker(node), node) for node in nodes}
        for read, answer in self._cluster.ask_each(asked):
            node, change = read(answer)
            brokers[node] = replace(brokers[node], **change)
        connections = [self._cluster.broker(node) for node in nodes]
        configs = _configs(connections[0], brokers.values())
        topic = _topic(connections[0])
        return ClusterView(
            cluster_id=self._cluster.cluster_id,
            taken_at_ms=taken_at_ms,
            brokers=tuple(brokers[node] for node in sorted(brokers)),
            kraft=any(_DESCRIBE_QUORUM in each.versions for each in connections),
            controller=topic.controller,
            finalised=_highest(brokers.values()),
            group_configs=configs.found,
            configs_asked=configs.asked,
            configs_problem=configs.problem,
            partitions=topic.partitions,
            leaderless=topic.leaderless,
        )

    def _quorum(self) -> dict[str, Any]:
        """The quorum, or why it is not told: without a controller a broker waits, and the rest is told
        still."""
        node = self._cluster.brokers()[0].node_id
        try:
            found = describe_quorum(self._cluster.broker(node))
        except (OSError, BrokerError) as why:
            self._cluster.drop(node)
            return {"quorum_problem": str(why) or type(why).__name__}
        return {
            "quorum": QuorumView(
                leader=found.leader,
                voters=tuple(sorted(found.voters)),
                high_watermark=found.high_watermark,
                behind=tuple(
                    sorted(node for node, end in found.voters.items() if end < found.high_watermark)
                ),
            )
        }


def _questions(connection: BrokerConnection, node: int) -> list[tuple[Any, Read]]:
    """Requests to one broker."""
    return [
        (group_calls.list_groups(connection), lambda answer: (node, _listed(answer, node))),
        (
            downgrade_calls.ask_versions(connection),
            lambda answer: (node, _features(answer)),
        ),
        (
            downgrade_calls.describe_broker(connection, node),
            lambda answer: (node, _configured(answer)),
        ),
    ]


def _listed(answer: Any, node: int) -> dict[str, Any]:
    if answer.error_code in _WAITING:
        return {"loading": True}
    raise_for(answer.error_code, f"broker {node} does not list its groups")
    groups = (
        ListedGroup(
            group=each.group_id,
            kind=kind_of(each),
            protocol_type=each.protocol_type,
            state=getattr(each, "group_state", ""),
        )
        for each in answer.groups
    )
    return {"groups": tuple(sorted(groups, key=lambda group: group.group))}


def _configured(answer: Any) -> dict[str, Any]:
    (told,) = answer.results
    if told.error_code:
        return {"untold": error_name(told.error_code)}
    return {"properties": downgrade_calls.configured(told)}


def _features(answer: Any) -> dict[str, Any]:
    return {
        "supported": downgrade_calls.supported(answer),
        "finalised": downgrade_calls.finalised(answer),
    }


def _highest(brokers: Iterable[BrokerView]) -> dict[str, int]:
    """The highest level that any broker tells of each feature: all are of one log, some behind."""
    found: dict[str, int] = {}
    for broker in brokers:
        for name, level in broker.finalised.items():
            if level:
                found[name] = max(level, found.get(name, 0))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Configs:
    asked: Asked = Asked.NONE
    found: dict[str, dict[str, str]] = field(default_factory=dict)
    problem: str = ""


def _configs(connection: BrokerConnection, brokers: Iterable[BrokerView]) -> _Configs:
    """Of the groups that have any, or of all that are listed; a right that is missing is told."""
    views = tuple(brokers)
    if not any(each.supported.get(METADATA, (0, 0))[1] >= _GENERAL for each in views):
        return _Configs()
    every = downgrade_calls.lists_group_configs(connection)
    asked = Asked.EVERY if every else Asked.LISTED
    try:
        names = (
            downgrade_calls.groups_with_configs(connection)
            if every
            else tuple(sorted({group.group for view in views for group in view.groups}))
        )
        found = downgrade_calls.configs_of_groups(connection, names)
    except BrokerError as why:
        if why.retriable:
            raise
        return _Configs(asked=asked, problem=str(why))
    return _Configs(asked=asked, found=dict(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Topic:
    controller: int
    partitions: int
    leaderless: tuple[int, ...]


def _topic(connection: BrokerConnection) -> _Topic:
    """The offsets topic, and the controller, as one broker's metadata tells them."""
    answer = metadata_of(connection, OFFSETS_TOPIC)
    (topic,) = answer.topics
    if topic.error_code not in {0, _UNKNOWN_TOPIC}:
        raise_for(topic.error_code, f"topic {OFFSETS_TOPIC!r}")
    return _Topic(
        controller=int(answer.controller_id),
        partitions=len(topic.partitions),
        leaderless=tuple(
            sorted(int(each.partition_index) for each in topic.partitions if int(each.leader_id) < 0)
        ),
    )
