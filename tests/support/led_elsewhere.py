"""Leadership of every partition of a topic, moved to another replica while all brokers run: its replicas are
reordered (KIP-455), and the first of them is elected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import metadata
from groupshift.adapters.kafka.snapshots import listing
from groupshift.adapters.kafka.wire import BrokerError, raise_for
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.errors import Transient
from groupshift_sandbox.elections import elect_preferred
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.readiness import leaders_of

Replicas = Mapping[int, tuple[int, ...]]
"""By partition, in their order: the first is the preferred leader."""
_REASSIGN = 45
_WITHIN_S = 60.0


def replicas_of(cluster: Cluster, topic: str) -> Replicas:
    """As the brokers tell them now."""
    with _raw(cluster) as raw:
        (found,) = metadata(raw.broker(raw.brokers()[0].node_id), [topic]).topics
    return {int(each.partition_index): tuple(map(int, each.replica_nodes)) for each in found.partitions}


def turned(replicas: Replicas, by: int) -> Replicas:
    """The same replicas, begun with another one."""
    return {number: (*nodes[by:], *nodes[:by]) for number, nodes in replicas.items()}


def listed_often(cluster: Cluster) -> Mapping[str, int]:
    """How often each group is listed: once, or also where it lay before the topic had more partitions."""
    return {group: len(nodes) for group, nodes in _listing(cluster).items()}


def await_listed(cluster: Cluster, topic: str, often: Mapping[str, int]) -> None:
    """Wait until each group is listed so often, and by the leader of its partition: a broker loads what it
    got, and forgets what it handed on, some time after it tells that leaders changed."""
    leaders = leaders_of(cluster.brokers[0].address, topic)

    def settled() -> bool:
        found = _listing(cluster)
        return {group: len(nodes) for group, nodes in found.items()} == often and all(
            leaders[partition_of(group, len(leaders))] in nodes for group, nodes in found.items()
        )

    wait_until(settled, _WITHIN_S, "every group is listed by the leader of its partition", every_s=0.2)


def lead_by_first(cluster: Cluster, topic: str, replicas: Replicas) -> None:
    """Put replicas in this order, and wait until every broker tells the first as the leader: each leader is
    another one then."""
    before = leaders_of(cluster.brokers[0].address, topic)
    wanted = {number: nodes[0] for number, nodes in replicas.items()}
    _reassign(cluster, topic, replicas)

    def led() -> bool:
        try:
            elect_preferred(cluster, topic, wanted)
        except (Transient, BrokerError):
            return False
        return all(leaders_of(node.address, topic) == wanted for node in cluster.brokers)

    wait_until(led, _WITHIN_S, f"every partition of {topic} is led by another replica", every_s=0.2)
    assert [number for number, node in wanted.items() if node == before[number]] == []


@contextmanager
def _raw(cluster: Cluster) -> Iterator[KafkaCluster]:
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=_WITHIN_S)) as raw:
        yield raw


def _listing(cluster: Cluster) -> dict[str, tuple[int, ...]]:
    """Which brokers list each group."""
    with _raw(cluster) as raw:
        found, _ = raw.attempt(lambda: listing(raw))
    return {group: each.brokers for group, each in found.items()}


def _reassign(cluster: Cluster, topic: str, replicas: Replicas) -> None:
    """Asked of the controller: with ZooKeeper no other broker does it."""
    schema = load_payload_module(_REASSIGN, 0, EntityType.request)
    partitions = tuple(
        schema.ReassignablePartition(partition_index=number, replicas=nodes)
        for number, nodes in replicas.items()
    )
    asked = schema.AlterPartitionReassignmentsRequest(
        timeout=dt.timedelta(seconds=_WITHIN_S),
        topics=(schema.ReassignableTopic(name=topic, partitions=partitions),),
    )
    with _raw(cluster) as raw:
        told = metadata(raw.broker(raw.brokers()[0].node_id), [topic])
        answer = raw.broker(int(told.controller_id)).ask(asked, timeout_s=_WITHIN_S + 5.0)
    raise_for(answer.error_code, f"replicas of {topic} are not put in order", said=answer.error_message)
    for found in answer.responses:
        for each in found.partitions:
            raise_for(each.error_code, f"{topic}-{each.partition_index}", said=each.error_message)
