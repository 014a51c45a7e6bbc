"""``groupshift sync`` between two real clusters, with a replicator whose exceptions are chosen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.system import SystemClock
from groupshift.cli.main import main
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.links.link import Link, LinkKind
from groupshift.spark.link_sides import LiveSide
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, log_ends
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.replication.clusters import ClusterPair, start_pair
from groupshift_sandbox.replication.replicator import Choices, Replicator, ReplicatorOptions, positions_file
from support.native_member import NativeMember, joined
from support.numbered_records import write

pytestmark = pytest.mark.timeout(600)
LINK = Link(name="dr", kind=LinkKind.MM2_DEFAULT, source_alias="primary", target_alias="backup")
COPY = "primary.orders"
Commits = dict[int, tuple[int, str]]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPair]:
    """Two clusters, and two partitions of 1,000 records with dropped ones and a replay, copied."""
    home = Home(tmp_path_factory.mktemp("pair")).create()
    try:
        made = start_pair(home)
        create_topic(made.source.bootstrap, "orders", 2)
        write(made.source.bootstrap, "orders", 2, 1_000)
        with closing(replicator(made)) as copying:
            copying.settle()
        yield made
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def replicator(pair: ClusterPair) -> Replicator:
    """It drops some records and copies some again."""
    options = ReplicatorOptions(
        link=LINK,
        source=pair.source.bootstrap,
        target=pair.target.bootstrap,
        topics=("orders",),
        batch=20,
        choices=Choices(dropped=frozenset({30, 31, 500}), replays={300: 250}),
    )
    return Replicator(options, positions_file(pair.home, LINK.name))


@pytest.fixture
def run(
    pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Call a verb with settings of the link; they are the same for every test."""
    folder = tmp_path_factory.getbasetemp() / "sync"
    folder.mkdir(exist_ok=True)
    file = folder / "settings.toml"
    file.write_text(
        f"""
        [kafka]
        bootstrap_servers = "{pair.target.bootstrap}"
        [journal]
        url = "sqlite:///{folder}/journal.db"
        [evidence]
        root = "{folder}/evidence"
        [fleet]
        driver = "manual"
        [links.dr]
        kind = "mm2-default"
        source_alias = "primary"
        target_alias = "backup"
        drops_records = true
        [links.dr.source]
        bootstrap_servers = "{pair.source.bootstrap}"
        [links.dr.target]
        bootstrap_servers = "{pair.target.bootstrap}"
        """
    )

    def called(verb: str, *words: object) -> tuple[int, str, str]:
        code = main(["sync", verb, *map(str, words), "--settings", str(file)])
        return code, *capsys.readouterr()

    return called


def commit_at(cluster: Cluster, group: str, topic: str, offsets: Commits, *, epoch: int = 0) -> None:
    """Commit as a consumer would, with a leader epoch."""
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as kafka:
        commits = {TopicPartition(topic, number): each for number, each in offsets.items()}
        commit(kafka, {group: commits}, leader_epoch=epoch)


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, OffsetRow]:
    """What the coordinator has."""
    with closing(LiveSide(KafkaCluster(cluster.bootstrap, timeout_s=60.0), SystemClock())) as side:
        return {row.at: row for row in side.committed([group]).offsets}


def test_cluster_18_a_plan_changes_nothing_at_either_cluster(pair: ClusterPair, run: Run) -> None:
    """Not one record in the offsets topics."""
    commit_at(pair.source, "billing", "orders", {0: (400, "m\0"), 1: (1_000, "")})
    clusters = (pair.source.bootstrap, pair.target.bootstrap)
    before = [log_ends(each, "__consumer_offsets", 10) for each in clusters]
    code, shown, _ = run("plan", "--link", "dr", "--groups", "billing", "--json")
    rows = [json.loads(line) for line in shown.splitlines()][1:]
    assert code == 0
    assert [(row["target_tp"], row["certainty"]) for row in rows] == [
        (f"{COPY}-0", "exact-proven"),
        (f"{COPY}-1", "exact-proven"),
    ]
    assert [
        log_ends(each.bootstrap, "__consumer_offsets", 10) for each in (pair.source, pair.target)
    ] == before


