"""Live views of a cluster's brokers before a run: for a downgrade, for placement, for a move of the protocol.

Implements `groupshift.ports.cluster.DowngradeViews` (the whole cluster),
`groupshift.ports.cluster.PlacementViews` (each broker by itself) and
`groupshift.ports.cluster.ProtocolViews` (one group and every broker).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from groupshift.adapters.kafka.cluster import KafkaCluster, OfCluster, attempted
from groupshift.adapters.kafka.commit_places import told_topics
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import (
    BROKER,
    DESCRIBED,
    GROUP,
    OF_GROUPS,
    ask_versions,
    configs_of_groups,
    coordinators_in,
    describe,
    describe_configs,
    describe_quorum,
    fetch_now,
    finalised,
    find_coordinators,
    list_groups,
    metadata,
    named_by,
    settings_of,
    supported,
)
from groupshift.adapters.kafka.rows import group_answer, kind_of
from groupshift.adapters.kafka.transactions import open_commits, unstable
from groupshift.adapters.kafka.wire import Api, BrokerError, by_partition, error_name, raise_for
from groupshift.domain.cluster import (
    Asked,
    BrokerView,
    ClusterView,
    PlacementView,
    Property,
    TopicView,
    configured,
)
from groupshift.domain.commit_places import Topics
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC, Answers, probe_names
from groupshift.domain.group_protocol import BrokerLook, KafkaGroup, Kind, ProtocolView
from groupshift.domain.partitions import grouped
from groupshift.domain.rows import GONE
from groupshift.domain.versions import METADATA
from groupshift.ports.clock import Clock

_UNKNOWN_TOPIC, _LEADER_NOT_AVAILABLE = 3, 5
_LOADING, _NOT_AVAILABLE, _NOT_COORDINATOR, _UNSUPPORTED, _NOT_FOUND = 14, 15, 16, 35, 69
_WAITING = frozenset({_LOADING, _NOT_AVAILABLE})
"""Error codes of a coordinator that is loading or not there yet."""
_GENERAL = 22
"""The first metadata.version of 4.0: groups have configurations from there on."""
_STATIC = 4
_CONFIGURED = frozenset({_STATIC, 2, 3})
"""Sources of a broker's value that is no default: its file, set for this broker, set for all brokers."""
_OF_TYPES = 1
"""The first ListConfigResources that lists the groups which have configurations (4.1)."""
_FLIP_S, _FLIP_READS = 2.0, 8
"""While its type changes a group is listed and not described for a moment; for longer when its partition of
``__consumer_offsets`` has moved, and a broker still holds the former one."""
LOADING = "Loading"
"""What stands for the state of a group whose coordinator is still reading its partition."""


