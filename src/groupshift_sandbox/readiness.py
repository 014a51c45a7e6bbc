"""When a node is ready for the next step (docs/reference/group-coordinator.md §8.3).

A broker answers ApiVersions at its own port, names every broker that runs, sees every replica on a running
broker in sync and a leader for each partition, and has loaded the coordinator's partitions that it leads. A
controller answers at its own port; as soon as a broker can be asked, a voter must have caught up too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from groupshift.adapters.kafka.cluster_changes import names
from groupshift.adapters.kafka.connection_and_login import Access, BrokerConnection
from groupshift.adapters.kafka.requests import (
    describe_quorum,
    fetch_offsets,
    fetched,
    metadata,
    replicas_lacking,
)
from groupshift.adapters.kafka.wire import BrokerError, UnsupportedByBroker, error_name
from groupshift.domain.cluster import QuorumView
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC
from groupshift_sandbox.broker_log import failed_partitions
from groupshift_sandbox.layout import Node

_ANSWER_S = 5.0


def connect_to(address: str) -> BrokerConnection:
    """A connection to exactly this ``host:port``. Raises OSError."""
    host, _, port = address.rpartition(":")
    return BrokerConnection(host, int(port), Access(timeout_s=_ANSWER_S))


def what_lacks(node: Node, running: Collection[Node], log: Path) -> str:
    """Why the node is not ready yet; empty when it is. ``running`` are the nodes whose processes live;
    ``log`` tells which partitions of the coordinator could not be loaded: they are not waited for."""
    try:
        connection = connect_to(node.address)
    except OSError as why:
        return f"no answer at {node.address} ({why})"
    try:
        if node.serves_clients:
            return _broker_lacks(connection, node, running, log)
    except (OSError, BrokerError, UnsupportedByBroker) as why:
        return str(why)
    finally:
        connection.close()
    return _controller_lacks(node, running)


def _broker_lacks(connection: BrokerConnection, node: Node, running: Collection[Node], log: Path) -> str:
    wanted = {each.node_id for each in running if each.serves_clients}
    cluster_metadata = metadata(connection, None)
    missing = wanted - {int(each.node_id) for each in cluster_metadata.brokers}
    if missing:
        return f"it does not name broker {', '.join(map(str, sorted(missing)))}"
    topics = cluster_metadata.topics
    lack = replicas_lacking(topics, wanted) or _loading(connection, node, topics, log)
    return lack or (_quorum_lacks(describe_quorum(connection), node) if node.votes else "")


def _loading(connection: BrokerConnection, node: Node, topics: Iterable[Any], log: Path) -> str:
    """The first of the coordinator's partitions led here that does not serve its groups yet."""
    partitions = [each for topic in topics if topic.name == OFFSETS_TOPIC for each in topic.partitions]
    led = {int(each.partition_index) for each in partitions if int(each.leader_id) == node.node_id}
    probes = {group: number for number, group in _probes(len(partitions)).items() if number in led}
    for request, groups in fetch_offsets(connection, list(probes)):
        for group, code, _ in fetched(groups, connection.ask(request)):
            if code and probes[group] not in failed_partitions(log):
                return f"its groups are not served yet: {error_name(code)}"
    return ""


@cache
def _probes(partitions: int) -> dict[int, str]:
    """For each partition of the offsets topic the name of a group that nobody has."""
    return names(partitions, "groupshift-probe-")


def _controller_lacks(node: Node, running: Collection[Node]) -> str:
    """Asked of any broker; while none answers, that it listens is all there is to know."""
    for broker in running:
        quorum = quorum_at(broker) if broker.serves_clients else None
        if quorum is not None:
            return _quorum_lacks(quorum, node)
    return ""


def quorum_at(broker: Node) -> QuorumView | None:
    """The metadata quorum as a broker tells it, or None when it does not now."""
    try:
        with closing(connect_to(broker.address)) as connection:
            return describe_quorum(connection)
    except (OSError, BrokerError, UnsupportedByBroker):
        return None


def _quorum_lacks(quorum: QuorumView, node: Node) -> str:
    if node.node_id in quorum.behind or node.node_id not in quorum.voters:
        return f"its metadata log ends before the quorum's at {quorum.high_watermark}"
    return ""


def leaders_of(address: str, topic: str) -> dict[int, int]:
    """Partition → node id of its leader (-1: none) as the broker at ``address`` tells it. Raises OSError."""
    with closing(connect_to(address)) as connection:
        topics = metadata(connection, None).topics
    partitions = (each for named in topics if named.name == topic for each in named.partitions)
    return {int(each.partition_index): int(each.leader_id) for each in partitions}
