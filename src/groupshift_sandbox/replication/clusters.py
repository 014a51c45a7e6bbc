"""Two clusters of any release in one home, ``source`` and ``target``: started, killed, started again, and
reached over a relay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from groupshift.errors import Rejected
from groupshift_sandbox import faults
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, Node, ServerOptions
from groupshift_sandbox.processes import known, stop
from groupshift_sandbox.servers import RELAY, start_all
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode

_STOP_S = 60.0
_O = TypeVar("_O", bound=ServerOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPair:
    """Two clusters with one home, by the direction in which records are copied between them."""

    source: Cluster
    target: Cluster

    @property
    def home(self) -> Home:
        """The home of both."""
        return self.source.home


SMALL = KraftOptions(heap="320m", properties={"log.cleaner.backoff.ms": "500"})
"""One node of 4.3.1 that compacts soon where a topic asks for it."""


def start_pair(home: Home, source: ServerOptions = SMALL, target: ServerOptions = SMALL) -> ClusterPair:
    """Start both and wait until they are ready, named ``source`` and ``target`` whatever the options say.

    Clusters with ZooKeeper (`ZookeeperModeOptions`) share one, below chroots of their own. Raises `Transient`
    when they are not in time, `Rejected` for options of another kind."""
    for side, options in (("source", source), ("target", target)):
        if not isinstance(options, KraftOptions | ZookeeperModeOptions):
            raise Rejected(
                f"the options of the {side} are {type(options).__name__}; give KraftOptions or "
                "ZookeeperModeOptions"
            )
    wants = any(isinstance(each, ZookeeperModeOptions) for each in (source, target))
    zookeeper = start_zookeeper(home) if wants else ""
    return ClusterPair(
        source=_start(home, replace(source, name="source"), zookeeper),
        target=_start(home, replace(target, name="target"), zookeeper),
    )


def _start(home: Home, options: ServerOptions, zookeeper: str) -> Cluster:
    if isinstance(options, ZookeeperModeOptions):
        return start_zookeeper_mode(home, zookeeper, options)
    assert isinstance(options, KraftOptions)  # noqa: S101 - `start_pair` refuses others
    return start_kraft(home, options)


def relayed(options: _O) -> _O:
    """The options with one more listener, before which `start_node_relay` puts a relay."""
    return replace(options, listeners={**options.listeners, RELAY: "PLAINTEXT"})


def start_node_relay(cluster: Cluster, node: Node) -> faults.Link:
    """Start the relay of a node of a `relayed` cluster: clients that come to its ``address`` stay behind it.
    A cluster of many nodes needs one for each."""
    target = node.at(RELAY)
    return faults.start_relay(
        cluster.home, f"relay-{node.name}", listen=node.advertised[RELAY], target=target
    )


def stop_cluster(cluster: Cluster, *, kill: bool = False) -> None:
    """End the nodes and wait for it: one after the other and cleanly, or all with SIGKILL."""
    processes = [known(cluster.home, node.name) for node in cluster.nodes]
    for process in processes:
        if process is not None and kill:
            faults.kill(process)
        elif process is not None:
            stop(process, _STOP_S)


def start_again(cluster: Cluster) -> None:
    """Start the nodes of a stopped cluster with their ports and files, and wait until they are ready.
    Raises `Transient` when they are not in time."""
    start_all(cluster, lambda _cluster, _node: None)
