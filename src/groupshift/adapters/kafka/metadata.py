"""Features, metadata quorum and replicas of a cluster, as any one broker knows them.

Features can be changed, too. Replicas: whether every partition has a leader and every replica is in sync on
a running broker. Sources: KIP-584 (features), KIP-778 (safe and unsafe downgrades), KIP-595 and KIP-836
(DescribeQuorum).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import metadata
from groupshift.adapters.kafka.wire import Api, raise_for

_METADATA_LOG = "__cluster_metadata"


class FeatureChange(IntEnum):
    """What a change of a feature's level may do (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The metadata log: its leader, how far it is committed, and where each voter's copy ends."""

    leader: int
    high_watermark: int
    voters: Mapping[int, int]


def describe_quorum(connection: BrokerConnection) -> Quorum:
    """The metadata quorum now. Raises `BrokerError`, `UnsupportedByBroker` (ZooKeeper mode, before 3.3)."""
    topic = {"topic_name": _METADATA_LOG, "partitions": [{"partition_index": 0}]}
    answer = connection.ask(connection.request(Api.DESCRIBE_QUORUM, at_most=2, topics=[topic]))
    raise_for(answer.error_code, "the metadata quorum is not told")
    (found,) = answer.topics[0].partitions
    raise_for(found.error_code, "the metadata quorum is not told")
    return Quorum(
        leader=int(found.leader_id),
        high_watermark=int(found.high_watermark),
        voters={int(each.replica_id): int(each.log_end_offset) for each in found.current_voters},
    )


def update_features(
    connection: BrokerConnection,
    levels: Mapping[str, int],
    *,
    change: FeatureChange = FeatureChange.UPGRADE,
    validate_only: bool = False,
    timeout_s: float = 30.0,
) -> None:
    """Give features these levels (0: none), all or none of them.

    Raises `BrokerError` with the broker's words when one is refused."""
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": change}
        for name, level in levels.items()
    ]
    asked = connection.request(
        Api.UPDATE_FEATURES,
        at_least=1,  # 0 cannot tell a safe downgrade from an unsafe one
        at_most=2,
        timeout=dt.timedelta(seconds=timeout_s),
        feature_updates=updates,
        validate_only=validate_only,
    )
    answer = connection.ask(asked, timeout_s=timeout_s + 5.0)
    what = ", ".join(f"{name} to {level}" for name, level in levels.items())
    raise_for(answer.error_code, f"features are not changed ({what})", said=answer.error_message)
    for each in getattr(answer, "results", ()):
        raise_for(
            each.error_code,
            f"{each.feature} is not changed to {levels[each.feature]}",
            said=each.error_message,
        )


def all_metadata(connection: BrokerConnection) -> Any:
    """Brokers and all topics, as this very broker tells them."""
    return metadata(connection, None)


def metadata_of(connection: BrokerConnection, topic: str) -> Any:
    """Brokers and one topic, as this very broker tells them; asking does not make the topic."""
    return metadata(connection, [topic])


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
    told = (metadata(cluster.broker(node), [topic] if topic else None) for node in sorted(brokers))
    return next((found for each in told if (found := replicas_lacking(each.topics, brokers))), "")
