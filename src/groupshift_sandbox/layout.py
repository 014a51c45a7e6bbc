"""What a cluster of the sandbox consists of: nodes with roles, releases, ports and folders of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from groupshift.errors import Rejected
from groupshift_sandbox.home import Home


class Role(StrEnum):
    """What a node does; the first three are KRaft's ``process.roles``."""

    COMBINED = "broker,controller"
    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER_MODE = "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """``release`` one of `artifacts.BROKERS`; ``nodes`` how many brokers; ``name`` the prefix of processes
    and folders; ``listeners`` further ones by name with their security protocol; ``java`` options of JVMs;
    ``jmx`` opens JMX at each node, without login; ``properties`` win over ours. A listener whose name begins
    with ``RELAY`` tells clients another port than its own, where its relay listens."""

    release: str
    nodes: int = 1
    name: str = "kafka"
    heap: str = "512m"
    listeners: Mapping[str, str] = field(default_factory=dict)
    java: Sequence[str] = ()
    jmx: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: ``ports`` by name of the listener (PLAINTEXT, CONTROLLER and those asked for); ``properties``
    are its own, and win over the cluster's; ``folder`` stays the same under every release; ``jmx`` is the
    port of JMX on 127.0.0.1 (0: closed); ``advertised`` ports are those that clients are told instead."""

    node_id: int
    name: str
    role: Role
    release: str
    ports: Mapping[str, int]
    folder: Path
    properties: Mapping[str, str] = field(default_factory=dict)
    jmx: int = 0
    advertised: Mapping[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where it answers without credentials: clients, or, of a mere controller, the other nodes."""
        return self.at("CONTROLLER" if self.role is Role.CONTROLLER else "PLAINTEXT")

    @property
    def serves_clients(self) -> bool:
        """Whether it is a broker."""
        return self.role is not Role.CONTROLLER

    @property
    def votes(self) -> bool:
        """Whether it is a voter of the metadata quorum."""
        return self.role in (Role.COMBINED, Role.CONTROLLER)

    def at(self, listener: str) -> str:
        """``127.0.0.1:<port>`` of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"


Change = Callable[[Node], Node]
"""What becomes of a node at its next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The nodes of one cluster; ``zookeeper`` is ``host:port/chroot``, empty in KRaft mode."""

    home: Home
    cluster_id: str
    options: ServerOptions
    nodes: tuple[Node, ...]
    zookeeper: str = ""

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The nodes that serve clients."""
        return tuple(node for node in self.nodes if node.serves_clients)

    @property
    def voters(self) -> tuple[Node, ...]:
        """The nodes that vote in the metadata quorum; none in ZooKeeper mode."""
        return tuple(node for node in self.nodes if node.votes)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(node.address for node in self.brokers)

    def node(self, node_id: int) -> Node:
        """The node with this id. Raises `Rejected` when there is none."""
        for each in self.nodes:
            if each.node_id == node_id:
                return each
        ids = ", ".join(str(each.node_id) for each in self.nodes)
        raise Rejected(f"node {node_id} is not of this cluster; choose one of {ids}")

    def having(self, changed: Node) -> Cluster:
        """The same cluster with this node in the place of the one with its id."""
        nodes = (changed if each.node_id == changed.node_id else each for each in self.nodes)
        return replace(self, nodes=tuple(nodes))


def unchanged(node: Node) -> Node:
    """The change of a mere restart."""
    return node


def to_release(release: str) -> Change:
    """The change to the jars of another release, over the same folder."""
    return lambda node: replace(node, release=release)


def with_properties(properties: Mapping[str, str]) -> Change:
    """The change of some of a node's own properties; the others stay."""
    return lambda node: replace(node, properties={**node.properties, **properties})
