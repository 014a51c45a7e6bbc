"""KRaft brokers of a published release as child processes: one combined node, or three of one cluster.

Files and readiness follow specs/group-coordinator.md, sections 8.1 and 8.3: a node is ready when it answers
ApiVersions at its own port and names every node of the cluster as a broker.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.errors import Broken, GroupshiftError, Transient
from groupshift.sandbox.artifacts import BROKERS, LOGGING, SIMPLE_LOGGING, class_path
from groupshift.sandbox.home import Home
from groupshift.sandbox.java import java_binary
from groupshift.sandbox.logging_properties import write_logging
from groupshift.sandbox.processes import Command, Running, free_port, is_running, start, wait_until

_READY_S = 200.0
_FORMAT_S = 120.0
_ANSWER_S = 5.0
_LOG4J_1 = "3."
"""Releases whose log binding is log4j 1; since 4.0 it is Log4j 2, which we do not configure."""

_LOGS = {"log.retention.ms": "-1", "log.cleaner.dedupe.buffer.size": "20000000"}
_PATIENCE = {
    "controller.quorum.election.timeout.ms": "5000",
    "controller.quorum.fetch.timeout.ms": "10000",
    "controller.quorum.request.timeout.ms": "10000",
    "broker.session.timeout.ms": "30000",
    "initial.broker.registration.timeout.ms": "180000",
}
"""On a machine with many times more to do than cores, the stock second or two elects for ever."""

CONSUMER_PROTOCOL = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
}
"""What makes a 3.9.2 run its NEW coordinator and serve groups of type consumer; 4.x does by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KraftOptions:
    """``release`` one of `BROKERS`; ``name`` the prefix of processes and folders; ``listeners`` further ones
    by name with their security protocol; ``format_arguments`` go to StorageTool (``--release-version 3.9``,
    ``--add-scram …``); ``properties`` come last and win."""

    release: str = "4.3.1"
    nodes: int = 1
    name: str = "kraft"
    heap: str = "512m"
    listeners: Mapping[str, str] = field(default_factory=dict)
    format_arguments: Sequence[str] = ()
    java: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KraftNode:
    """One node: ``ports`` by name of the listener (PLAINTEXT, CONTROLLER and those asked for)."""

    node_id: int
    ports: Mapping[str, int]
    folder: Path
    name: str

    @property
    def address(self) -> str:
        """Where clients without credentials connect."""
        return self.at("PLAINTEXT")

    def at(self, listener: str) -> str:
        """``127.0.0.1:<port>`` of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KraftCluster:
    """The nodes of one cluster that were started, in order of their ids."""

    home: Home
    cluster_id: str
    options: KraftOptions
    nodes: tuple[KraftNode, ...]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes."""
        return ",".join(node.address for node in self.nodes)


def start_kraft(home: Home, options: KraftOptions = KraftOptions()) -> KraftCluster:
    """Format and start the nodes and wait until all answer. Raises `Transient` when they do not in time.

    The caller ends them with `processes.stop` (``marked(home)`` finds them all)."""
    cluster = KraftCluster(
        home=home,
        cluster_id=_cluster_id(),
        options=options,
        nodes=tuple(_node(home, options, number) for number in range(1, options.nodes + 1)),
    )
    for node in cluster.nodes:
        _configure(cluster, node)
        _format(cluster, node)
    running = {node.node_id: start_node(cluster, node) for node in cluster.nodes}
    for node in cluster.nodes:
        await_node(cluster, node, running[node.node_id])
    return cluster


def start_node(cluster: KraftCluster, node: KraftNode) -> Running:
    """Start a formatted node (again), without waiting for it: see `await_node`."""
    options, home = cluster.options, cluster.home
    argv = [
        java_binary(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{options.heap}", *options.java,
        *_logging(home, options.release),
        "-cp", _class_path(options.release), "kafka.Kafka", str(_file(home, node)),
    ]  # fmt: skip
    return start(home, Command(name=node.name, argv=argv))


def await_node(cluster: KraftCluster, node: KraftNode, process: Running) -> None:
    """Wait until the node answers and names every node. Raises `Transient` when it died or is late."""
    expected = {each.node_id for each in cluster.nodes}
    wait_until(
        lambda: not is_running(process) or _named(node.address) >= expected,
        _READY_S,
        f"{node.name} answers",
        every_s=0.1,
    )
    if not is_running(process):
        raise Transient(f"{node.name} ended at start; its log is {cluster.home.logs / (node.name + '.log')}")


def _cluster_id() -> str:
    """A random id in the form of Kafka's, which never begins like an option of a command."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _named(address: str) -> set[int]:
    """Node ids of the brokers that this one names; empty when it does not answer yet."""
    asked = KafkaCluster(address, timeout_s=_ANSWER_S)
    try:
        return {broker.node_id for broker in asked.brokers()}
    except (OSError, GroupshiftError):
        return set()
    finally:
        asked.close()


def _node(home: Home, options: KraftOptions, number: int) -> KraftNode:
    name = f"{options.name}-{number}"
    listeners = ("PLAINTEXT", "CONTROLLER", *options.listeners)
    return KraftNode(
        node_id=number,
        ports={listener: free_port() for listener in listeners},
        folder=home.root / name,
        name=name,
    )


def _file(home: Home, node: KraftNode) -> Path:
    return home.configuration / f"{node.name}.properties"


def _configure(cluster: KraftCluster, node: KraftNode) -> None:
    properties = node_properties(cluster, node)
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    _file(cluster.home, node).write_text(text)


def node_properties(cluster: KraftCluster, node: KraftNode) -> dict[str, str]:
    """The configuration of a combined node: stock behaviour for groups except for the first join's delay."""
    options, count = cluster.options, len(cluster.nodes)
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **options.listeners}
    listeners = {name: f"{name}://{node.at(name)}" for name in protocols}
    voters = (f"{each.node_id}@{each.at('CONTROLLER')}" for each in cluster.nodes)
    advertised = (where for name, where in listeners.items() if name != "CONTROLLER")
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:{at}" for name, at in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(node.folder),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "10",
        "offsets.topic.replication.factor": str(count),
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": str(count),
        "transaction.state.log.min.isr": str(min(count, 2)),
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": str(count),
        "share.coordinator.state.topic.min.isr": str(min(count, 2)),
        "group.initial.rebalance.delay.ms": "0",
        "leader.imbalance.check.interval.seconds": "5",
        **_PATIENCE,
        **_LOGS,
        **options.properties,
    }


def _format(cluster: KraftCluster, node: KraftNode) -> None:
    options = cluster.options
    argv = [
        java_binary(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
        *_logging(cluster.home, options.release), "-cp", _class_path(options.release),
        "kafka.tools.StorageTool", "format", "-t", cluster.cluster_id,
        "-c", str(_file(cluster.home, node)), *options.format_arguments,
    ]  # fmt: skip
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=_FORMAT_S, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-600:]
        raise Broken(f"{node.name} of Kafka {options.release} could not be formatted: {said}")


def _class_path(release: str) -> str:
    if release not in BROKERS:
        raise Broken(f"no KRaft release {release!r} is known here; there are {', '.join(sorted(BROKERS))}")
    binding = LOGGING if release.startswith(_LOG4J_1) else SIMPLE_LOGGING
    return class_path(binding, BROKERS[release])


def _logging(home: Home, release: str) -> list[str]:
    if not release.startswith(_LOG4J_1):
        return []
    return [f"-Dlog4j.configuration=file:{write_logging(home)}"]
