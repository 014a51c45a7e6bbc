"""KRaft clusters of a published release as child processes: combined nodes, or brokers beside controllers.

What a node is configured with is in `node_properties`, when it is ready in `readiness`, and how it gets other
jars or other properties in `rolling` (docs/reference/group-coordinator.md §8).
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from groupshift.errors import Broken
from groupshift_sandbox.home import Home
from groupshift_sandbox.layout import Cluster, Node, Role, ServerOptions
from groupshift_sandbox.servers import new_node, node_argv, start_all

_FORMAT_S = 120.0
_FIRST_CONTROLLER = 101

CONSUMER_PROTOCOL = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
}
"""What makes a 3.9.2 run its NEW coordinator and serve groups of type consumer; 4.x does by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KraftOptions(ServerOptions):
    """``nodes`` are combined, unless there are ``controllers`` of their own (ids from 101 on), of
    ``controller_release`` (that of the brokers when empty); ``format_arguments`` go to each StorageTool
    (``--release-version 3.9``, ``--add-scram …``)."""

    release: str = "4.3.1"
    name: str = "kraft"
    controllers: int = 0
    controller_release: str = ""
    format_arguments: Sequence[str] = ()


def start_kraft(home: Home, options: KraftOptions = KraftOptions()) -> Cluster:
    """Format and start the nodes and wait until all are ready. Raises `Transient` when they are not in time.

    The caller ends them with `processes.stop` (``marked(home)`` finds them all)."""
    role = Role.BROKER if options.controllers else Role.COMBINED
    ids = range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + options.controllers)
    controllers = [
        new_node(home, options, each, Role.CONTROLLER, release=options.controller_release) for each in ids
    ]
    brokers = [new_node(home, options, number, role) for number in range(1, options.nodes + 1)]
    cluster = Cluster(home=home, cluster_id=_cluster_id(), options=options, nodes=(*brokers, *controllers))
    start_all(cluster, lambda cluster, node: _format(cluster, node, options.format_arguments))
    return cluster


def _cluster_id() -> str:
    """A random id in the form of Kafka's, which never begins like an option of a command."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _format(cluster: Cluster, node: Node, arguments: Sequence[str]) -> None:
    wanted = ["format", "-t", cluster.cluster_id, *arguments, "-c"]
    argv = node_argv(cluster, node, "kafka.tools.StorageTool", *wanted, heap="256m")
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=_FORMAT_S, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-600:]
        raise Broken(f"{node.name} of Kafka {node.release} could not be formatted: {said}")
