"""The audit of thousands of groups: does it find what was damaged and nothing else, how long, in what memory.

One ZooKeeper and one ZooKeeper-mode broker 3.9.2 with 50 partitions of ``__consumer_offsets``; 15,000 groups,
each with ten offsets committed twice; 5,000 of them have the same offsets in ZooKeeper. Forty offsets for
each of 15 rules are damaged (`measuring.damaged_cluster`). Then ``groupshift audit --all`` in a process of
its own, and the same with ``--spark``.

* ``found_all``: the lowest share of the damaged offsets that an audit named, each by the rule it was damaged
  for; ``invented``: the most offsets that one named and nobody damaged.
* ``ways_differ``: rows that process and Spark do not both have, every column counted.
* ``process_s``: wall time of the process (median); ``cli_ratio``: wall time of ``kafka-consumer-groups.sh
  --describe --all-groups`` (class ConsumerGroupCommand of the jar kafka-tools 4.3.1) on the same broker in
  the same run over it. The peer asks one source of the three: an audit should not take longer than that.
  It is ended after 120 s and counts as if it had ended well then: the ratio is a lower bound.
* ``process_kib_per_group``: peak resident memory of the process, less that of an audit of one group of the
  same cluster, by group. With 64 KiB 100,000 groups take 6.4 GB in one process. ``process_mib``: all of it.
* ``spark_s``, ``spark_mib`` (bounds only): the same for the command with its job: Python of the command and
  of the driver, JVM, Python workers.

Run: make bench BENCH=audit
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from measuring import Aim, fresh_home, median, report
from measuring.damaged_cluster import LOG_PARTITIONS, PARTITIONS, Damaged, damages, fill, group
from measuring.process_tree import Watched, watch

from groupshift.adapters.spark_submit.java import java_binary, java_home
from groupshift.audit.inputs import Key
from groupshift_sandbox.artifacts import SIMPLE_LOGGING, TOOLS, class_path
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, start_kafka
from groupshift_sandbox.zookeeper import ZookeeperOptions, start_zookeeper

_AUDIT = (sys.executable, "-m", "groupshift.cli.main", "audit", "--json", "--commit-interval", "1")
_PEER = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_PEER_DEADLINE_S = 120
_BROKER = {"offsets.topic.num.partitions": str(LOG_PARTITIONS)}
_JUDGED = frozenset({0, 1})


def settings(home: Home, zookeeper: str, bootstrap: str) -> Path:
    """A settings file of these clusters; Spark has two threads and 2 GiB."""
    home.settings_file.write_text(
        f'[kafka]\nbootstrap_servers = "{bootstrap}"\n[zookeeper]\nhosts = "{zookeeper}"\n'
        f'[fleet]\ndriver = "manual"\n[journal]\nurl = "sqlite:///{home.journal}"\n'
        f'[evidence]\nroot = "{home.evidence}"\n[spark]\nmaster = "local[2]"\n'
        '[spark.properties]\n"spark.driver.memory" = "2g"\n'
    )
    return home.settings_file


def audited(home: Home, name: str, *more: str) -> tuple[Watched, dict[str, Any]]:
    """One audit, and what it says as JSON. Raises `SystemExit` when it could not audit."""
    place = ("--settings", str(home.settings_file), "--output", str(home.root / name))
    scratch = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_DIRS": str(home.root / "spark")}
    ended = watch([*_AUDIT, *place, *more], home.root, scratch)
    if ended.code not in _JUDGED:
        raise SystemExit(f"the audit ended with {ended.code}: it could not audit")
    shown = {program: round(mib) for program, mib in ended.peak_mib.items()}
    print(f"  {name:10} {ended.seconds:7.1f} s {ended.cpu_s:7.1f} s cpu {shown} MiB", flush=True)
    return ended, json.loads(ended.printed)


def described(bootstrap: str) -> tuple[float, int]:
    """Seconds of the peer's process and the lines about groups that it printed; ended at its deadline."""
    argv = [
        java_binary(), "-cp", class_path(SIMPLE_LOGGING, TOOLS),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", _PEER,
        "--bootstrap-server", bootstrap, "--describe", "--all-groups", "--timeout", "120000",
    ]  # fmt: skip
    began, printed = time.perf_counter(), ""
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_PEER_DEADLINE_S)
        printed = done.stdout
    seconds = time.perf_counter() - began
    lines = sum(line.startswith("group-") for line in printed.splitlines())
    cut = "" if lines else f", cut off at {_PEER_DEADLINE_S} s: the ratio is a lower bound"
    print(f"  {'peer':10} {seconds:7.1f} s {lines} lines{cut}", flush=True)
    return seconds, lines


