"""Pairs of releases that the tool goes between on real brokers (docs/reference/group-coordinator.md §8.2).

After each, groups, offsets, leader epochs, metadata and the bytes of every live commit are equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.log.commit_hashes import live_commits
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.cluster_file import load
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.servers import stop_all
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode
from support.cluster_verbs import Verbs
from support.downgrade_story import SNAPSHOTS, cluster_of, groups_at, new_392

pytestmark = pytest.mark.timeout(1200)

TOPIC, PARTITIONS = "orders", 2
SIMPLE, EPOCHS = ["simple-0", "simple-1", "simple-2", "größe"], ["with-epochs"]
CLASSIC, NATIVE = "classic", "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What has to be the same after each pair: names of groups; offsets with leader epochs and metadata; the
    SHA-256 of each live commit's key and value."""

    groups: frozenset[str]
    offsets: frozenset[tuple[str, str, int, int, int | None, str | None]]
    records: frozenset[tuple[str, str, int, str]]


def kept(cluster: Cluster) -> Kept:
    """As brokers and log tell it now."""
    snapshots = LiveGroupSnapshots(
        KafkaCluster(cluster.bootstrap, timeout_s=60.0), SystemClock(), patience_s=60.0
    )
    try:
        state = snapshots.take()
    finally:
        snapshots.close()
    assert state.problems == []
    log = DirectLog(Brokers(bootstrap_servers=cluster.bootstrap, timeout_s=60.0))
    return Kept(
        groups=frozenset(row.group for row in state.groups),
        offsets=frozenset(
            (row.group, row.topic, row.partition, row.offset, row.leader_epoch, row.metadata)
            for row in state.offsets
        ),
        records=frozenset(
            (each.group, each.topic, each.partition, each.sha256)
            for each in live_commits(log.read(log.position()))
        ),
    )


def commits(cluster: Cluster, names: list[str], *, leader_epoch: int = -1) -> None:
    """Different offsets for each group, with metadata."""
    client = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    offsets = {
        group: {TopicPartition(TOPIC, p): (100 * n + p, f"é-{n}") for p in range(PARTITIONS)}
        for n, group in enumerate(names)
    }
    try:
        commit(client, offsets, leader_epoch=leader_epoch)
    finally:
        client.close()


def with_groups(cluster: Cluster, *, native: bool) -> Kept:
    """Simple groups, one with leader epochs, a classic one, and where it can be a native one."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    names = [*SIMPLE, CLASSIC, *([NATIVE] if native else [])]
    commits(cluster, names)
    commits(cluster, EPOCHS, leader_epoch=3)
    with groups_at(cluster.bootstrap, TOPIC) as groups:
        groups.touch_classic(CLASSIC)
        if native:
            groups.native(NATIVE, PARTITIONS).leave()
            groups.await_kinds({NATIVE: Kind.CONSUMER, CLASSIC: Kind.CLASSIC})
    found = kept(cluster)
    assert found.groups == {*names, *EPOCHS}
    assert len(found.offsets) == len(found.records) == (len(names) + 1) * PARTITIONS
    assert {row[4] for row in found.offsets} == {None, 3}
    return found


def ended_well(code: int, done: dict[str, Any], before: Kept) -> None:
    """Every step is done, every comparison passed, and read as many records as there are."""
    assert (code, done.get("state"), done.get("verdict")) == (0, "moved", "pass"), done
    assert {each["state"] for each in done["steps"]} == {"done"}
    compared = [each for each in done["steps"] if "/compare " in each["key"]]
    assert {each["outcome"] for each in compared} == {"pass"}
    assert {each["result"]["records"] for each in compared} == {len(before.records)}


@pytest.fixture
def new_39(tmp_path: Path) -> Iterator[Cluster]:
    """One node of 3.9.2 with its NEW coordinator, whose metadata 3.4 can read."""
    options = new_392("3.4", 5, SNAPSHOTS)
    with cluster_of(tmp_path, options) as started:
        yield started


@pytest.mark.parametrize("to", ["3.5.2", "3.4.1"])
def test_the_new_coordinator_of_392_to_an_older_release(
    new_39: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    """A native group is converted, the node gets the older release."""
    before = with_groups(new_39, native=True)
    runs = Verbs(new_39, tmp_path, capsys, "downgrade")
    ended_well(*runs("run", "--to", to, "--from", "3.9.2", "--execute", "--yes"), before)
    cluster = load(new_39.home, new_39.options.name)
    assert [node.release for node in cluster.nodes] == [to]
    assert kept(cluster) == before


def test_the_new_coordinator_of_392_to_the_old_one_and_a_commit_that_is_found(
    new_39: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same offset and metadata, committed anew before the first node is touched: no broker tells the
    difference, the record does, and the run stops; taken back and begun again, it goes through."""
    way = ("--to", "3.9.2", "--from", "3.9.2")
    planted_in = with_groups(new_39, native=True)
    runs = Verbs(new_39, tmp_path, capsys, "downgrade")
    runs.killed("prove 3.9.2.after_read_back", *way)
    commits(new_39, SIMPLE[:1])
    before = kept(new_39)
    assert before.offsets == planted_in.offsets
    assert len(before.records - planted_in.records) == PARTITIONS
    code, stopped = runs("continue", "--execute", "--yes")
    assert (code, stopped["ended"], stopped["stopped"]["waits"]) == (1, False, False), stopped
    assert stopped["stopped"]["step"].endswith("compare C0")
    said = f"commit of group {SIMPLE[0]!r} topic {TOPIC!r} partition 0"
    assert any(said in each for each in stopped["stopped"]["said"]), stopped["stopped"]
    assert load(new_39.home, new_39.options.name).node(1) == new_39.node(1)
    assert runs("roll-back", "--execute", "--yes")[1]["state"] == "rolled_back"
    ended_well(*runs("run", *way, "--execute", "--yes"), before)
    cluster = load(new_39.home, new_39.options.name)
    assert cluster.node(1).properties["group.coordinator.rebalance.protocols"] == "classic"
    assert kept(cluster) == before


