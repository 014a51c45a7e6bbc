"""The realistic way: three combined nodes of 4.3.1 go to 3.9.2 in the order of the plan (verified, E)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.adapters.kafka.requests import FeatureChange, update_features
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.committing import commit
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions
from groupshift_sandbox.layout import Cluster, to_release
from groupshift_sandbox.metadata_log import await_snapshots
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.rolling import Adoption, roll
from support.downgrade_story import Assessed, cluster_of, groups_at, offsets_of

pytestmark = pytest.mark.timeout(900)

TOPIC, NATIVE, PARTITIONS = "orders", "native", 3
IDLE = [f"idle-{number}" for number in range(12)]
GROUPS = [*IDLE, NATIVE]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    """Three combined nodes whose metadata 3.9 can read but for group.version."""
    options = KraftOptions(
        release="4.3.1",
        nodes=3,
        heap="320m",
        format_arguments=("--release-version", "3.9", "--feature", "group.version=1"),
        properties={"metadata.log.max.snapshot.interval.ms": "5000", "broker.session.timeout.ms": "12000"},
    )
    with cluster_of(tmp_path, options) as started:
        yield started


def test_three_nodes_go_to_39_in_the_planned_order(
    three: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused by the group and the feature; prepared as the plan says it is open, and the metadata's leader
    is last; the same offsets after each node."""
    create_topic(three.bootstrap, TOPIC, PARTITIONS)
    with groups_at(three.bootstrap, TOPIC) as groups:
        commit(
            groups.cluster,
            {
                group: {TopicPartition(TOPIC, p): (100 * n + p, "") for p in range(PARTITIONS)}
                for n, group in enumerate(GROUPS)
            },
        )
        groups.native(NATIVE, PARTITIONS).leave()
        closed = Assessed(three.bootstrap, capsys, "3.9.2", "--from", "4.3.1")
        assert (closed.code, {"W07", "W11"} <= closed.failed, closed.obstacles) == (0, True, set())
        assert closed.said("W07")[0].startswith("1 group of type consumer ('native') without members")
        groups.touch_classic(NATIVE)
        groups.await_kinds({NATIVE: Kind.CLASSIC})
        update_features(groups.cluster.broker(1), {"group.version": 0}, change=FeatureChange.SAFE_DOWNGRADE)
        wait_until(lambda: not groups.look().finalised.get("group.version"), 60.0, "the feature is gone")
    await_snapshots(three)
    before = offsets_of(three.bootstrap, GROUPS)
    assert len(before) == len(GROUPS) * PARTITIONS
    opened = Assessed(three.bootstrap, capsys, "3.9.2", "--from", "4.3.1")
    assert (opened.code, opened.failed) == (0, set())
    order = [int(subject) for act, subject in opened.steps if act == "replace"]
    assert (sorted(order), order[-1]) == ([1, 2, 3], opened.observed["quorum"]["leader"])
    equal: list[str] = []

    def same(now: Cluster, seen: Adoption) -> None:
        assert offsets_of(now.bootstrap, GROUPS) == before
        equal.append(seen.node.release)

    cluster, _ = roll(three, to_release("3.9.2"), node_ids=order, after=same)
    assert equal == ["3.9.2"] * 3
    down = Assessed(cluster.bootstrap, capsys, "3.9.2", "--from", "3.9.2")
    assert (down.code, down.failed) == (1, {"W03"})