def judged(told: dict[str, Any], damaged: tuple[Damaged, ...]) -> dict[str, Any]:
    """How many were planted, found under their rule, and named without a reason."""
    planted: dict[Key, str] = {one.key: one.rule for one in damaged}
    named = {(row["group"], row["topic"], row["partition"]): row["rule"] for row in told["differences"]}
    wrong = {key: rule for key, rule in named.items() if planted.get(key) != rule}
    missed = {key: rule for key, rule in planted.items() if named.get(key) != rule}
    return {
        "planted": len(planted),
        "found": len(planted) - len(missed),
        "invented": len(wrong),
        "missed": sorted(f"{rule} {key}" for key, rule in missed.items())[:10],
        "wrong": sorted(f"{rule} {key}" for key, rule in wrong.items())[:10],
        "keys": told["keys"],
        "problems": told["problems"],
    }


def apart(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Rows that only one of two audits has."""
    rows = [{json.dumps(row, sort_keys=True) for row in each["differences"]} for each in (one, other)]
    return len(rows[0] ^ rows[1])


def measure(home: Home, zookeeper: str, bootstrap: str, options: argparse.Namespace) -> dict[str, Any]:
    """The audits in turn, then the peer."""
    damaged = damages(options.groups, options.planted)
    began = time.perf_counter()
    fill(bootstrap, zookeeper, options.groups, damaged)
    filled_s = time.perf_counter() - began
    print(f"  filled     {filled_s:7.1f} s", flush=True)
    one, _ = audited(home, "one-group", "--groups", group(0))
    process = [audited(home, f"process-{number}", "--all") for number in range(options.rounds)]
    spark = [audited(home, f"spark-{number}", "--all", "--spark") for number in range(options.spark_rounds)]
    peer_s, peer_lines = (None, 0) if options.without_peer else described(bootstrap)
    return {
        "groups": options.groups,
        "filled_s": filled_s,
        "one_group": _told(one),
        "process": [_told(ended) for ended, _ in process],
        "spark": [_told(ended) for ended, _ in spark],
        "judged": [judged(told, damaged) for _, told in (*process, *spark)],
        "ways_differ": max(apart(process[0][1], told) for _, told in (*process, *spark)),
        "peer_s": peer_s,
        "peer_lines": peer_lines,
    }


def _told(ended: Watched) -> dict[str, Any]:
    return {"seconds": ended.seconds, "cpu_s": ended.cpu_s, "peak_mib": dict(ended.peak_mib)}


def aims(raw: dict[str, Any]) -> list[Aim]:
    """Nothing missed or invented; time and memory."""
    process_s = median([one["seconds"] for one in raw["process"]])
    process_mib = max(one["peak_mib"]["all"] for one in raw["process"])
    grown_kib = (process_mib - raw["one_group"]["peak_mib"]["all"]) * 1024
    peer_s = raw["peer_s"]
    asked = [Aim(name="cli_ratio", value=peer_s / process_s, aim=1.0, at_least=True)] if peer_s else []
    shares = [one["found"] / one["planted"] for one in raw["judged"]]
    keys = {one["keys"] for one in raw["judged"]}
    if min(keys) < raw["groups"] * PARTITIONS:
        raise SystemExit(f"{keys} offsets are not all: an audit skipped some")
    return [
        Aim(name="found_all", value=min(shares), aim=1.0, at_least=True),
        Aim(name="invented", value=max(one["invented"] for one in raw["judged"]), aim=0),
        Aim(name="ways_differ", value=raw["ways_differ"], aim=0),
        *asked,
        Aim(name="process_s", value=process_s, aim=60),
        Aim(name="process_kib_per_group", value=grown_kib / raw["groups"], aim=64),
        Aim(name="process_mib", value=process_mib, aim=1024),
        *_of_spark(raw["spark"]),
    ]


def _of_spark(found: list[dict[str, Any]]) -> list[Aim]:
    if not found:
        return []
    return [
        Aim(name="spark_s", value=median([one["seconds"] for one in found]), aim=300),
        Aim(name="spark_mib", value=max(one["peak_mib"]["all"] for one in found), aim=4096),
    ]


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--groups", type=int, default=15_000)
    parser.add_argument("--planted", type=int, default=40, help="damaged offsets of each kind")
    parser.add_argument("--rounds", type=int, default=3, help="of the process; medians count")
    parser.add_argument("--without-peer", action="store_true", help="measure ours only")
    parser.add_argument("--spark-rounds", type=int, default=1, help="of the job")
    options = parser.parse_args()
    with fresh_home() as home:
        zookeeper = start_zookeeper(home.create(), ZookeeperOptions(heap="512m"))
        bootstrap = start_kafka(home, zookeeper, KafkaOptions(heap="1g", properties=_BROKER)).address
        settings(home, zookeeper, bootstrap)
        raw = measure(home, zookeeper, bootstrap, options)
    return report("audit", aims(raw), raw)


if __name__ == "__main__":
    raise SystemExit(main())
