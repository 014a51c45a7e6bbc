"""What a downgrade changes through the brokers: `groupshift.ports.changes.ClusterActs`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from groupshift.adapters.kafka.raw import alter_configs, churn
from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.classic_join import join_and_leave
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.features import FeatureChange, update_features
from groupshift.adapters.kafka.raw.reading import listing
from groupshift.adapters.kafka.raw.replicas import cluster_lacking
from groupshift.adapters.kafka.raw.transactions import OFFSETS_TOPIC
from groupshift.adapters.kafka.raw.wire import raise_for


class LiveClusterActs:
    """Acts through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def convert_empty(self, group: str) -> None:
        """See the port."""
        self._cluster.attempt(lambda: join_and_leave(self._coordinator(group), group))

    def topic_configs(self) -> Mapping[str, str]:
        """See the port."""
        return self._cluster.attempt(lambda: alter_configs.topic_configs(self._any(), OFFSETS_TOPIC))

    def configure_topic(self, values: Mapping[str, str | None]) -> None:
        """See the port."""
        self._alter(alter_configs.TOPIC, OFFSETS_TOPIC, values)

    def churn(self) -> None:
        """See the port."""
        self._cluster.attempt(lambda: churn.commit_each(self._cluster, churn.names(self._partitions())))

    def remove_churn(self) -> None:
        """See the port."""
        self._cluster.attempt(lambda: churn.delete(self._cluster, churn.names(self._partitions()).values()))

    def churning(self) -> Collection[str]:
        """See the port."""
        listed, _ = self._cluster.attempt(lambda: listing(self._cluster))
        return {group for group in listed if group.startswith(churn.PREFIX)}

    def configure_group(self, group: str, values: Mapping[str, str | None]) -> None:
        """See the port."""
        self._alter(alter_configs.GROUP, group, values)

    def lower_feature(self, feature: str, level: int) -> None:
        """See the port."""
        self._feature(feature, level, FeatureChange.SAFE_DOWNGRADE)

    def raise_feature(self, feature: str, level: int) -> None:
        """See the port."""
        self._feature(feature, level, FeatureChange.UPGRADE)

    def lacks(self, brokers: Collection[int]) -> str:
        """See the port: as every one of these brokers tells it."""
        return self._cluster.attempt(lambda: cluster_lacking(self._cluster, brokers))

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _alter(self, kind: int, name: str, values: Mapping[str, str | None]) -> None:
        self._with_any(lambda connection: alter_configs.alter(connection, kind, name, values))

    def _feature(self, feature: str, level: int, change: FeatureChange) -> None:
        self._with_any(lambda connection: update_features(connection, {feature: level}, change=change))

    def _with_any(self, work: Callable[[BrokerConnection], None]) -> None:
        self._cluster.attempt(lambda: work(self._any()))

    def _any(self) -> BrokerConnection:
        return self._cluster.broker(self._cluster.brokers()[0].node_id)

    def _partitions(self) -> int:
        return len(self._cluster.leaders([OFFSETS_TOPIC]))

    def _coordinator(self, group: str) -> BrokerConnection:
        nodes, errors = self._cluster.coordinators([group])
        for code in errors.values():
            raise_for(code, f"group {group!r} has no coordinator")
        return self._cluster.broker(nodes[group])
