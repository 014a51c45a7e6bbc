"""What nodes are configured with, by role; changes of a node; what a log said since its last start."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from groupshift.errors import Rejected
from groupshift_sandbox.broker_log import LogLines, failed_partitions, lines_that_matter, mark_start
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.cluster_file import load, save
from groupshift_sandbox.home import Home
from groupshift_sandbox.layout import (
    Cluster,
    Node,
    Role,
    ServerOptions,
    to_release,
    with_properties,
)
from groupshift_sandbox.metadata_log import newest_snapshot
from groupshift_sandbox.node_properties import node_properties
from groupshift_sandbox.servers import broker_class_path
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode


def _node(number: int, role: Role, ports: dict[str, int]) -> Node:
    folder = Path("/data") / str(number)
    return Node(node_id=number, name=f"n-{number}", role=role, release="4.3.1", ports=ports, folder=folder)


def _isolated(tmp_path: Path) -> Cluster:
    return Cluster(
        home=Home(tmp_path).create(),
        cluster_id="id",
        options=ServerOptions(release="4.3.1", nodes=2, properties={"num.io.threads": "4"}),
        nodes=(
            _node(1, Role.BROKER, {"PLAINTEXT": 1001}),
            _node(2, Role.BROKER, {"PLAINTEXT": 1002}),
            _node(101, Role.CONTROLLER, {"CONTROLLER": 2001}),
        ),
    )


def test_brokers_and_controllers_of_their_own_know_each_other(tmp_path: Path) -> None:
    """Controllers vote and advertise nothing to clients; brokers do not listen as controllers."""
    cluster = _isolated(tmp_path)
    broker, controller = (node_properties(cluster, cluster.node(number)) for number in (1, 101))
    assert {broker["controller.quorum.voters"], controller["controller.quorum.voters"]} == {
        "101@127.0.0.1:2001"
    }
    assert broker["listeners"] == broker["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1001"
    assert (controller["listeners"], "advertised.listeners" in controller) == (
        "CONTROLLER://127.0.0.1:2001",
        False,
    )
    assert (broker["process.roles"], controller["process.roles"]) == ("broker", "controller")
    assert broker["offsets.topic.replication.factor"] == "2"
    assert cluster.bootstrap == "127.0.0.1:1001,127.0.0.1:1002"
    assert [node.address for node in cluster.voters] == ["127.0.0.1:2001"]


def test_a_nodes_own_properties_win(tmp_path: Path) -> None:
    """Over the cluster's, which win over ours; nothing else of the node changes."""
    cluster = _isolated(tmp_path)
    changed = with_properties({"num.io.threads": "8"})(cluster.node(1))
    assert node_properties(cluster, cluster.node(1))["num.io.threads"] == "4"
    assert node_properties(cluster.having(changed), changed)["num.io.threads"] == "8"
    assert to_release("3.9.2")(changed).folder == cluster.node(1).folder


def test_a_cluster_that_was_written_down_is_read_as_it_was(tmp_path: Path) -> None:
    """With every node's release and properties, for the process that goes on with it."""
    cluster = _isolated(tmp_path)
    changed = cluster.having(with_properties({"a": "b"})(to_release("3.9.2")(cluster.node(2))))
    save(cluster)
    save(changed)
    assert load(changed.home, changed.options.name) == changed


def test_a_cluster_that_was_not_started_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(Rejected, match="no cluster 'kraft' was started in"):
        load(Home(tmp_path).create(), "kraft")


def test_a_node_that_is_not_of_the_cluster_is_refused(tmp_path: Path) -> None:
    """With those that are."""
    with pytest.raises(Rejected, match="node 7 is not of this cluster; choose one of 1, 2, 101"):
        _isolated(tmp_path).node(7)


def test_an_unknown_release_is_refused() -> None:
    """With those that are known."""
    with pytest.raises(
        Rejected,
        match=r"release '3\.3\.0' is not known here; choose one of 0\.10\.2\.2, 1\.1\.1, 2\.4\.1, 3\.4\.0",
    ):
        broker_class_path("3.3.0")


def test_a_release_without_zookeeper_mode_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(Rejected, match=r"Kafka 4\.0\.2 does not run with ZooKeeper here"):
        start_zookeeper_mode(Home(tmp_path).create(), "127.0.0.1:1", ZookeeperModeOptions(release="4.0.2"))


def test_the_log_is_read_from_the_last_start_on(tmp_path: Path) -> None:
    """Counts by pattern, with the first line of each; partitions that could not be loaded."""
    log = tmp_path / "n.log"
    failed = "ERROR Failed to load metadata from __consumer_offsets-{} with epoch 1 due to {}.\n"
    mark_start(log, "n with Kafka 3.4.0")
    with log.open("a") as out:
        out.write(
            "ERROR Error loading offsets from __consumer_offsets-1\n" + failed.format(1, "a bad record")
        )
    mark_start(log, "n with Kafka 3.9.2")
    with log.open("a") as out:
        out.write("WARN Unknown message key with version 5\nINFO fine\nWARN Unknown message key with 6\n")
    assert lines_that_matter(log) == (
        LogLines(pattern="Unknown message key", count=2, first="WARN Unknown message key with version 5"),
    )
    assert failed_partitions(log) == frozenset()
    with log.open("a") as out:
        out.write(failed.format(2, "a bad record") + failed.format(3, "Stopped reading"))
    assert failed_partitions(log) == {2}


def test_the_newest_snapshot_is_the_one_of_the_highest_offset(tmp_path: Path) -> None:
    """Drafts are none."""
    node = Node(node_id=1, name="n", role=Role.COMBINED, release="4.3.1", ports={}, folder=tmp_path)
    assert newest_snapshot(node) == -1
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    for name in ("00000000000000000000-0000000000.checkpoint", "00000000000000000312-0000000002.checkpoint"):
        (folder / name).touch()
    (folder / "00000000000000000999-0000000002.checkpoint.part").touch()
    assert newest_snapshot(node) == 312


def test_every_client_that_is_not_ours_is_pinned_by_hashes() -> None:
    """One requirement and its hashes in a file beside the code, which travels in the wheel."""
    foreign = [client.split()[1] for client in CLIENTS if client.startswith("confluent")][1:]
    assert foreign == ["2.8.0"]
    for release in foreign:
        pins = (files("groupshift_sandbox.client_members") / f"confluent-kafka-{release}.txt").read_text()
        assert pins.splitlines()[0].startswith(f"confluent-kafka=={release} ")
        assert pins.count("==") == 1
        assert pins.count("--hash=sha256:") > 10
