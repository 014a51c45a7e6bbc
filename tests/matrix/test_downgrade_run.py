"""Downgrades that the tool does itself, on real brokers: prepared, proven, node by node, groups equal after
each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupshift.adapters.kafka.cluster_changes import LiveClusterActs
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.moves.downgrade.plan_and_rollback import COMPACTING
from groupshift_sandbox.cluster_file import load
from groupshift_sandbox.committing import commit
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions
from groupshift_sandbox.layout import Cluster, to_release
from groupshift_sandbox.rolling import replace_node
from support.cluster_verbs import Verbs, outcomes
from support.downgrade_story import QUIET, SNAPSHOTS, Groups, cluster_of, groups_at, new_392, offsets_of

pytestmark = pytest.mark.timeout(1200)

TOPIC, PARTITIONS = "orders", 2


def offsets(groups: list[str]) -> dict[str, dict[TopicPartition, tuple[int, str]]]:
    """Different offsets for each group."""
    return {
        group: {TopicPartition(TOPIC, p): (100 * n + p, "m") for p in range(PARTITIONS)}
        for n, group in enumerate(groups)
    }


def moved(code: int, done: dict[str, Any]) -> bool:
    """Whether a run reached its end, with nothing that was only accepted."""
    assert (code, done.get("state"), done.get("verdict")) == (0, "moved", "pass"), done
    return True


@pytest.fixture
def new_39(tmp_path: Path) -> Iterator[Cluster]:
    """One node of 3.9.2 with its NEW coordinator."""
    options = KraftOptions(
        release="3.9.2",
        heap="320m",
        properties={**CONSUMER_PROTOCOL, "offsets.topic.num.partitions": "3"},
    )
    with cluster_of(tmp_path, options) as started:
        yield started


def test_the_new_coordinator_of_392_gives_way_to_the_old_one(
    new_39: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
    runs = Verbs(new_39, tmp_path, capsys, "downgrade")
    way = ("--to", "3.9.2", "--from", "3.9.2")
    code, shown = runs("run", *way)
    assert (code, shown["state"]) == (0, "preview")
    acts = [(each["kind"], each["subject"]) for each in shown["steps"]]
    assert acts == [
        ("approve", "plan"), ("snapshot", "A"), ("convert-empty", "native"), ("compare", "B"),
        ("prove", "3.9.2"), ("compare", "C0"), ("replace", "1"), ("compare", "C1"),
    ]  # fmt: skip
    code, done = runs("run", *way, "--execute", "--yes")
    assert moved(code, done)
    assert {each["state"] for each in done["steps"]} == {"done"}
    assert offsets_of(new_39.bootstrap, names) == before
    node = load(new_39.home, "kraft").node(1)
    assert node.properties["group.coordinator.rebalance.protocols"] == "classic"
    assert runs("status")[1]["state"] == "moved"
    code, nothing = runs("run", *way)
    assert (code, "W03" in nothing["error"]) == (2, True), nothing


LOG = 5
"""Partitions of the offsets topic in the story of nine groups."""


def named(prefix: str, homes: tuple[int, ...]) -> list[str]:
    """A name for each of these partitions of the offsets topic."""
    return [
        next(f"{prefix}-{n}" for n in range(999) if partition_of(f"{prefix}-{n}", LOG) == home)
        for home in homes
    ]


SIMPLE = [*named("beside", (1, 2)), *named("apart", (0, 3, 4))]
(CLASSIC,), (LIVE,), (LEFT,) = named("classic", (0,)), named("live", (1,)), named("left", (2,))
(BACK,) = named("back", (1,))
NINE = [*SIMPLE, CLASSIC, LIVE, LEFT, BACK]
LOST = sorted([*SIMPLE[:2], LIVE, LEFT, BACK])


@pytest.fixture
def for_34(tmp_path: Path) -> Iterator[Cluster]:
    """One node of 3.9.2 with its NEW coordinator, formatted so that 3.4 can read its metadata; a native
    member that says nothing for ten minutes is still one."""
    options = new_392("3.4", LOG, {**SNAPSHOTS, **QUIET, "log.cleaner.backoff.ms": "500"})
    with cluster_of(tmp_path, options) as started:
        yield started


def nine_groups(groups: Groups) -> None:
    """Five simple, one classic, one to be native and alive, one native and left, one converted back."""
    commit(groups.cluster, offsets(NINE))
    groups.touch_classic(CLASSIC)
    for group in (LEFT, BACK):
        groups.native(group, PARTITIONS).leave()
    groups.touch_classic(BACK)
    groups.await_kinds({LEFT: Kind.CONSUMER, BACK: Kind.CLASSIC})


def raw_swap(cluster: Cluster) -> set[str]:
    """Groups without offsets at a 3.4.0 over that very folder; then 3.9.2 is started over it again."""
    swapped, seen = replace_node(cluster, 1, to_release("3.4.0"))
    assert seen.count("Error loading offsets") == 2
    found = {group for group, _ in offsets_of(swapped.bootstrap, NINE)}
    replace_node(swapped, 1, to_release("3.9.2"))
    return set(NINE) - found


def overridden(groups: Groups) -> dict[str, str]:
    """What is set for the offsets topic itself."""
    return dict(LiveClusterActs(groups.cluster).topic_configs())


def test_nine_groups_go_to_340_converted_and_compacted(
    for_34: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The five that a raw swap loses are named; with a native member it waits and names its group; killed
    while the topic is set to compact, it goes on, sets it back, and 9 of 9 groups are equal."""
    create_topic(for_34.bootstrap, TOPIC, PARTITIONS)
    runs = Verbs(for_34, tmp_path, capsys, "downgrade")
    way = ("--to", "3.4.0", "--from", "3.9.2")
    with groups_at(for_34.bootstrap, TOPIC) as groups:
        nine_groups(groups)
    before = offsets_of(for_34.bootstrap, NINE)
    assert len(before) == len(NINE) * PARTITIONS
    assert raw_swap(for_34) == set(LOST)
    assert offsets_of(for_34.bootstrap, NINE) == before
    with groups_at(for_34.bootstrap, TOPIC) as groups:
        alive = groups.native(LIVE, PARTITIONS)
        groups.await_kinds({LIVE: Kind.CONSUMER})
        code, shown = runs("run", *way)
        assert (code, shown["state"]) == (0, "preview")
        (lost,) = [each["reason"] for each in shown["about"]["checks"] if each["rule"] == "W16"]
        assert [group for group in sorted(NINE) if repr(group) in lost.partition(";")[0]] == LOST
        code, waits = runs("run", *way, "--execute", "--yes", "--patience", "20")
        assert (code, waits["stopped"]["waits"]) == (6, True), waits
        assert f"group {LIVE} has members" in waits["stopped"]["said"][0]
        code, ended = runs("roll-back", "--execute", "--yes")
        assert (code, ended["state"]) == (0, "rolled_back"), ended
        alive.leave()
        former = overridden(groups)
        runs.killed("quicken-compaction.after_act", *way)
        assert COMPACTING.items() <= overridden(groups).items()
        code, done = runs("continue", "--execute", "--yes")
        assert moved(code, done)
    proven = outcomes(done)
    assert (proven["compact/compact __consumer_offsets"], proven["go/prove 3.4.0"]) == ("pass", "pass")
    assert offsets_of(for_34.bootstrap, NINE) == before
    assert load(for_34.home, "kraft").node(1).release == "3.4.0"
    with groups_at(for_34.bootstrap, TOPIC) as groups:
        assert overridden(groups) == former
        listed = {each.group for node in groups.look().brokers for each in node.groups}
    assert listed == set(NINE)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    """Three combined nodes of 4.3.1 whose metadata 3.9 can read but for group.version."""
    options = KraftOptions(
        release="4.3.1",
        nodes=3,
        heap="320m",
        format_arguments=("--release-version", "3.9", "--feature", "group.version=1"),
        properties={"metadata.log.max.snapshot.interval.ms": "5000", "broker.session.timeout.ms": "12000"},
    )
    with cluster_of(tmp_path, options) as started:
        yield started


