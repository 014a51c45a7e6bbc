"""An offsets topic on real brokers that gets more partitions the whole way, and what its log holds before and
after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.group_changes import commit_rows
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.domain.verdict import Verdict
from groupshift.engine.snapshots import FALLEN
from groupshift.log import LogRecord, commit_place, decode
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.elections import lead_as_preferred
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.rolling import replace_node
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode
from support.cluster_verbs import Verbs, outcomes
from support.led_elsewhere import await_listed, lead_by_first, listed_often, replicas_of, turned
from support.placement_story import OFFSETS, audited, said

TOPIC, PARTITIONS, BEFORE = "orders", 10, 5
ODD = (
    "[/team]/orders",
    "app[prod]",
    "data/data-serving:forwarder",
    "a b#c",
    ".",
    "..",
    "a\x1b[31m|`\u202e",
    "é" * 249,
)
GROUPS = (*(f"team-{number}-grüße" for number in range(300 - len(ODD))), *ODD)
FENCE = """
import pathlib, sys
told = pathlib.Path(__file__).with_name("fenced")
told.write_text((told.read_text() if told.exists() else "") + " ".join(sys.argv[1:]) + " ")
"""
"""A program that only writes down what it was told: here nobody has to be kept out."""
Said = dict[tuple[str, str, int], tuple[int, int, str]]


def moving(to: int) -> frozenset[str]:
    """The groups that another count moves."""
    return frozenset(each for each in GROUPS if partition_of(each, BEFORE) != partition_of(each, to))


def started(home: Home, kind: str) -> Cluster:
    """Three nodes whose offsets topic has five partitions: 4.3.1 (NEW), or 3.9.2 with ZooKeeper (OLD)."""
    five = {"offsets.topic.num.partitions": str(BEFORE)}
    if kind == "NEW":
        return start_kraft(home, KraftOptions(nodes=3, heap="320m", properties=five))
    options = ZookeeperModeOptions(nodes=3, heap="256m", properties=five)
    return start_zookeeper_mode(home, start_zookeeper(home), options)


@contextmanager
def home_in(folder: Path) -> Iterator[Home]:
    """A home of its own; every process of it is ended."""
    found = Home(folder / "home").create()
    try:
        yield found
    finally:
        for process in reversed(marked(found)):
            stop(process, 20.0)


def rows(groups: Iterable[str] = GROUPS) -> list[OffsetRow]:
    """Every partition of every group, each with an epoch and metadata of its own; one in ten has neither."""
    found = []
    for number, group in enumerate(groups):
        for partition in range(PARTITIONS):
            bare = (number + partition) % 10 == 0
            found.append(
                OffsetRow(
                    group=group,
                    topic=TOPIC,
                    partition=partition,
                    offset=1_000 * number + partition,
                    leader_epoch=None if bare else partition % 3,
                    metadata="" if bare else f"{group}/{partition} \u2603",
                )
            )
    return found


def committed(cluster: Cluster) -> None:
    """Commit `rows`."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
        assert commit_rows(raw, rows()) == {}


def wanted() -> Said:
    """What the log must say of every offset."""
    return {
        (row.group, row.topic, row.partition): (
            row.offset,
            -1 if row.leader_epoch is None else row.leader_epoch,
            row.metadata or "",
        )
        for row in rows()
    }


def logged(cluster: Cluster) -> list[tuple[int, Said]]:
    """The live commits of each partition of the log, by their bytes."""
    log = DirectLog(Brokers(bootstrap_servers=cluster.bootstrap, properties={}, timeout_s=60.0))
    latest: dict[tuple[int, tuple[str, str, int]], LogRecord] = {}
    for record in log.read(log.position()):
        key = commit_place(record.key)
        if key is not None and (
            (record.partition, key) not in latest or latest[record.partition, key].offset < record.offset
        ):
            latest[record.partition, key] = record
    found: dict[int, Said] = {number: {} for number in log.position()}
    for (place, key), record in latest.items():
        if record.value is not None:
            said = decode(record, partitions=None).decoded or {}
            found[place][key] = (said["offset"], said["leaderEpoch"], said["metadata"])
    return sorted(found.items())


