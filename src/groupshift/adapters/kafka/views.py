"""Live views of a cluster's brokers before a run: for a downgrade, for placement, for a protocol migration.

Implements `groupshift.ports.cluster.DowngradeViews` (the whole cluster),
`groupshift.ports.cluster.PlacementViews` (each broker by itself) and
`groupshift.ports.cluster.ProtocolViews` (one group and every broker).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.commit_places import told_topics
from groupshift.adapters.kafka.metadata import describe_quorum, metadata_of
from groupshift.adapters.kafka.requests import (
    ask_versions,
    configs_of_groups,
    configured_properties,
    coordinator_of,
    describe_broker,
    describe_classic,
    describe_consumer,
    describe_group_settings,
    finalised,
    find_coordinator,
    groups_with_configs,
    list_groups,
    lists_group_configs,
    named_by,
    served_by,
    supported,
    versions,
    with_offsets,
    with_properties,
    with_versions,
)
from groupshift.adapters.kafka.rows import classic_group, consumer_group, kind_of
from groupshift.adapters.kafka.transactions import OFFSETS_TOPIC, open_commits, unstable
from groupshift.adapters.kafka.wire import Api, BrokerError, error_name, raise_for
from groupshift.domain.cluster import (
    Asked,
    BrokerView,
    ClusterView,
    ListedGroup,
    PlacementView,
    QuorumView,
    TopicView,
    configured,
)
from groupshift.domain.commit_places import Topics
from groupshift.domain.group_protocol import BrokerLook, BrokerSettings, KafkaGroup, Kind, ProtocolView
from groupshift.domain.placement import Answers, probe_names
from groupshift.domain.rows import GONE
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
        (list_groups(connection), lambda answer: (node, _listed(answer, node))),
        (
            ask_versions(connection),
            lambda answer: (node, _features(answer)),
        ),
        (
            describe_broker(connection, node),
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
    return {"properties": configured_properties(told)}


def _features(answer: Any) -> dict[str, Any]:
    return {
        "supported": supported(answer),
        "finalised": finalised(answer),
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
    every = lists_group_configs(connection)
    asked = Asked.EVERY if every else Asked.LISTED
    try:
        names = (
            groups_with_configs(connection)
            if every
            else tuple(sorted({group.group for view in views for group in view.groups}))
        )
        found = configs_of_groups(connection, names)
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


_LEADER_NOT_AVAILABLE = 5
_COORDINATOR_NOT_AVAILABLE = 15


class LivePlacementViews:
    """Looks through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._brokers = LiveDowngradeViews(cluster, clock)

    def look(self) -> PlacementView:
        """See the port."""
        cluster = self._brokers.look()
        return self._cluster.attempt(lambda: self._read(cluster))

    def owners(self, groups: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """See the port."""
        return self._cluster.attempt(lambda: self._owners(sorted(groups)))

    def answering(self, groups: Collection[str]) -> frozenset[str]:
        """See the port."""
        return self._cluster.attempt(lambda: self._answering(sorted(groups)))

    def topics(self, names: Collection[str]) -> Topics:
        """See the port."""
        return self._cluster.attempt(lambda: Topics(now=told_topics(self._cluster, names)))

    def close(self) -> None:
        """Close the connections."""
        self._brokers.close()

    def _read(self, cluster: ClusterView) -> PlacementView:
        before = self._topics(cluster)
        topic = before[cluster.brokers[0].node_id]
        answers: tuple[Answers, ...] = ()
        if topic.leaders:  # asking for coordinators would make the topic
            names = probe_names(topic.leaders, _smallest(cluster))
            answers = tuple(
                Answers(node_id=node, named=named_by(self._cluster.broker(node), names)) for node in before
            )
        after = self._topics(cluster)
        if any(each.leaders != after[node].leaders for node, each in before.items()):
            raise BrokerError(_COORDINATOR_NOT_AVAILABLE, f"leaders of {OFFSETS_TOPIC} changed meanwhile")
        opened, held = self._transactions(topic)
        return PlacementView(
            cluster=cluster,
            topic=topic,
            differing=tuple(node for node, each in before.items() if each.leaders != topic.leaders),
            answers=answers,
            open_transactions=opened,
            unstable=held,
        )

    def _transactions(self, topic: TopicView) -> tuple[dict[int, tuple[str, ...]], tuple[int, ...]]:
        """Who is listed as writing each partition, and the partitions with an open transaction, which are
        looked at twice where nobody is listed: one may have begun or ended in between."""
        ids: dict[int, set[str]] = {}
        held: tuple[int, ...] = ()
        for number in range(2):
            for partition, found in open_commits(self._cluster).items():
                ids.setdefault(partition, set()).update(each.transactional_id for each in found)
            now = unstable(self._cluster, topic.leaders)
            held = tuple(each for each in now if number == 0 or each in held)
            if ids.keys() >= set(held):
                break
        return {partition: tuple(sorted(each)) for partition, each in ids.items()}, held

    def _topics(self, cluster: ClusterView) -> dict[int, TopicView]:
        """The offsets topic as each broker tells it."""
        return {
            broker.node_id: _placed_topic(self._cluster.broker(broker.node_id)) for broker in cluster.brokers
        }

    def _owners(self, groups: list[str]) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = dict.fromkeys(groups, ())
        for node in self._cluster.brokers():
            for group in served_by(self._cluster.broker(node.node_id), groups):
                found[group] = (*found[group], node.node_id)
        return found

    def _answering(self, groups: list[str]) -> frozenset[str]:
        nodes, errors = self._cluster.coordinators(groups)
        for group, code in errors.items():
            raise_for(code, f"group {group!r} has no coordinator")
        found: set[str] = set()
        for node in set(nodes.values()):
            asked = [group for group in groups if nodes[group] == node]
            found |= set(with_offsets(self._cluster.broker(node), asked))
        return frozenset(found)


def _smallest(cluster: ClusterView) -> int:
    """The smallest count that a broker is configured with; 0 where that tells nothing."""
    return min((each for broker in cluster.brokers if (each := configured(broker))), default=0)


def _placed_topic(connection: BrokerConnection) -> TopicView:
    answer = metadata_of(connection, OFFSETS_TOPIC)
    (topic,) = answer.topics
    if int(topic.error_code) == _UNKNOWN_TOPIC:
        return TopicView()
    if int(topic.error_code) != _LEADER_NOT_AVAILABLE:
        raise_for(topic.error_code, f"topic {OFFSETS_TOPIC!r}")
    partitions = sorted(topic.partitions, key=lambda each: int(each.partition_index))
    late = {
        int(each.partition_index): tuple(
            sorted(set(map(int, each.replica_nodes)) - set(map(int, each.isr_nodes)))
        )
        for each in partitions
    }
    return TopicView(
        leaders=tuple(int(each.leader_id) for each in partitions),
        replicas=tuple(len(each.replica_nodes) for each in partitions),
        behind={number: nodes for number, nodes in late.items() if nodes},
    )


_LOADING, _UNSUPPORTED, _NOT_FOUND = 14, 35, 69
_COORDINATOR_WAITING = frozenset({_LOADING, _COORDINATOR_NOT_AVAILABLE})
_FLIP_S, _FLIP_READS = 2.0, 8
"""While its type changes a group is listed and not described for a moment; for longer when its partition of
``__consumer_offsets`` has moved, and a broker still holds the former one."""
LOADING = "Loading"
"""What stands for the state of a group whose coordinator is still reading its partition."""


class LiveProtocolViews:
    """Looks through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def look(self, group: str) -> ProtocolView:
        """See the port."""
        self._cluster.attempt(self._cluster.refuse_several)
        until, reads = time.monotonic() + _FLIP_S, count(1)
        return self._cluster.attempt(
            lambda: self._read(group, patient=next(reads) < _FLIP_READS or time.monotonic() < until)
        )

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _read(self, group: str, *, patient: bool) -> ProtocolView:
        taken_at_ms = self._clock.now_ms()
        brokers = self._brokers(group)
        named = [broker.coordinator for broker in brokers if broker.coordinator is not None]
        unknown = KafkaGroup(group=group, kind=Kind.UNKNOWN)
        described = self._describe(group, named[0], brokers) if named else unknown
        if patient and described.kind is Kind.ABSENT and any(broker.lists for broker in brokers):
            raise BrokerError(_LOADING, f"group {group!r} is listed, but its coordinator describes none")
        return ProtocolView(
            cluster_id=self._cluster.cluster_id, taken_at_ms=taken_at_ms, group=described, brokers=brokers
        )

    def _brokers(self, group: str) -> tuple[BrokerLook, ...]:
        """Every broker is asked the same questions, all at the same time."""
        found = {
            node.node_id: BrokerLook(node_id=node.node_id, settings=BrokerSettings())
            for node in self._cluster.brokers()
        }
        questions = {node: _group_questions(self._cluster.broker(node), node, group) for node in found}
        for (node, read), answer in self._cluster.ask_each(questions):
            found[node] = read(found[node], answer)
        return tuple(found[node] for node in sorted(found))

    def _describe(self, group: str, node: int, brokers: Sequence[BrokerLook]) -> KafkaGroup:
        """As the coordinator describes it: first as what it is listed, then as the other type, for it may
        have been converted in between. Of other types the list has all that is needed."""
        listed = {broker.lists: broker.state for broker in brokers if broker.lists is not None}
        for kind in (Kind.SHARE, Kind.STREAMS):
            if kind in listed:
                return KafkaGroup(group=group, kind=kind, state=listed[kind], coordinator=node)
        kinds = [Kind.CLASSIC, Kind.CONSUMER]
        for kind in reversed(kinds) if Kind.CONSUMER in listed else kinds:
            found = self._ask(group, node, kind, listed)
            if found is not None:
                return found
        kind = Kind.UNKNOWN if Kind.UNKNOWN in listed else Kind.ABSENT
        return KafkaGroup(group=group, kind=kind, coordinator=node)

    def _ask(self, group: str, node: int, kind: Kind, listed: Mapping[Kind, str]) -> KafkaGroup | None:
        """The group of this kind; None when it is of another, or of none."""
        connection = self._cluster.broker(node)
        if kind is Kind.CLASSIC:
            asked, read = describe_classic(connection, [group]), classic_group
        elif connection.highest(Api.CONSUMER_GROUP_DESCRIBE) >= 0:
            asked, read = describe_consumer(connection, [group]), consumer_group
        else:
            return None
        ((request, _),) = asked
        (told,) = connection.ask(request).groups
        code = int(told.error_code)
        if code == _LOADING:
            return KafkaGroup(group=group, kind=Kind.UNKNOWN, state=LOADING, coordinator=node)
        if code == _UNSUPPORTED and kind in listed:
            return KafkaGroup(group=group, kind=kind, state=listed[kind], coordinator=node)
        if code in {_UNSUPPORTED, _NOT_FOUND} or told.group_state == GONE:
            return None
        raise_for(code, f"group {group!r} is not described")
        return read(told, node)


_Read = Callable[[BrokerLook, Any], BrokerLook]


def _group_questions(
    connection: BrokerConnection, node: int, group: str
) -> list[tuple[Any, tuple[int, _Read]]]:
    """Requests to one broker, each with what makes of its answer a broker of which more is known."""

    def listed(look: BrokerLook, answer: Any) -> BrokerLook:
        if answer.error_code in _COORDINATOR_WAITING:
            return replace(look, loading=True)
        raise_for(answer.error_code, f"broker {node} does not list its groups")
        for each in answer.groups:
            if each.group_id == group:
                return replace(look, lists=kind_of(each), state=getattr(each, "group_state", ""))
        return look

    def coordinated(look: BrokerLook, answer: Any) -> BrokerLook:
        return replace(look, coordinator=coordinator_of(answer))

    def versioned(look: BrokerLook, answer: Any) -> BrokerLook:
        return replace(look, settings=with_versions(look.settings, answer))

    def configured(look: BrokerLook, answer: Any) -> BrokerLook:
        return replace(look, settings=with_properties(look.settings, answer))

    return [
        (list_groups(connection), (node, listed)),
        (find_coordinator(connection, group), (node, coordinated)),
        (versions(connection), (node, versioned)),
        (describe_group_settings(connection, node), (node, configured)),
    ]
