"""Live looks at placement, each broker by itself: `groupshift.ports.cluster.PlacementViews`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.commit_places import told_topics
from groupshift.adapters.kafka.raw.coordinator_calls import named_by, served_by, with_offsets
from groupshift.adapters.kafka.raw.downgrade_views import LiveDowngradeViews
from groupshift.adapters.kafka.raw.replicas import metadata_of
from groupshift.adapters.kafka.raw.transactions import OFFSETS_TOPIC, open_commits, unstable
from groupshift.adapters.kafka.raw.wire import BrokerError, raise_for
from groupshift.domain.cluster import ClusterView, PlacementView, TopicView, configured
from groupshift.domain.commit_places import Topics
from groupshift.domain.placement import Answers, probe_names
from groupshift.ports.clock import Clock

_UNKNOWN_TOPIC = 3
_LEADER_NOT_AVAILABLE = 5
_NOT_AVAILABLE = 15


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
            for partition, found in open_commits(self._cluster).items():
                ids.setdefault(partition, set()).update(each.transactional_id for each in found)
            now = unstable(self._cluster, topic.leaders)
            held = tuple(each for each in now if number == 0 or each in held)
            if ids.keys() >= set(held):
                break
        return {partition: tuple(sorted(each)) for partition, each in ids.items()}, held

    def _topics(self, cluster: ClusterView) -> dict[int, TopicView]:
        """The offsets topic as each broker tells it."""
        return {broker.node_id: _topic(self._cluster.broker(broker.node_id)) for broker in cluster.brokers}

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


def _topic(connection: BrokerConnection) -> TopicView:
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