def placed(count: int) -> list[tuple[int, Said]]:
    """The same as it has to be: every group's commits in its own partition, and nowhere else."""
    found: dict[int, Said] = {number: {} for number in range(count)}
    for key, kept in wanted().items():
        found[partition_of(key[0], count)][key] = kept
    return sorted(found.items())


def answered(cluster: Cluster, *, residue: bool = False) -> Said:
    """What coordinators answer; groups are listed once, unless ``residue`` may be there."""
    from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
    from groupshift.adapters.system import SystemClock

    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    with closing(LiveGroupSnapshots(raw, SystemClock(), patience_s=60.0)) as snapshots:
        state = snapshots.take(GROUPS)
    assert [each for each in state.problems if not (residue and each.of_listing)] == []
    return {
        (row.group, row.topic, row.partition): (
            row.offset,
            -1 if row.leader_epoch is None else row.leader_epoch,
            row.metadata or "",
        )
        for row in state.offsets
    }


def bounced(cluster: Cluster, equal: Callable[[], None], rounds: int = 2) -> Cluster:
    """In each round every partition is led by another replica, and back by its first; in the end a broker
    restarts, with caches that know nothing. ``equal`` is asked after each."""
    first, often = replicas_of(cluster, OFFSETS), listed_often(cluster)
    for number in range(1, rounds + 1):
        for order in (turned(first, number), first):
            lead_by_first(cluster, OFFSETS, order)
            await_listed(cluster, OFFSETS, often)
            equal()
    cluster, _ = replace_node(cluster, cluster.brokers[0].node_id, unchanged)
    lead_as_preferred(cluster, OFFSETS)
    await_listed(cluster, OFFSETS, often)
    equal()
    return cluster


def runs_of(cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]) -> Verbs:
    """The verbs of an expansion."""
    return Verbs(cluster, folder, capsys, "expansion")


def _watched(cluster: Cluster, runs: Verbs, to: int) -> None:
    """The run is as it was proven, until an offset falls; whoever set it sets it back."""
    code, found = runs("watch")
    (kept,) = [each["reason"] for each in found["findings"] if each["rule"] == FALLEN]
    assert (code, found["outcome"]) == (0, "pass"), found
    assert kept == f"{len(wanted())} committed offsets of snapshot S are answered, none is lower"
    row = next(each for each in rows() if each.group == min(moving(to)))
    fell = f"group {row.group}, {TOPIC}-{row.partition}: {row.offset} then, {row.offset - 1} now"
    for offset, code, reasons in ((row.offset - 1, 1, [fell]), (row.offset, 0, [kept])):
        with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
            assert commit_rows(raw, [replace(row, offset=offset)]) == {}
        told, found = runs("watch")
        said = [each["reason"] for each in found["findings"] if each["rule"] == FALLEN]
        assert (told, said) == (code, reasons), found


def the_whole_way(home: Home, kind: str, to: int, capsys: pytest.CaptureFixture[str]) -> Cluster:
    """Expand by the verbs, clients kept out meanwhile; the cluster then, after every leader moved away and
    back twice, and was equal."""
    cluster = started(home, kind)
    committed(cluster)
    runs = Verbs(cluster, home.root.parent, capsys, "expansion", fence=FENCE)
    code, planned = runs("run", "--to", str(to))
    assert (code, planned["state"]) == (0, "preview"), planned
    assert {group for group, _, _ in planned["about"]["movers"]} == moving(to)
    code, done = runs("run", "--to", str(to), "--execute", "--yes")
    assert (code, done.get("state"), done.get("verdict")) == (0, "finalised", "pass"), done
    fenced = (home.root.parent / "fenced").read_text().split()
    assert fenced == ["out", done["run"], "in", done["run"]]
    proven = outcomes(done)
    assert (proven["prove/compare V"], proven["prove/verify V"]) == ("pass", "pass"), proven

    def equal() -> None:
        assert (answered(cluster), logged(cluster)) == (wanted(), placed(to))

    equal()
    assert said(audited(cluster), "X06")[0][0] is Verdict.PASS
    at_ms = {each["key"].partition(" ")[2]: each["at_ms"] for each in done["steps"]}
    _watched(cluster, runs, to)
    stood_s = (at_ms[f"prove/audit {OFFSETS}"] - at_ms["drain/drain"]) / 1000
    print(f"{kind}: nobody consumed for {stood_s:.1f} s")
    return bounced(cluster, equal)
