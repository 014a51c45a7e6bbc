"""Somebody else gives the offsets topic more partitions when a run can only go forward, on three real brokers
of each kind: the run goes on to them, and no offset is lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from expansion_story import (
    answered,
    bounced,
    committed,
    home_in,
    logged,
    moving,
    placed,
    runs_of,
    started,
    wanted,
)
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.topic_expansion import LiveTopicExpansion
from groupshift.sandbox.layout import unchanged
from groupshift.sandbox.rolling import replace_node
from placement_story import asked, audited

pytestmark = pytest.mark.timeout(1_800)

PLANNED, MADE = 8, 12
_WAITING = 6


@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_more_partitions_after_the_first_restart(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown and asked for; then all brokers count 12, and snapshot S gives back what moves there. What
    lay where 5 put it and was not deleted is residue; OLD brokers are cured of it by the repair that is
    named."""
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        runs.killed("restart.after_act", "--to", str(PLANNED))
        with closing(LiveTopicExpansion(KafkaCluster(cluster.bootstrap, timeout_s=60.0))) as topic:
            topic.expand(MADE)
        code, shown = runs("run", "--execute", "--yes")
        assert (code, shown["outcome"]["step"]) == (_WAITING, f"13 place {PLANNED}"), shown
        assert f"to go on to {MADE}: --seen" in shown["outcome"]["detail"]
        outcome = shown["outcome"]
        for _ in cluster.brokers:  # one that counts otherwise is restarted, one a run
            if outcome["step"].startswith("13 place"):
                outcome = runs("run", "--execute", "--yes", "--seen")[1]["outcome"]
        assert moving(MADE) - moving(PLANNED), "some were not deleted, and are listed twice"
        assert outcome["step"] == "15 compare V", outcome
        assert "groupshift repair placement --execute cures that on OLD" in outcome["detail"]
        assert answered(cluster, residue=True) == wanted()
        if kind == "NEW":
            outcome = runs("run", "--execute", "--yes", "--seen")[1]["outcome"]
        else:
            where = ("--bootstrap-servers", cluster.bootstrap, "--timeout", "60")
            code, repaired = asked(capsys, "repair", "placement", "--execute", *where)
            assert (code, repaired["restored"], repaired["strays_left"]) == (0, 0, {})
            for node in cluster.brokers:
                replace_node(cluster, node.node_id, unchanged)
            outcome = runs("run", "--execute", "--yes")[1]["outcome"]
            assert logged(cluster) == placed(MADE)
        assert outcome["ended"] == "done", outcome
        for _ in range(2):
            assert answered(cluster, residue=kind == "NEW") == wanted()
            cluster = bounced(cluster)
        assert audited(cluster).clean
