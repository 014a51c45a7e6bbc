"""How long a live snapshot of thousands of groups takes, against Kafka's own command line on the same broker.

One KRaft broker 4.3.1; 2,000 groups without members, each with ten committed offsets, then 15,000. Ours reads
groups, descriptions, stable offsets and log ends; the peer is ``kafka-consumer-groups.sh --describe
--all-groups`` (class ConsumerGroupCommand of the jar kafka-tools 4.3.1), which prints offsets, log ends and
members. Both run again and again in turn; medians count.

* ``cli_ratio``: wall time of the peer's process / time of ``LiveGroupSnapshots.take`` in a process that runs
  already, connections made anew each time, as an operator or a phase does it.
* ``process_ratio``: wall time of the peer's process / that of ``groupshift snapshot --all``, which
  also writes Parquet.
* ``differences``: rows (group, topic, partition, committed offset, log end) that are not in both.
* ``groups_15000_s``: one snapshot of 15,000 groups x 10 partitions with everything written as Parquet.

Run: make bench BENCH=snapshot
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import Aim, fresh_home, median, report

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.parquet.snapshots import ParquetClusterSnapshots
from groupshift.adapters.spark_submit.java import java_binary
from groupshift.adapters.system import SystemClock
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState
from groupshift_sandbox.artifacts import SIMPLE_LOGGING, TOOLS, class_path
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import start_kraft

GROUPS, MANY, PARTITIONS, TOPICS = 2_000, 15_000, 10, 20
_CELLS = 6

Row = tuple[str, str, int, int, int]


def populate(bootstrap: str, first: int, last: int) -> None:
    """Commit ten offsets for each of the groups ``first`` to ``last`` - 1."""
    cluster = KafkaCluster(bootstrap, timeout_s=120.0)
    commit(
        cluster,
        {
            f"group-{n:05}": {
                TopicPartition(f"topic-{n % TOPICS}", p): (n + p, "") for p in range(PARTITIONS)
            }
            for n in range(first, last)
        },
    )
    cluster.close()


def ours(bootstrap: str) -> tuple[float, ClusterState]:
    """Seconds of one snapshot with new connections, and what it found."""
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=60.0), SystemClock())
    try:
        begun = time.perf_counter()
        state = snapshots.take()
        return time.perf_counter() - begun, state
    finally:
        snapshots.close()


def ours_whole(bootstrap: str, folder: Path) -> float:
    """Seconds of the process ``groupshift snapshot --all``."""
    argv = [sys.executable, "-m", "groupshift.cli.main", "snapshot", "--all"]
    begun = time.perf_counter()
    subprocess.run(
        [*argv, "--bootstrap-servers", bootstrap, "--output", str(folder)], check=True, capture_output=True
    )
    return time.perf_counter() - begun


def theirs(bootstrap: str) -> tuple[float, str]:
    """Seconds of the peer's process, and what it printed."""
    argv = [
        java_binary(), "-cp", class_path(SIMPLE_LOGGING, TOOLS),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", bootstrap, "--describe", "--all-groups", "--timeout", "120000",
    ]  # fmt: skip
    begun = time.perf_counter()
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, done.stdout


def their_rows(printed: str) -> Iterator[Row]:
    """GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET … of every line that is no header."""
    for line in printed.splitlines():
        cells = line.split()
        if len(cells) >= _CELLS and cells[0] != "GROUP":
            yield cells[0], cells[1], int(cells[2]), int(cells[3]), int(cells[4])


def our_rows(state: ClusterState) -> Iterator[Row]:
    """The same five figures of every committed offset."""
    ends = {(end.topic, end.partition): end.log_end for end in state.log_ends}
    for row in state.offsets:
        yield row.group, row.topic, row.partition, row.offset, ends[row.topic, row.partition]


def against_the_command_line(home: Home, bootstrap: str, rounds: int) -> tuple[list[Aim], dict[str, Any]]:
    """Both in turn on 2,000 groups."""
    times: dict[str, list[float]] = {"take": [], "process": [], "peer": []}
    for number in range(rounds):
        took, state = ours(bootstrap)
        times["take"].append(took)
        times["process"].append(ours_whole(bootstrap, home.root / f"snapshot-{number}"))
        took, printed = theirs(bootstrap)
        times["peer"].append(took)
        rows = set(our_rows(state))
        differences = len(rows ^ set(their_rows(printed)))
        assert len(rows) == GROUPS * PARTITIONS, f"{len(rows)} rows are not all"
    peer = median(times["peer"])
    aims = [
        Aim(name="cli_ratio", value=peer / median(times["take"]), aim=30.0, at_least=True),
        Aim(name="process_ratio", value=peer / median(times["process"]), aim=1.0, at_least=True),
        Aim(name="differences", value=differences, aim=0),
    ]
    return aims, {"seconds": times, "rows": len(rows), "requests": state.requests}


def many(home: Home, bootstrap: str, rounds: int) -> tuple[Aim, dict[str, Any]]:
    """15,000 groups, each time to Parquet."""
    seconds, offsets = [], set()
    for number in range(rounds):
        begun = time.perf_counter()
        _, state = ours(bootstrap)
        ParquetClusterSnapshots().write(home.root / f"many-{number}", state)
        seconds.append(time.perf_counter() - begun)
        offsets.add(len(state.offsets))
    assert offsets == {MANY * PARTITIONS}, f"{offsets} offsets are not all"
    return Aim(name="groups_15000_s", value=median(seconds), aim=10.0), {"seconds": seconds}


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with fresh_home() as home:
        bootstrap = start_kraft(home.create()).bootstrap
        for number in range(TOPICS):
            create_topic(bootstrap, f"topic-{number}", PARTITIONS)
        populate(bootstrap, 0, GROUPS)
        ours(bootstrap), theirs(bootstrap)  # the broker's code is compiled by what it does
        aims, raw = against_the_command_line(home, bootstrap, rounds)
        populate(bootstrap, GROUPS, MANY)
        aim, raw_many = many(home, bootstrap, rounds)
    return report("snapshot", [*aims, aim], {"command_line": raw, "many": raw_many})


if __name__ == "__main__":
    raise SystemExit(main())
