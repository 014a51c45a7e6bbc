"""Starting a node of a cluster with the jars of its release, and waiting until it is ready."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from groupshift.errors import Rejected, Transient
from groupshift_sandbox.artifacts import BROKERS, LOGGING, SIMPLE_LOGGING, class_path
from groupshift_sandbox.broker_log import mark_start
from groupshift_sandbox.cluster_file import save
from groupshift_sandbox.home import Home
from groupshift_sandbox.jvm import java_argv, write_properties, writes_log4j
from groupshift_sandbox.layout import Cluster, Node, Role, ServerOptions
from groupshift_sandbox.node_properties import node_properties
from groupshift_sandbox.processes import (
    Command,
    Running,
    free_port,
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


_OWN_LISTENERS = {Role.COMBINED: ("PLAINTEXT", "CONTROLLER"), Role.CONTROLLER: ("CONTROLLER",)}


def new_node(
    home: Home,
    options: ServerOptions,
    number: int,
    role: Role,
    *,
    release: str = "",
    properties: Mapping[str, str] | None = None,
) -> Node:
    """A node with ports and a folder of its own, of the cluster's release when ``release`` is empty."""
    name = f"{options.name}-{number}"
    more = () if role is Role.CONTROLLER else options.listeners
    listeners = (*_OWN_LISTENERS.get(role, ("PLAINTEXT",)), *more)
    return Node(
        node_id=number,
        name=name,
        role=role,
        release=release or options.release,
        ports={listener: free_port() for listener in listeners},
        folder=home.root / name,
        properties=properties or {},
        jmx=free_port() if options.jmx else 0,
    )


def start_node(cluster: Cluster, node: Node) -> Running:
    """Start a node (again) with its present release and properties, without waiting: see `await_node`."""
    options, home = cluster.options, cluster.home
    argv = node_argv(cluster, node, "kafka.Kafka", heap=options.heap, options=options.java)
    mark_start(log_of(cluster, node), f"{node.name} with Kafka {node.release}")
    return start(home, Command(name=node.name, argv=argv))


def node_argv(
    cluster: Cluster, node: Node, main: str, *arguments: str, heap: str, options: Sequence[str] = ()
) -> list[str]:
    """The command line of a program of the node's release, the last of whose ``arguments`` is the node's
    properties file, which is written anew. Opens JMX, if at all, on 127.0.0.1 and at one port."""
    remote, jmx = "-Dcom.sun.management.jmxremote", []
    if node.jmx and main == "kafka.Kafka":
        jmx = [f"{remote}.port={node.jmx}", f"{remote}.rmi.port={node.jmx}", f"{remote}.host=127.0.0.1"]
        jmx += ["-Djava.rmi.server.hostname=127.0.0.1", f"{remote}.authenticate=false", f"{remote}.ssl=false"]
    return java_argv(
        cluster.home,
        main,
        *arguments,
        write_properties(cluster.home, node.name, node_properties(cluster, node)),
        classes=broker_class_path(node.release),
        heap=heap,
        options=[*options, *jmx],
        release=node.release,
    )


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
    binding = LOGGING if writes_log4j(release) else SIMPLE_LOGGING
    return class_path(binding, BROKERS[release])
