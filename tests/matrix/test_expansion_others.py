"""Expansions on other brokers than those of `make test`: the whole way on NEW coordinators, without
the deletion on OLD ones, and brokers that are configured with several counts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import named_by
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Verdict
from groupshift_sandbox.committing import commit
from groupshift_sandbox.elections import lead_as_preferred
from groupshift_sandbox.kraft import KraftOptions
from groupshift_sandbox.layout import Cluster, unchanged, with_properties
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.rolling import replace_node
from support.downgrade_story import cluster_of
from support.expansion_story import answered as answered_by_all
from support.expansion_story import home_in, logged, placed, the_whole_way, wanted
from support.expansion_story import started as started_three
from support.led_elsewhere import lead_by_first, replicas_of, turned
from support.placement_story import (
    AFTER,
    GROUPS,
    MOVING,
    OFFSETS,
    TOPIC,
    answered,
    audited,
    committed,
    counts,
    expand,
    said,
    told_by_each,
    whole,
)

COUNT = "offsets.topic.num.partitions"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("to", [8, 10])
def test_coordinator_18_the_whole_procedure_on_new_coordinators(
    to: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On 4.3.1: groups that move were deleted before, so that nothing is listed twice."""
    with home_in(tmp_path) as home:
        cluster = the_whole_way(home, "NEW", to, capsys)
        assert (answered_by_all(cluster), logged(cluster)) == (wanted(), placed(to))
        assert audited(cluster).clean


@pytest.mark.timeout(600)
def test_coordinator_16_to_a_multiple(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """5 to 10 on 3.9.2 with ZooKeeper; 5 to 8 is in `make test`."""
    with home_in(tmp_path) as home:
        cluster = the_whole_way(home, "OLD", 10, capsys)
        assert (answered_by_all(cluster), logged(cluster)) == (wanted(), placed(10))
        assert audited(cluster).clean


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("release", "old"), [("3.9.2", True), ("4.3.1", False)])
def test_coordinator_17_without_the_deletion(release: str, *, old: bool, tmp_path: Path) -> None:
    """OLD: a re-commit is acknowledged, and some groups answer what they had before, at once and after the
    next restart; the audit fails. NEW: every group answers what was committed again. The log has the former
    commit of every group that moved, and the audit counts them all."""
    options = KraftOptions(release=release, heap="320m", properties={COUNT: "5"})
    with cluster_of(tmp_path, options) as started:
        cluster: Cluster = started
        committed(cluster)
        expand(cluster, AFTER)
        cluster, _ = replace_node(cluster, 1, unchanged)
        with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
            commit(raw, {group: {TopicPartition(TOPIC, 0): (1_100, "")} for group in GROUPS})
        for _ in range(2):
            stale = {group for group, offset in answered(cluster).items() if offset != 1_100}
            assert bool(stale) is old
            assert stale <= set(MOVING)
            found = audited(cluster)
            assert found.facts.log is not None
            assert {each.group for each in found.facts.log.elsewhere} == set(MOVING)
            ((verdict, reason),) = said(found, "X07")
            assert verdict is (Verdict.FAIL if old else Verdict.INCONCLUSIVE)
            kept = "older commits" if old else "is there"
            assert f"{kept} of {len(MOVING)} groups" in reason
            cluster, _ = replace_node(cluster, 1, unchanged)


@pytest.mark.timeout(600)
def test_coordinator_17_without_the_deletion_on_three_old_brokers(tmp_path: Path) -> None:
    """Every re-commit is acknowledged; then leaders are moved, and back: groups answer what they had before,
    and the audit fails each time, for the former commit of every group that moved is still there."""
    with home_in(tmp_path) as home:
        cluster = started_three(home, "OLD")
        committed(cluster)
        expand(cluster, AFTER)
        for node in cluster.brokers:
            cluster, _ = replace_node(cluster, node.node_id, unchanged)
        lead_as_preferred(cluster, OFFSETS)
        with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
            commit(raw, {group: {TopicPartition(TOPIC, 0): (1_100, "")} for group in GROUPS})
        first, stale = replicas_of(cluster, OFFSETS), set[str]()
        for order in (turned(first, 1), first):
            lead_by_first(cluster, OFFSETS, order)
            found = answered(cluster)
            stale |= {group for group, offset in found.items() if offset == 100}
            assert {offset for offset in found.values() if offset != 1_100} <= {100}
            ((verdict, reason),) = said(audited(cluster), "X07")
            assert verdict is Verdict.FAIL
            assert f"older commits of {len(MOVING)} groups" in reason
        assert stale
        assert stale <= set(MOVING)


COUNTS = {1: 5, 2: 8, 3: 10}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["NEW", "OLD"])
def test_coordinator_21_brokers_with_different_configured_counts(kind: str, tmp_path: Path) -> None:
    """There is no topic yet: the audit says which counts it may get, and makes none. The broker that is asked
    for a coordinator makes it with its own, and the others go on with theirs: all are named."""
    with home_in(tmp_path) as home:
        cluster = started_three(home, kind)
        for node in (2, 3):
            cluster, _ = replace_node(cluster, node, with_properties({COUNT: str(COUNTS[node])}))
        for _ in range(2):  # a topic that the first one asked for is there some time later
            ((verdict, reason),) = said(audited(cluster), "X01")
            assert verdict is Verdict.FAIL
            assert "with 5 or 8 or 10 partitions" in reason
        assert told_by_each(cluster) == {()}, "who audits makes no topic"
        with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
            named_by(raw.broker(2), ["first"])
        wait_until(lambda: whole(cluster, COUNTS[2]), 60.0, "the topic is made", every_s=0.5)
        found = audited(cluster)
        assert counts(found) == {node: (count,) for node, count in COUNTS.items()}
        assert [each for each in said(found, "X04") if each[0] is not Verdict.FAIL] == []
        assert [reason for _, reason in said(found, "X04")] == [
            f"broker {node} counts {COUNTS[node]}, and __consumer_offsets has 8 partitions" for node in (1, 3)
        ]
        assert whole(cluster, COUNTS[2]), "nor does who audits change it"
