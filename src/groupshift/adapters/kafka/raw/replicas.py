"""Metadata of one broker: whether every partition is led and every replica on a running broker in sync."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.wire import Api, fill


def all_metadata(connection: BrokerConnection) -> Any:
    """Brokers and all topics, as this very broker tells them."""
    return _metadata(connection, None)


def metadata_of(connection: BrokerConnection, topic: str) -> Any:
    """Brokers and one topic, as this very broker tells them; asking does not make the topic."""
    return _metadata(connection, topic)


def _metadata(connection: BrokerConnection, topic: str | None) -> Any:
    schema = connection.messages(Api.METADATA, at_least=4, at_most=9)
    asked = fill(
        schema.MetadataRequest,
        topics=None if topic is None else (schema.MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return connection.ask(asked)


def replicas_lacking(topics: Iterable[Any], wanted: Collection[int]) -> str:
    """The first partition without a leader, or with a replica on one of these brokers that is not in sync;
    empty when there is none."""
    for topic in topics:
        for each in topic.partitions:
            late = (set(map(int, each.replica_nodes)) & set(wanted)) - set(map(int, each.isr_nodes))
            where = f"{topic.name}-{each.partition_index}"
            if int(each.leader_id) < 0:
                return f"{where} has no leader"
            if late:
                return f"{where} is not in sync on broker {', '.join(map(str, sorted(late)))}"
    return ""


def cluster_lacking(cluster: KafkaCluster, brokers: Collection[int], topic: str | None = None) -> str:
    """Which of these brokers is not registered, or what `replicas_lacking` says of every topic, or this one,
    as each of them tells it; empty when all is whole. Raises `BrokerError`."""
    registered = {node.node_id for node in cluster.brokers()}
    missing = sorted(set(brokers) - registered)
    if missing:
        return f"broker {', '.join(map(str, missing))} is not registered"
    told = (_metadata(cluster.broker(node), topic) for node in sorted(brokers))
    return next((found for each in told if (found := replicas_lacking(each.topics, brokers))), "")