def test_cluster_07_what_is_written_is_the_copy_of_the_next_record(
    pair: ClusterPair, run: Run, tmp_path: Path
) -> None:
    """With metadata byte for byte and no leader epoch; a second cycle writes nothing."""
    commit_at(pair.source, "exact", "orders", {0: (400, "m\0"), 1: (1_000, "")}, epoch=3)
    file = tmp_path / "plan.jsonl"
    assert run("plan", "--link", "dr", "--groups", "exact", "--output", file)[0] == 0
    assert run("apply", file, "--execute")[0] == 0
    there = committed(pair.target, "exact")
    row = there[TopicPartition(COPY, 0)]
    # 2 dropped before it, 50 copied again, and the next one is source offset 400
    assert (row.offset, row.metadata, row.leader_epoch) == (400 - 2 + 50, "m\0", None)
    assert run("plan", "--link", "dr", "--groups", "exact", "--output", file)[0] == 0
    code, shown, _ = run("apply", file, "--execute", "--json")
    rows = [json.loads(line) for line in shown.splitlines()][1:]
    assert code == 0
    assert [(row["action"], row["reason"]) for row in rows if row["source_tp"]] == [("SKIP", "OK")] * 2
    assert committed(pair.target, "exact") == there
    assert run("status", "--link", "dr", "--group", "exact")[0] == 0


def test_cluster_08_a_live_group_is_skipped_by_name(pair: ClusterPair, run: Run, tmp_path: Path) -> None:
    """Of the consumer protocol; nothing of it is written."""
    commit_at(pair.source, "live", "orders", {0: (400, "")})
    file = tmp_path / "plan.jsonl"
    with closing(KafkaCluster(pair.target.bootstrap, timeout_s=60.0)) as kafka:
        member = joined(NativeMember, kafka, "live", [COPY])
        member.await_assigned(2)
        code, shown, _ = run("plan", "--link", "dr", "--groups", "live", "--output", file)
        assert (code, "SKIP_ACTIVE" in shown) == (1, True)
        assert run("apply", file, "--execute")[0] == 1
        member.leave()
    assert committed(pair.target, "live") == {}


@pytest.mark.parametrize("point", ["before_journal", "after_act", "after_read_back"])
def test_cluster_17_a_killed_process_is_taken_over_and_its_work_completed(
    pair: ClusterPair, run: Run, tmp_path: Path, point: str
) -> None:
    """SIGKILL before and after the write; the link stays held, and nothing is written twice."""
    group, file = f"killed-{point}", tmp_path / "plan.jsonl"
    commit_at(pair.source, group, "orders", {0: (400, ""), 1: (700, "")})
    run("plan", "--link", "dr", "--groups", group, "--output", file)
    killed = {"GROUPSHIFT_TEST_HOOKS": "1", "GROUPSHIFT_CRASH_AT_STEP": f"sync dr.{point}"}
    words = [sys.executable, "-m", "groupshift.cli.main", "sync", "apply", str(file), "--execute"]
    settings = ["--settings", str(file.parent.parent / "sync" / "settings.toml")]
    assert subprocess.run([*words, *settings], env={**os.environ, **killed}, check=False).returncode == -9
    code, _, said = run("apply", file, "--execute")
    assert (code, "add --take-over if that process is gone" in said) == (3, True)
    assert run("apply", file, "--execute", "--take-over")[0] == 0
    offsets = {at.partition: row.offset for at, row in committed(pair.target, group).items()}
    assert offsets == {0: 448, 1: 700 - 3 + 50}


def test_commits_are_followed(pair: ClusterPair, run: Run) -> None:
    """What is committed while it runs is on the target when it ends."""
    commit_at(pair.source, "tail", "orders", {0: (100, "")})
    later = threading.Timer(6.0, commit_at, (pair.source, "tail", "orders", {0: (900, "late")}))
    later.start()
    code, shown, said = run("follow", "--link", "dr", "--groups", "tail", "--execute", "--for", 15, "--json")
    later.join()
    assert code == 0, said
    assert json.loads(shown[shown.index("{\n") :])["writes"] == 2
    row = committed(pair.target, "tail")[TopicPartition(COPY, 0)]
    assert (row.offset, row.metadata) == (900 - 3 + 50, "late")
