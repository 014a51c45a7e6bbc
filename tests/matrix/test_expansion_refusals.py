"""What an expansion refuses, and where it stops, on a real broker: one sentence each, nothing lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import LiveTopicExpansion
from groupshift.domain.group_protocol import Kind
from groupshift_sandbox.kraft import KraftOptions
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import known, stop, wait_until
from support.cluster_verbs import Verbs
from support.downgrade_story import cluster_of, groups_at
from support.expansion_story import GROUPS, TOPIC, answered, committed, logged, placed, runs_of, wanted
from support.placement_story import audited

pytestmark = pytest.mark.timeout(900)

_CONFLICT, _REJECTED, _WAITING = 3, 2, 6


def test_what_is_refused_and_where_a_run_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts that cannot be, a group that never empties, another count while a run is open, and one that
    somebody else made between two processes: back from there, and on from what there is."""
    options = KraftOptions(heap="384m", properties={"offsets.topic.num.partitions": "5"})
    with cluster_of(tmp_path, options) as cluster:
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        for count in (3, 5):
            code, said = runs("run", "--to", str(count))
            assert (code, f"--to {count}: __consumer_offsets has 5 partitions" in said["error"]) == (2, True)
        code, judged = runs("assess", "--to", "12")
        assert (code, judged["ready"]) == (0, True)
        (warned,) = [each for each in judged["findings"] if each["hint"]]
        assert "12 is no multiple of 5" in warned["reason"]
        _never_empty(cluster, runs)
        runs.killed("delete-groups.after_act", "--to", "8")
        code, said = runs("run", "--to", "10", "--execute", "--yes")
        assert (code, "to: the run has 8, asked for is 10" in said["error"]) == (_REJECTED, True), said
        _counted_by_somebody_else(cluster, runs)
        code, done = runs("run", "--to", "12", "--execute", "--yes")
        assert (code, done.get("state")) == (0, "finalised"), done
        assert (answered(cluster), logged(cluster)) == (wanted(), placed(12))
        assert audited(cluster).clean


def _never_empty(cluster: Cluster, runs: Verbs) -> None:
    """A live member: the drain ends with its group, and the cluster is free."""
    with groups_at(cluster.bootstrap, TOPIC) as groups:
        member = groups.classic(GROUPS[0], 10)
        groups.await_kinds({GROUPS[0]: Kind.CLASSIC})
        code, stopped = runs("run", "--to", "8", "--execute", "--yes", "--patience", "5")
        said = f"members are in 1 group: {GROUPS[0]}"
        assert (code, said in stopped["reason"]) == (1, True), stopped
        assert runs("status")[1]["state"] == "rejected"
        member.leave()
    assert answered(cluster) == wanted()


def _counted_by_somebody_else(cluster: Cluster, runs: Verbs) -> None:
    """Groups are deleted, and the topic has 12 partitions: the run does not go on, and goes back whole."""
    with closing(LiveTopicExpansion(KafkaCluster(cluster.bootstrap, timeout_s=60.0))) as topic:
        topic.expand(12)
    code, said = runs("continue", "--execute", "--yes")
    assert code == _CONFLICT, said
    assert "the offsets topic has 12 partitions, neither 5 nor 8" in said["error"]
    code, back = runs("roll-back", "--execute", "--yes")
    assert (code, "X04" in "; ".join(back["stopped"]["said"])) == (_WAITING, True), back
    assert answered(cluster) == wanted()
    code, back = runs("continue", "--execute", "--yes", "--accept", back["stopped"]["step"])
    assert (code, back["state"], back["verdict"]) == (1, "rolled_back", "fail"), back


def _refused(runs: Verbs) -> set[str]:
    """The rules by which a run may not begin now: a quorum needs some seconds to know that it is none."""
    assert runs("run", "--to", "8", "--execute", "--yes")[0] == _REJECTED
    code, judged = runs("assess", "--to", "8")
    assert (code, judged["ready"]) == (1, False), judged
    against = [each for each in judged["findings"] if each["rule"] in judged["obstacles"]]
    assert all(each["hint"] for each in against)
    return {each["rule"] for each in against}


def test_short_replication_and_a_controller_that_is_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three nodes, one stopped: replicas are behind. Two stopped: nobody makes partitions either. Nothing is
    journaled, and nothing changed."""
    options = KraftOptions(nodes=3, heap="320m", properties={"offsets.topic.num.partitions": "5"})
    with cluster_of(tmp_path, options) as cluster:
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        for node, rules in ((3, {"X02"}), (2, {"X02", "X10"})):
            process = known(cluster.home, cluster.node(node).name)
            assert process is not None
            stop(process, 60.0)
            wait_until(lambda wanted=rules: wanted <= _refused(runs), 120.0, f"rules {rules} refuse it")
            assert runs.all() == []
