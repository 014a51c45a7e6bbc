"""Starting a node of a cluster with the jars of its release, and waiting until it is ready."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

from groupshift.adapters.spark_submit.java import java_binary
from groupshift.errors import Rejected, Transient
from groupshift_sandbox.artifacts import BROKERS, LOGGING, SIMPLE_LOGGING, class_path
from groupshift_sandbox.broker_log import mark_start
from groupshift_sandbox.cluster_file import save
from groupshift_sandbox.home import Home
from groupshift_sandbox.layout import Cluster, Node
from groupshift_sandbox.logging_properties import write_logging
from groupshift_sandbox.node_properties import node_properties
from groupshift_sandbox.processes import (
    Command,
    Running,
    is_running,
    known,
    marked,
    send,
    start,
    stop,
)
from groupshift_sandbox.readiness import what_lacks

_READY_S = 200.0
_PAUSE_S = 0.1
_LOG4J_1 = "3."
"""Releases whose log binding is log4j 1; since 4.0 it is Log4j 2, which we do not configure."""


def write_configuration(cluster: Cluster, node: Node) -> str:
    """Write the node's properties file; returns its path."""
    file = cluster.home.configuration / f"{node.name}.properties"
    lines = (f"{key}={value}\n" for key, value in node_properties(cluster, node).items())
    file.write_text("".join(lines))
    return str(file)


def start_node(cluster: Cluster, node: Node) -> Running:
    """Start a node (again) with its present release and properties, without waiting: see `await_node`."""
    options, home = cluster.options, cluster.home
    argv = [
        java_binary(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{options.heap}", *options.java,
        *_jmx_options(node), *logging_options(home, node.release),
        "-cp", broker_class_path(node.release), "kafka.Kafka", write_configuration(cluster, node),
    ]  # fmt: skip
    mark_start(log_of(cluster, node), f"{node.name} with Kafka {node.release}")
    return start(home, Command(name=node.name, argv=argv))


def log_of(cluster: Cluster, node: Node) -> Path:
    """The log file of a node, of all its starts."""
    return cluster.home.logs / f"{node.name}.log"


def await_node(cluster: Cluster, node: Node, process: Running) -> None:
    """Wait until the node is ready (`readiness.what_lacks`).

    Raises `Transient` when it died, or is not ready in time: then with what it still lacks."""
    end, lacks = time.monotonic() + _READY_S, "it was not asked yet"
    log = log_of(cluster, node)
    while is_running(process):
        lacks = what_lacks(node, running(cluster), log)
        if not lacks:
            return
        if time.monotonic() > end:
            raise Transient(f"{node.name} is not ready within {_READY_S:g} s: {lacks}; its log is {log}")
        time.sleep(_PAUSE_S)
    raise Transient(f"{node.name} ended at start; its log is {log}")


def running(cluster: Cluster) -> tuple[Node, ...]:
    """The nodes whose processes live."""
    processes = ((node, known(cluster.home, node.name)) for node in cluster.nodes)
    return tuple(node for node, process in processes if process is not None and is_running(process))


def start_all(cluster: Cluster, prepare: Callable[[Cluster, Node], None]) -> None:
    """Prepare every node, start all, wait until all are ready, and write the cluster down.

    Raises as `await_node`."""
    for node in cluster.nodes:
        prepare(cluster, node)
    processes = [(node, start_node(cluster, node)) for node in cluster.nodes]
    for node, process in processes:
        await_node(cluster, node, process)
    save(cluster)


def stop_all(home: Home, *, last: Collection[str] = ("zookeeper",), deadline_s: float = 15.0) -> None:
    """End every process of this sandbox, together; those named ``last`` after the others, which need them to
    shut down in order. What has not ended after ``deadline_s`` is killed: of a quorum of combined nodes the
    last ones find no controller."""
    left = marked(home)
    for part in (
        [process for process in left if process.name not in last],
        [process for process in left if process.name in last],
    ):
        for process in part:
            send(process, signal.SIGTERM)
        for process in part:
            stop(process, deadline_s)


def broker_class_path(release: str) -> str:
    """The class path of a release with a log binding. Raises `Rejected` for one that is not known."""
    if release not in BROKERS:
        raise Rejected(f"release {release!r} is not known here; choose one of {', '.join(sorted(BROKERS))}")
    binding = LOGGING if release.startswith(_LOG4J_1) else SIMPLE_LOGGING
    return class_path(binding, BROKERS[release])


def _jmx_options(node: Node) -> list[str]:
    """JVM options that open JMX on 127.0.0.1 only, registry and objects at one port."""
    remote = "-Dcom.sun.management.jmxremote"
    ports = [f"{remote}.port={node.jmx}", f"{remote}.rmi.port={node.jmx}"]
    local = [f"{remote}.host=127.0.0.1", "-Djava.rmi.server.hostname=127.0.0.1"]
    return [*ports, *local, f"{remote}.authenticate=false", f"{remote}.ssl=false"] if node.jmx else []


def logging_options(home: Home, release: str) -> list[str]:
    """JVM options that make the release log one line an event to standard error."""
    if release.startswith(_LOG4J_1):
        return [f"-Dlog4j.configuration=file:{write_logging(home)}"]
    return ["-Dorg.slf4j.simpleLogger.showDateTime=true"]