def test_three_nodes_of_431_go_to_392_one_after_the_other(
    three: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Features lowered, a newer metadata snapshot awaited on every node, killed between two nodes, equal
    after each; then the whole cluster is of 3.9."""
    create_topic(three.bootstrap, TOPIC, PARTITIONS)
    names = [*(f"idle-{number}" for number in range(8)), "native"]
    with groups_at(three.bootstrap, TOPIC) as groups:
        commit(groups.cluster, offsets(names))
        groups.native("native", PARTITIONS).leave()
        groups.await_kinds({"native": Kind.CONSUMER})
    before = offsets_of(three.bootstrap, names)
    runs = Verbs(three, tmp_path, capsys, "downgrade")
    way = ("--to", "3.9.2", "--from", "4.3.1")
    runs.killed("lower.after_act", *way)
    code, stands = runs("status")
    assert (code, stands["state"]) == (0, "running")
    nodes = [name.rpartition(" ")[2] for name in outcomes(stands) if name.startswith("replace/replace ")]
    assert sorted(nodes) == ["1", "2", "3"]
    runs.killed(f"replace {nodes[1]}.after_act")
    code, done = runs("continue", "--execute", "--yes")
    assert moved(code, done)
    compared = [verdict for name, verdict in outcomes(done).items() if "/compare " in name]
    assert compared == ["pass"] * 5
    cluster = load(three.home, "kraft")
    assert [node.release for node in cluster.nodes] == ["3.9.2"] * 3
    assert offsets_of(cluster.bootstrap, names) == before


@pytest.fixture
def formatted_42(tmp_path: Path) -> Iterator[Cluster]:
    """One node of 4.2.1 as it is formatted."""
    options = KraftOptions(
        release="4.2.1", heap="320m", properties={"metadata.log.max.snapshot.interval.ms": "5000"}
    )
    with cluster_of(tmp_path, options) as started:
        yield started


def test_a_node_as_formatted_by_421_goes_to_402(
    formatted_42: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """metadata.version, share and streams are lowered; a native group stays one."""
    create_topic(formatted_42.bootstrap, TOPIC, PARTITIONS)
    with groups_at(formatted_42.bootstrap, TOPIC) as groups:
        commit(groups.cluster, offsets(["native", "simple"]))
        groups.native("native", PARTITIONS).leave()
        groups.await_kinds({"native": Kind.CONSUMER})
    runs = Verbs(formatted_42, tmp_path, capsys, "downgrade")
    way = ("--to", "4.0.2", "--from", "4.2.1")
    before = offsets_of(formatted_42.bootstrap, ["native", "simple"])
    code, shown = runs("run", *way)
    lowered = [each["subject"] for each in shown["steps"] if each["kind"] == "lower"]
    assert (code, lowered) == (0, ["share.version", "streams.version", "metadata.version"])
    code, done = runs("run", *way, "--execute", "--yes")
    assert moved(code, done)
    assert offsets_of(formatted_42.bootstrap, ["native", "simple"]) == before
    with groups_at(formatted_42.bootstrap, TOPIC) as groups:
        groups.await_kinds({"native": Kind.CONSUMER})
        assert groups.look().finalised["metadata.version"] == 25
