"""The configuration of a node, whatever its role (docs/reference/group-coordinator.md §8.1)."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift_sandbox.layout import Cluster, Node, Role

_LOGS = {"log.retention.ms": "-1", "log.cleaner.dedupe.buffer.size": "20000000"}
_PATIENCE = {
    "controller.quorum.election.timeout.ms": "5000",
    "controller.quorum.fetch.timeout.ms": "10000",
    "controller.quorum.request.timeout.ms": "10000",
    "broker.session.timeout.ms": "30000",
    "initial.broker.registration.timeout.ms": "180000",
}
"""On a machine with many times more to do than cores, the stock second or two elects for ever."""


def node_properties(cluster: Cluster, node: Node) -> dict[str, str]:
    """What the node is configured with; its own properties win over the cluster's, those over ours."""
    protocols = {"PLAINTEXT": "PLAINTEXT", **cluster.options.listeners}
    if node.role is Role.ZOOKEEPER_MODE:
        identity = {
            "broker.id": str(node.node_id),
            "zookeeper.connect": cluster.zookeeper,
            "zookeeper.session.timeout.ms": "30000",
        }
    else:
        protocols = {"CONTROLLER": "PLAINTEXT", **protocols}
        voters = (f"{each.node_id}@{each.at('CONTROLLER')}" for each in cluster.voters)
        identity = {
            "process.roles": node.role.value,
            "node.id": str(node.node_id),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            **_PATIENCE,
        }
    return {
        **identity,
        **listener_properties(node.ports, protocols, node.advertised),
        "log.dirs": str(node.folder),
        **_internal_topics(len(cluster.brokers)),
        **_LOGS,
        **cluster.options.properties,
        **node.properties,
    }


def listener_properties(
    ports: Mapping[str, int], protocols: Mapping[str, str], advertised: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Listeners on 127.0.0.1 by name, with the ports that clients are told where they are others; nobody but
    nodes is told of CONTROLLER."""
    shown = {**ports, **(advertised or {})}
    shown.pop("CONTROLLER", None)
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
    }
    if shown:
        properties["advertised.listeners"] = ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in shown.items()
        )
        properties["inter.broker.listener.name"] = "PLAINTEXT"
    return properties


def _internal_topics(brokers: int) -> dict[str, str]:
    """Internal topics on every broker, leaders where they are preferred soon after a start, and groups that
    do not wait for a first member's friends."""
    return {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "10",
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": str(brokers),
        "transaction.state.log.min.isr": str(min(brokers, 2)),
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": str(brokers),
        "share.coordinator.state.topic.min.isr": str(min(brokers, 2)),
        "group.initial.rebalance.delay.ms": "0",
        "leader.imbalance.check.interval.seconds": "5",
    }
