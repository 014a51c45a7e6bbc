"""Two clusters in one home: what they are called, who shares what, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from groupshift.errors import Rejected
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions
from groupshift_sandbox.layout import Cluster, Role, ServerOptions
from groupshift_sandbox.node_properties import node_properties
from groupshift_sandbox.replication import clusters
from groupshift_sandbox.replication.clusters import SMALL, relayed, start_pair
from groupshift_sandbox.servers import new_node
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What would have been started: kind, name, and ZooKeeper's address."""
    calls: list[tuple[str, ...]] = []

    def cluster(home: Home, options: ServerOptions) -> Cluster:
        return Cluster(home=home, cluster_id="", options=options, nodes=())

    def kraft(home: Home, options: Any) -> Cluster:
        calls.append(("kraft", options.name))
        return cluster(home, options)

    def with_zookeeper(home: Home, zookeeper: str, options: Any) -> Cluster:
        calls.append(("zookeeper mode", options.name, zookeeper))
        return cluster(home, options)

    def zookeeper(_home: Home) -> str:
        calls.append(("zookeeper",))
        return "z:1"

    monkeypatch.setattr(clusters, "start_kraft", kraft)
    monkeypatch.setattr(clusters, "start_zookeeper_mode", with_zookeeper)
    monkeypatch.setattr(clusters, "start_zookeeper", zookeeper)
    return calls


def test_a_pair_is_called_by_its_direction(tmp_path: Path, begun: list[tuple[str, ...]]) -> None:
    """Whatever the options are called; no ZooKeeper for those that need none."""
    pair = start_pair(Home(tmp_path), SMALL, KraftOptions(name="mine", release="3.9.2"))
    assert begun == [("kraft", "source"), ("kraft", "target")]
    assert (pair.source.options.release, pair.target.options.release) == ("4.3.1", "3.9.2")
    assert pair.home == Home(tmp_path)


def test_clusters_with_zookeeper_share_one(tmp_path: Path, begun: list[tuple[str, ...]]) -> None:
    """It is started before them."""
    start_pair(Home(tmp_path), ZookeeperModeOptions(release="2.4.1"), ZookeeperModeOptions())
    assert begun == [
        ("zookeeper",),
        ("zookeeper mode", "source", "z:1"),
        ("zookeeper mode", "target", "z:1"),
    ]


def test_options_of_another_kind_are_refused_before_anything_starts(
    tmp_path: Path, begun: list[tuple[str, ...]]
) -> None:
    """Also where only the second ones are wrong."""
    with pytest.raises(Rejected, match="the options of the target are ServerOptions; give KraftOptions or"):
        start_pair(Home(tmp_path), SMALL, ServerOptions(release="4.3.1"))
    assert begun == []


def test_a_relayed_node_tells_clients_the_port_of_its_relay(tmp_path: Path) -> None:
    """The others come to it as ever."""
    options = relayed(SMALL)
    home = Home(tmp_path).create()
    node = new_node(home, options, 1, Role.COMBINED)
    cluster = Cluster(home=home, cluster_id="", options=options, nodes=(node,))
    made = node_properties(cluster, node)
    own, shown = node.ports["RELAY"], node.advertised["RELAY"]
    assert own != shown
    assert f"RELAY://127.0.0.1:{own}" in made["listeners"]
    assert f"RELAY://127.0.0.1:{shown}" in made["advertised.listeners"]
    assert f"PLAINTEXT://{node.address}" in made["advertised.listeners"]
    assert "CONTROLLER" not in made["advertised.listeners"]
