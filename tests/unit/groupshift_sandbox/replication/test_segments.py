"""Files of a stopped source in the place of the target's: everything but the topic's id comes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Rejected
from groupshift_sandbox.home import Home
from groupshift_sandbox.layout import Cluster, Node, Role, ServerOptions
from groupshift_sandbox.replication import segments
from groupshift_sandbox.replication.segments import copy_segments, read_checkpoint, write_checkpoint

LOG = "00000000000000000000.log"


class Stage:
    """Two stopped nodes on disk; what their servers would tell is said by the test."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = Home(tmp_path).create()
        self.source, self.target = (
            Cluster(
                home=home,
                cluster_id="id",
                options=ServerOptions(release="4.3.1", name=name),
                nodes=(
                    Node(
                        node_id=1,
                        name=f"{name}-1",
                        role=Role.COMBINED,
                        release="4.3.1",
                        ports={"PLAINTEXT": 1},
                        folder=tmp_path / f"{name}-1",
                    ),
                ),
            )
            for name in ("source", "target")
        )
        self.calls: list[str] = []
        self.before, self.after = 0, 7
        self.running: tuple[Node, ...] = ()
        monkeypatch.setattr(segments, "running", lambda _cluster: self.running)
        monkeypatch.setattr(segments, "_topic_ids", lambda _cluster: {"orders": "target-id", "other": "o"})
        monkeypatch.setattr(segments, "stop_cluster", lambda _cluster: self.calls.append("stop"))
        monkeypatch.setattr(segments, "start_again", lambda _cluster: self.calls.append("start"))
        monkeypatch.setattr(segments, "log_ends", self._ends)
        for cluster, text in ((self.source, "source"), (self.target, "target")):
            folder = cluster.nodes[0].folder
            for topic in ("orders-0", "other-0"):
                (folder / topic).mkdir(parents=True)
                (folder / topic / LOG).write_text(text)
            (folder / "orders-0" / "partition.metadata").write_text(f"{text}-id")
        (self.source.nodes[0].folder / "orders-0" / "leader-epoch-checkpoint").write_text("epochs")
        (self.source.nodes[0].folder / "orders-0" / "00000000000000000007.snapshot").write_text("producers")
        (self.target.nodes[0].folder / "orders-0" / "00000000000000000000.timeindex").write_text("target")
        for cluster, offsets in (
            (self.source, {"orders-0": 7, "other-0": 9}),
            (self.target, {"orders-0": 0, "other-0": 3}),
        ):
            for name in ("replication-offset-checkpoint", "log-start-offset-checkpoint"):
                write_checkpoint(cluster.nodes[0].folder / name, offsets)

    def _ends(self, _bootstrap: str, topic: str, partitions: int) -> dict[TopicPartition, int]:
        end = self.after if "start" in self.calls else self.before
        return {TopicPartition(topic, number): end for number in range(partitions)}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A topic to copy, and another one."""
    return Stage(tmp_path, monkeypatch)


def test_a_log_comes_over_whole_but_for_id_and_producers(stage: Stage) -> None:
    """Files that only the target had are gone; the other topic is as it was."""
    copy_segments(stage.source, stage.target, ["orders"])
    assert stage.calls == ["stop", "start"]
    folder = stage.target.nodes[0].folder
    texts = {file.name: file.read_text() for file in (folder / "orders-0").iterdir()}
    assert texts == {
        LOG: "source",
        "leader-epoch-checkpoint": "epochs",
        "partition.metadata": "target-id",
    }
    assert (folder / "other-0" / LOG).read_text() == "target"


def test_what_the_source_noted_of_the_log_comes_over_too(stage: Stage) -> None:
    """Its start and its end; notes of other logs stay."""
    copy_segments(stage.source, stage.target, ["orders"])
    folder = stage.target.nodes[0].folder
    for name in ("replication-offset-checkpoint", "log-start-offset-checkpoint"):
        assert read_checkpoint(folder / name) == {"orders-0": 7, "other-0": 3}
    assert (folder / "replication-offset-checkpoint").read_text().startswith("0\n2\n")


def test_an_id_that_the_broker_had_not_written_yet_is_written(stage: Stage) -> None:
    """Else the log would count as nobody's."""
    identity = stage.target.nodes[0].folder / "orders-0" / "partition.metadata"
    identity.unlink()
    copy_segments(stage.source, stage.target, ["orders"])
    assert identity.read_text() == "version: 0\ntopic_id: target-id"


def test_a_source_that_runs_is_refused(stage: Stage) -> None:
    """And nothing was touched."""
    stage.running = stage.source.nodes
    with pytest.raises(Rejected, match="source-1 runs; stop the source first"):
        copy_segments(stage.source, stage.target, ["orders"])
    assert stage.calls == []


def test_a_target_with_records_is_refused(stage: Stage) -> None:
    """Before it is stopped."""
    stage.before = 1
    with pytest.raises(Rejected, match="orders-0 of the target has records"):
        copy_segments(stage.source, stage.target, ["orders"])
    assert stage.calls == []


def test_a_topic_of_one_cluster_only_is_refused(stage: Stage) -> None:
    """With what to do."""
    with pytest.raises(Rejected, match="topic 'absent' is not on both clusters; create it"):
        copy_segments(stage.source, stage.target, ["absent"])


def test_another_end_than_the_sources_is_told(stage: Stage) -> None:
    """A broker that dropped a part of the log would go unnoticed."""
    stage.after = 6
    with pytest.raises(Broken, match="orders-0 of the target ends at 6, and the source's ended at 7"):
        copy_segments(stage.source, stage.target, ["orders"])
