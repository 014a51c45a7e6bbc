"""Show 8 on real servers: bad input of ``snapshot``, ``audit`` and the job ``read_coordinator_log``.

One sentence that names what is wrong and what to do, the documented exit code, and the same files before and
after. Rows: B3 mixed clusters, B5 Kafka topic gone, B6 disk full; the others need no server
(tests/unit/cli/test_bad_evidence.py, tests/spark/test_bad_input.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kazoo.client import KazooClient

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.spark_submit.java import java_home
from groupshift.cli.main import main
from groupshift.domain.partitions import TopicPartition
from groupshift.jobs import read_coordinator_log
from groupshift.spark.session import large_session
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import start_kraft
from groupshift_sandbox.processes import marked, stop
from support.small_disk import listing, small_disk
from support.warm_spark import LITTLE_DATA

pytestmark = pytest.mark.timeout(900)  # a job of Spark, on a machine that may do something else, too

FOUND, REJECTED, TRANSIENT = 1, 2, 4
PARTITIONS = 3
PATIENT = ("--timeout", "60")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of another cluster, in which there never was a group: it has no ``__consumer_offsets``."""
    home = Home(tmp_path_factory.mktemp("untouched")).create()
    try:
        yield start_kraft(home).bootstrap
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


@pytest.fixture
def committed(cluster, group: str, topic: Callable[[int], str]) -> str:
    """A group with an offset of each of three partitions; returns its topic."""
    name = topic(PARTITIONS)
    raw = KafkaCluster(cluster.bootstrap, timeout_s=20.0)
    try:
        commit(raw, {group: {TopicPartition(name, n): (0, "x" * 3000) for n in range(PARTITIONS)}})
    finally:
        raw.close()
    return name


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a verb that must end with this code and leave no file; gives the one sentence that it said."""

    def run(code: int, *arguments: str) -> str:
        before = listing(tmp_path)
        assert main([*arguments, *PATIENT, "--output", str(tmp_path / "new")]) == code
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n")) == ("", 1), told
        assert listing(tmp_path) == before
        return told.err.strip()

    return run


def test_b3_snapshot_and_audit_with_brokers_of_two_clusters(cluster, untouched: str, refused) -> None:
    """Whichever is tried first, both are named with their cluster; a server that is down is passed over."""
    for verb in ("snapshot", "audit"):
        both = ("--all", "--bootstrap-servers", f"{cluster.bootstrap},127.0.0.1:1,{untouched}")
        said = refused(REJECTED, verb, *both)
        assert f"{cluster.bootstrap} is of '" in said
        assert f"{untouched} is of '" in said
        assert said.endswith("name those of one")


def test_b3_snapshot_with_another_clusters_zookeeper(cluster, untouched: str, refused) -> None:
    """The ensemble says whose nodes it has."""
    mixed = ("--groups", "g", "--bootstrap-servers", untouched, "--zookeeper", cluster.zookeeper)
    said = refused(REJECTED, "snapshot", *mixed, "--read-from", "in-force")
    assert said.startswith("rejected: ZooKeeper belongs to Kafka cluster '")
    assert said.endswith("name the brokers and the ensemble (with its chroot) of one cluster")


def test_b3_audit_with_another_clusters_zookeeper(cluster, kraft, group: str, refused) -> None:
    """Likewise, once there is a log to read."""
    raw = KafkaCluster(kraft.bootstrap, timeout_s=20.0)
    name = f"topic-{group}"
    create_topic(kraft.bootstrap, name, 1)
    commit(raw, {group: {TopicPartition(name, 0): (0, "")}})
    raw.close()
    mixed = ("--groups", group, "--bootstrap-servers", kraft.bootstrap, "--zookeeper", cluster.zookeeper)
    said = refused(REJECTED, "audit", *mixed)
    assert said.startswith("rejected: ZooKeeper belongs to Kafka cluster '")


def test_b5_the_log_of_the_coordinators_is_gone(
    cluster,
    untouched: str,
    tmp_path: Path,
    refused,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody ever committed there, or the address is another cluster's: the audit and the job say so."""
    said = refused(REJECTED, "audit", "--all", "--bootstrap-servers", untouched)
    assert "__consumer_offsets" in said
    assert untouched in said
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", LITTLE_DATA)
    output = tmp_path / "out"
    given = ["--brokers", untouched, "--partitions", "50", "--output", str(output)]
    assert read_coordinator_log.main(given) == REJECTED
    assert "__consumer_offsets" in capsys.readouterr().err.strip().splitlines()[-1]
    given[1] = f"{untouched},{cluster.bootstrap}"
    assert read_coordinator_log.main(given) == REJECTED
    assert capsys.readouterr().err.strip().endswith("name those of one")
    large_session("the session of this job").stop()
    assert listing(tmp_path) == []


