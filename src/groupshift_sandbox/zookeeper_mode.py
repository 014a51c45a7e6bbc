"""Clusters of brokers that run with ZooKeeper: 3.4 to 3.9, the last line that can, and some before them."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.errors import Rejected
from groupshift_sandbox.artifacts import ZOOKEEPER_ERA
from groupshift_sandbox.home import Home
from groupshift_sandbox.layout import Cluster, Role, ServerOptions
from groupshift_sandbox.servers import new_node, start_all

_LINE = "3."


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperModeOptions(ServerOptions):
    """``inter_broker`` is the version that brokers speak to each other and write by: the floor of the way
    back (``3.4`` lets every release from 3.4.0 on read what was written); one before 3.4 has its own."""

    release: str = "3.9.2"
    inter_broker: str = "3.4"


def start_zookeeper_mode(
    home: Home, zookeeper: str, options: ZookeeperModeOptions = ZookeeperModeOptions()
) -> Cluster:
    """Start the brokers below a chroot of their own and wait until all are ready.

    ``zookeeper`` is ``host:port``. Raises `Transient` when they are not in time, `Rejected` for a release
    that cannot run with ZooKeeper."""
    era = options.release in ZOOKEEPER_ERA
    if not era and not options.release.startswith(_LINE):
        raise Rejected(f"Kafka {options.release} does not run with ZooKeeper here; choose one of 3.4 to 3.9")
    floor = {} if era else {"inter.broker.protocol.version": options.inter_broker}
    cluster = Cluster(
        home=home,
        cluster_id="",
        options=options,
        nodes=tuple(
            new_node(home, options, number, Role.ZOOKEEPER_MODE, properties=floor)
            for number in range(1, options.nodes + 1)
        ),
        zookeeper=f"{zookeeper}/{options.name}",
    )
    start_all(cluster, lambda _cluster, node: node.folder.mkdir(exist_ok=True))
    return cluster