@pytest.fixture
def zookeeper_mode(tmp_path: Path) -> Iterator[Cluster]:
    """Two brokers of 3.9.2 that run with ZooKeeper and write what 3.4 reads."""
    home = Home(tmp_path / "home").create()
    try:
        yield start_zookeeper_mode(
            home, start_zookeeper(home), ZookeeperModeOptions(release="3.9.2", nodes=2, heap="320m")
        )
    finally:
        stop_all(home, last=("zookeeper",))


def test_brokers_of_392_with_zookeeper_to_352(
    zookeeper_mode: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They tell no features, so --from says the release."""
    before = with_groups(zookeeper_mode, native=False)
    runs = Verbs(zookeeper_mode, tmp_path, capsys, "downgrade")
    ended_well(*runs("run", "--to", "3.5.2", "--from", "3.9.2", "--execute", "--yes"), before)
    cluster = load(zookeeper_mode.home, zookeeper_mode.options.name)
    assert [node.release for node in cluster.nodes] == ["3.5.2", "3.5.2"]
    assert kept(cluster) == before


@pytest.fixture
def under_controllers(tmp_path: Path) -> Iterator[Cluster]:
    """Two brokers of 4.3.1 under a controller of its own, with metadata that 3.9 can read but for
    group.version."""
    options = KraftOptions(
        release="4.3.1",
        nodes=2,
        controllers=1,
        heap="320m",
        format_arguments=("--release-version", "3.9", "--feature", "group.version=1"),
        properties={"metadata.log.max.snapshot.interval.ms": "5000", "broker.session.timeout.ms": "12000"},
    )
    home = Home(tmp_path / "home").create()
    try:
        yield start_kraft(home, options)
    finally:
        stop_all(home, last=("kraft-101",))


def test_brokers_of_431_to_392_under_a_controller_that_stays(
    under_controllers: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --brokers-only: the controller keeps its release and is not asked for a snapshot."""
    before = with_groups(under_controllers, native=True)
    runs = Verbs(under_controllers, tmp_path, capsys, "downgrade")
    way = ("--to", "3.9.2", "--from", "4.3.1")
    whole = runs("run", *way)[1]["steps"]
    assert [each["subject"] for each in whole if each["kind"] == "replace"] == ["1", "2", "101"]
    code, done = runs("run", *way, "--brokers-only", "--execute", "--yes")
    ended_well(code, done, before)
    (awaited,) = (each["result"] for each in done["steps"] if "/await-snapshot " in each["key"])
    assert sorted(awaited["offsets"]) == ["1", "2"]
    cluster = load(under_controllers.home, under_controllers.options.name)
    assert [node.release for node in cluster.nodes] == ["3.9.2", "3.9.2", "4.3.1"]
    assert kept(cluster) == before