def test_b5_a_group_whose_topic_is_gone(
    cluster, group: str, kazoo: KazooClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No member reads it: the snapshot is written whole and names it in ``problems``; exit code 0."""
    kazoo.ensure_path(f"/consumers/{group}/offsets/gone-{group}/0")
    kazoo.set(f"/consumers/{group}/offsets/gone-{group}/0", b"5")
    where = ("--bootstrap-servers", cluster.bootstrap, "--zookeeper", cluster.zookeeper)
    output = tmp_path / "s"
    arguments = ["snapshot", "--groups", group, *where, "--read-from", "zookeeper", "--output", str(output)]
    assert main([*arguments, *PATIENT, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["problems"]
    kept = "its committed offsets are kept as they are"
    assert said == [f"topic 'gone-{group}' does not exist (any more), and no member reads it: {kept}"]
    problems = pq.read_table(output / "problems-00000.parquet").to_pylist()
    assert [row["problem"] for row in problems] == said
    (row,) = pq.read_table(output / "offsets-00000.parquet").to_pylist()
    assert (row["topic"], row["offset"]) == (f"gone-{group}", 5)


def test_a_slip_in_the_name_of_a_group_is_said(
    cluster, group: str, committed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An absence is an answer, so the snapshot is whole; but what nobody knows is not audited clean."""
    slip, where = f"{group}-slip", (*PATIENT, "--bootstrap-servers", cluster.bootstrap)
    assert main(["snapshot", "--groups", f"{group},{slip}", *where, "--output", str(tmp_path / "s")]) == 0
    assert f"group '{slip}': its coordinator does not know it" in capsys.readouterr().out
    arguments = ["audit", "--groups", f"{group},{slip}", *where, "--zookeeper", cluster.zookeeper]
    assert main([*arguments, "--json"]) == FOUND
    told = json.loads(capsys.readouterr().out)
    assert list(told["unread"]) == [slip]
    assert main(arguments) == FOUND
    shown = " ".join(capsys.readouterr().out.split())
    assert f"group '{slip}': neither a coordinator nor its log nor ZooKeeper knows it" in shown
    assert "not proven: " in shown


def test_b6_snapshot_and_audit_on_a_full_disk(
    cluster, group: str, committed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the folder nor a draft of it; with room both verbs end."""
    asked = ["--groups", group, "--bootstrap-servers", cluster.bootstrap, *PATIENT, "--output"]
    with small_disk(tmp_path / "disk", 1):
        for verb in ("snapshot", "audit"):
            output = tmp_path / "disk" / verb
            assert main([verb, *asked, str(output)]) == TRANSIENT
            said = capsys.readouterr().err.strip()
            assert said.startswith(f"transient: {verb} {output} cannot be written (")
            assert "make room" in said
            assert "\n" not in said
            assert listing(tmp_path / "disk") == []
    for verb in ("snapshot", "audit"):
        assert main([verb, *asked, str(tmp_path / verb)]) == 0
        assert "manifest.json" in listing(tmp_path / verb)
