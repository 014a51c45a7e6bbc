"""Downgrades that the tool does itself, on real brokers: prepared, proven, node by node, groups equal after
each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downgrade_story import cluster_of, groups_at, offsets_of
from groupshift.cli.main import main
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.protocol.model import Kind
from groupshift.sandbox.cluster_file import load
from groupshift.sandbox.committing import commit
from groupshift.sandbox.kafka import create_topic
from groupshift.sandbox.kraft import CONSUMER_PROTOCOL, KraftCluster, KraftOptions

pytestmark = pytest.mark.timeout(1200)

TOPIC, PARTITIONS = "orders", 2


class Runs:
    """The verbs of one cluster's downgrade."""

    def __init__(self, cluster: KraftCluster, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._nodes = folder / "nodes.toml"
        home = str(cluster.home.root)
        self._nodes.write_text(f'driver = "sandbox"\n[sandbox]\nhome = "{home}"\ncluster = "kraft"\n')
        self._where = ["--bootstrap-servers", cluster.bootstrap, "--state", str(folder / "state")]
        self._capsys = capsys

    def __call__(self, verb: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Exit code and document; errors are an empty one."""
        nodes = [] if verb == "status" else ["--nodes", str(self._nodes), "--timeout", "60"]
        self._capsys.readouterr()
        code = main(["downgrade", verb, *self._where, *nodes, "--json", *options])
        said = self._capsys.readouterr()
        return code, json.loads(said.out) if said.out.strip() else {"error": said.err}


def offsets(groups: list[str]) -> dict[str, dict[TopicPartition, tuple[int, str]]]:
    """Different offsets for each group."""
    return {
        group: {TopicPartition(TOPIC, p): (100 * n + p, "m") for p in range(PARTITIONS)}
        for n, group in enumerate(groups)
    }


@pytest.fixture
def new_39(tmp_path: Path) -> Iterator[KraftCluster]:
    """One node of 3.9.2 with its NEW coordinator."""
    options = KraftOptions(
        release="3.9.2",
        heap="320m",
        properties={**CONSUMER_PROTOCOL, "offsets.topic.num.partitions": "3"},
    )
    with cluster_of(tmp_path, options) as started:
        yield started


def test_the_new_coordinator_of_392_gives_way_to_the_old_one(
    new_39: KraftCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty native group is converted, the node flips, everything is equal; then there is nothing left."""
    create_topic(new_39.bootstrap, TOPIC, PARTITIONS)
    names = ["simple", "native"]
    with groups_at(new_39.bootstrap, TOPIC) as groups:
        commit(groups.cluster, offsets(names))
        groups.native("native", PARTITIONS).leave()
        groups.await_kinds({"native": Kind.CONSUMER, "simple": Kind.CLASSIC})
    before = offsets_of(new_39.bootstrap, names)
    assert len(before) == len(names) * PARTITIONS
    runs = Runs(new_39, tmp_path, capsys)
    way = ("--to", "3.9.2", "--from", "3.9.2")
    code, shown = runs("run", *way)
    assert (code, shown["possible"], shown["against"]) == (0, True, [])
    acts = [(each["act"], each["subject"]) for each in shown["plan"]["steps"]]
    assert acts == [
        ("approve", "plan"), ("snapshot", "A"), ("convert-empty", "native"), ("compare", "B"),
        ("prove", "3.9.2"), ("compare", "C0"), ("replace", "1"), ("compare", "C1"),
    ]  # fmt: skip
    code, done = runs("run", *way, "--execute", "--yes")
    assert (code, done.get("outcome", done)) == (0, {**done["outcome"], "ended": "done"})
    assert {each["stand"] for each in done["steps"]} == {"done"}
    assert offsets_of(new_39.bootstrap, names) == before
    node = load(new_39.home, "kraft").node(1)
    assert node.properties["group.coordinator.rebalance.protocols"] == "classic"
    assert runs("status")[1]["state"] == "done"
    assert runs("run", *way)[0] == 1