class _Views(OfCluster):
    """Looks through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster, clock: Clock) -> None:
        super().__init__(cluster)
        self._clock = clock


class LiveDowngradeViews(_Views):
    """See the port."""

    def look(self) -> ClusterView:
        """See the port. The quorum is asked apart: without a controller a broker waits, and the rest is told
        still."""
        view = self._read()
        if not view.kraft:
            return view
        node = view.brokers[0].node_id
        try:
            return replace(view, quorum=describe_quorum(self._cluster.broker(node)))
        except (OSError, BrokerError) as why:
            self._cluster.drop(node)
            return replace(view, quorum_problem=str(why) or type(why).__name__)

    @attempted
    def _read(self) -> ClusterView:
        self._cluster.refuse_several()
        taken_at_ms = self._clock.now_ms()
        answers = self._cluster.ask_brokers(
            lambda connection, node: (
                list_groups(connection),
                ask_versions(connection),
                describe_configs(connection, BROKER, [str(node)]),
            )
        )
        brokers = tuple(_broker(node, *answers_of_it) for node, answers_of_it in answers.items())
        connections = [self._cluster.broker(broker.node_id) for broker in brokers]
        controller, topic = _offsets_topic(connections[0])
        highest: dict[str, int] = {}  # all brokers tell levels of one log, some behind
        for name, level in (each for broker in brokers for each in broker.finalised.items()):
            highest[name] = max(level, highest.get(name, 0))
        return ClusterView(
            cluster_id=self._cluster.cluster_id,
            taken_at_ms=taken_at_ms,
            brokers=brokers,
            kraft=any(Api.DESCRIBE_QUORUM in each.versions for each in connections),
            controller=controller,
            finalised={name: level for name, level in highest.items() if level},
            partitions=len(topic.leaders),
            leaderless=tuple(number for number, leader in enumerate(topic.leaders) if leader < 0),
            **_configs(connections[0], brokers),
        )


def _groups(node: int, listing: Any) -> Sequence[Any] | None:
    """What a broker lists; None while it reads coordinator partitions, and cannot tell all."""
    if listing.error_code in _WAITING:
        return None
    raise_for(listing.error_code, f"broker {node} does not list its groups")
    groups: Sequence[Any] = listing.groups
    return groups


def _broker(node: int, listing: Any, versions: Any, configs: Any) -> BrokerView:
    """One broker from its answers to ListGroups, ApiVersions and DescribeConfigs."""
    groups, (described,) = _groups(node, listing), configs.results
    return BrokerView(
        node_id=node,
        groups=tuple(
            KafkaGroup(
                group=each.group_id,
                kind=kind_of(each),
                protocol_type=each.protocol_type,
                state=getattr(each, "group_state", ""),
            )
            for each in sorted(groups or (), key=lambda group: str(group.group_id))
        ),
        loading=groups is None,
        supported=supported(versions),
        finalised=finalised(versions),
        properties={
            each.name: Property(value=each.value, static=each.config_source == _STATIC)
            for each in (() if described.error_code else described.configs)
            if each.config_source in _CONFIGURED
        },
        untold=error_name(described.error_code) if described.error_code else "",
    )


def _configs(connection: BrokerConnection, brokers: Sequence[BrokerView]) -> dict[str, Any]:
    """Of the groups that have any, or of all that are listed; a right that is missing is told."""
    if not any(each.supported.get(METADATA, (0, 0))[1] >= _GENERAL for each in brokers):
        return {}
    every = connection.highest(Api.LIST_CONFIG_RESOURCES) >= _OF_TYPES
    extent = {"configs_asked": Asked.EVERY if every else Asked.LISTED}
    try:
        names = sorted({group.group for broker in brokers for group in broker.groups})
        if every:
            request = connection.request(
                Api.LIST_CONFIG_RESOURCES, at_least=_OF_TYPES, resource_types=(GROUP,)
            )
            answer = connection.ask(request)
            raise_for(answer.error_code, "the groups with configurations are not listed")
            names = sorted(str(each.resource_name) for each in answer.config_resources)
        return {**extent, "group_configs": configs_of_groups(connection, names)}
    except BrokerError as why:
        if why.retriable:
            raise
        return {**extent, "configs_problem": str(why)}


def _offsets_topic(connection: BrokerConnection, *passing: int) -> tuple[int, TopicView]:
    """The controller and the offsets topic, as one broker's metadata tells them; of error codes of the topic
    only ``passing`` ones tell something."""
    answer = metadata(connection, [OFFSETS_TOPIC])
    (topic,) = answer.topics
    if int(topic.error_code) not in {_UNKNOWN_TOPIC, *passing}:
        raise_for(topic.error_code, f"topic {OFFSETS_TOPIC!r}")
    partitions = sorted(topic.partitions, key=lambda each: int(each.partition_index))
    late = [sorted(set(map(int, each.replica_nodes)) - set(map(int, each.isr_nodes))) for each in partitions]
    return int(answer.controller_id), TopicView(
        leaders=tuple(int(each.leader_id) for each in partitions),
        replicas=tuple(len(each.replica_nodes) for each in partitions),
        behind={number: tuple(nodes) for number, nodes in enumerate(late) if nodes},
    )


class LivePlacementViews(_Views):
    """See the port."""

    def look(self) -> PlacementView:
        """See the port."""
        return self._read(LiveDowngradeViews(self._cluster, self._clock).look())

    @attempted
    def owners(self, groups: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """See the port."""
        nodes_of: dict[str, tuple[int, ...]] = dict.fromkeys(sorted(groups), ())
        for node in self._cluster.brokers():
            connection = self._cluster.broker(node.node_id)
            for group, code, _ in fetch_now(connection, sorted(groups)):
                if code != _NOT_COORDINATOR:
                    raise_for(code, f"{connection.address} does not tell the offsets of {group!r}")
                    nodes_of[group] = (*nodes_of[group], node.node_id)
        return nodes_of

    @attempted
    def answering(self, groups: Collection[str]) -> frozenset[str]:
        """See the port: an offset that is not stable yet counts."""
        nodes = self._cluster.coordinated(groups)
        names_answering: set[str] = set()
        for node, names in grouped((nodes[group], group) for group in sorted(groups)).items():
            connection = self._cluster.broker(node)
            for group, code, topics in fetch_now(connection, names):
                raise_for(code, f"{connection.address} does not tell the offsets of {group!r}")
                if any(at.committed_offset >= 0 or at.error_code for at in by_partition(topics).values()):
                    names_answering.add(group)
        return frozenset(names_answering)

    @attempted
    def topics(self, names: Collection[str]) -> Topics:
        """See the port."""
        return Topics(now=told_topics(self._cluster, names))

    @attempted
    def _read(self, cluster: ClusterView) -> PlacementView:
        before = self._topics(cluster)
        topic = before[cluster.brokers[0].node_id]
        answers: tuple[Answers, ...] = ()
        if topic.leaders:  # asking for coordinators would make the topic
            counts = (each for broker in cluster.brokers if (each := configured(broker)))
            names = probe_names(topic.leaders, min(counts, default=0))
            answers = tuple(
                Answers(node_id=node, named=named_by(self._cluster.broker(node), names)) for node in before
            )
        after = self._topics(cluster)
        if any(each.leaders != after[node].leaders for node, each in before.items()):
            raise BrokerError(_NOT_AVAILABLE, f"leaders of {OFFSETS_TOPIC} changed meanwhile")
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
            for partition, transactions in open_commits(self._cluster).items():
                ids.setdefault(partition, set()).update(each.transactional_id for each in transactions)
            now = unstable(self._cluster, topic.leaders)
            held = tuple(each for each in now if number == 0 or each in held)
            if ids.keys() >= set(held):
                break
        return {partition: tuple(sorted(each)) for partition, each in ids.items()}, held

    def _topics(self, cluster: ClusterView) -> dict[int, TopicView]:
        """The offsets topic as each broker tells it."""
        return {
            broker.node_id: _offsets_topic(self._cluster.broker(broker.node_id), _LEADER_NOT_AVAILABLE)[1]
            for broker in cluster.brokers
        }


class LiveProtocolViews(_Views):
    """See the port."""

    def look(self, group: str) -> ProtocolView:
        """See the port."""
        until, reads = time.monotonic() + _FLIP_S, count(1)
        return self._cluster.attempt(
            lambda: self._read(group, patient=next(reads) < _FLIP_READS or time.monotonic() < until)
        )

    def _read(self, group: str, *, patient: bool) -> ProtocolView:
        self._cluster.refuse_several()
        taken_at_ms = self._clock.now_ms()
        answers = self._cluster.ask_brokers(
            lambda connection, node: (
                list_groups(connection),
                find_coordinators(connection, [group])[0][0],
                ask_versions(connection),
                describe_configs(connection, BROKER, [str(node)], OF_GROUPS),
            )
        )
        brokers = tuple(_look(node, group, *answers_of_it) for node, answers_of_it in answers.items())
        named = [broker.coordinator for broker in brokers if broker.coordinator is not None]
        unknown = KafkaGroup(group=group, kind=Kind.UNKNOWN)
        described = self._describe(group, named[0], brokers) if named else unknown
        if patient and described.kind is Kind.ABSENT and any(broker.lists for broker in brokers):
            raise BrokerError(_LOADING, f"group {group!r} is listed, but its coordinator describes none")
        return ProtocolView(
            cluster_id=self._cluster.cluster_id, taken_at_ms=taken_at_ms, group=described, brokers=brokers
        )

    def _describe(self, group: str, node: int, brokers: Sequence[BrokerLook]) -> KafkaGroup:
        """As the coordinator describes it: first as what it is listed, then as the other type, for it may
        have been converted in between. Of other types the list has all that is needed."""
        listed = {broker.lists: broker.state for broker in brokers if broker.lists is not None}
        for kind in (Kind.SHARE, Kind.STREAMS):
            if kind in listed:
                return KafkaGroup(group=group, kind=kind, state=listed[kind], coordinator=node)
        kinds = [Kind.CLASSIC, Kind.CONSUMER]
        connection = self._cluster.broker(node)
        for kind in reversed(kinds) if Kind.CONSUMER in listed else kinds:
            if kind is Kind.CONSUMER and connection.highest(DESCRIBED[kind]) < 0:
                continue
            ((request, _),) = describe(connection, kind, [group])
            (description,) = connection.ask(request).groups
            code = int(description.error_code)
            if code == _LOADING:
                return KafkaGroup(group=group, kind=Kind.UNKNOWN, state=LOADING, coordinator=node)
            if code == _UNSUPPORTED and kind in listed:
                return KafkaGroup(group=group, kind=kind, state=listed[kind], coordinator=node)
            if code not in {_UNSUPPORTED, _NOT_FOUND} and description.group_state != GONE:
                raise_for(code, f"group {group!r} is not described")
                return group_answer(kind, description, node).group
        kind = Kind.UNKNOWN if Kind.UNKNOWN in listed else Kind.ABSENT
        return KafkaGroup(group=group, kind=kind, coordinator=node)


def _look(node: int, group: str, listing: Any, coordinator: Any, *settings: Any) -> BrokerLook:
    """What one broker answers about a group to ListGroups and FindCoordinator, and of itself."""
    groups = _groups(node, listing)
    listed = next((each for each in groups or () if each.group_id == group), None)
    ((_, named, code),) = coordinators_in([group], coordinator)
    return BrokerLook(
        node_id=node,
        settings=settings_of(*settings),
        lists=kind_of(listed) if listed else None,
        state=getattr(listed, "group_state", ""),
        coordinator=None if code else named,
        loading=groups is None,
    )
