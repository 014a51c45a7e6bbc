"""From a log to a state table, end to end, against the release's own dump tool on the same files.

Made-up coordinator records (`measuring.coordinator_log`) lie in segment files of 50 partitions, batches of 1
to 20 records; a KRaft broker 4.3.1 serves the very same files. Every contender is a process of its own and
its wall time counts, starts of Java and Spark included; rounds of all contenders follow each other.

* `dump`, the peer: ``DumpLogSegments --offsets-decoder`` of kafka-tools 4.3.1 over all files, its text thrown
  away. It also says of each batch whether it is valid; one that is not ends the benchmark.
* `segments`: the files → the newest record of each key → decoded: one row a key, as Parquet.
* `broker`: the same from the live broker.
* ``segments_ratio`` and ``broker_ratio``: time of the peer over ours, median of the rounds. Both state
  tables must be equal.
* ``reader_rate``: records a second that one task reads from the files into Arrow, without Spark.

``--growth``: besides, segments of five times as many records (``growth``: its time over that of the fewer),
and the memory of both (``memory_ratio``: highest resident set of driver and JVM).

Run: make bench BENCH=decode_sources
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import Aim, fresh_home, median, report
from measuring.coordinator_log import PARTITIONS
from measuring.segment_files import write_segments

from groupshift.sandbox.artifacts import SIMPLE_LOGGING, TOOLS, class_path
from groupshift.sandbox.home import Home
from groupshift.sandbox.java import java_binary, java_home
from groupshift.sandbox.kafka import create_topic
from groupshift.sandbox.kraft import KraftCluster, await_node, start_kraft, start_node
from groupshift.sandbox.processes import marked, stop

TOPIC = "coordinator-log"
GROWTH = 5
_SESSION = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def dump(folder: Path) -> float:
    """Seconds of the dump tool over every file; its words go to the null device."""
    begun = time.perf_counter()
    subprocess.run(_dump(folder), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def _dump(folder: Path) -> list[str]:
    files = ",".join(str(path) for path in sorted(folder.rglob("*.log")))
    tool = "org.apache.kafka.tools.DumpLogSegments"
    argv = [java_binary(), "-Xmx1g", "-cp", class_path(SIMPLE_LOGGING, TOOLS), tool]
    return [*argv, "--offsets-decoder", "--files", files]


def validated(folder: Path, records: int) -> None:
    """Fail unless the dump tool finds every batch valid and every record."""
    with subprocess.Popen(
        _dump(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as tool:
        assert tool.stdout is not None
        batches = valid = found = 0
        for line in tool.stdout:
            found += line.startswith("| offset")
            batches += line.startswith("baseOffset")
            valid += "isvalid: true" in line
    assert batches == valid, f"{batches - valid} of {batches} batches are not valid"
    assert found == records, f"{found} records where {records} were written"


def contender(source: str, where: str, output: Path) -> None:
    """One process: the state table of a source; prints its figures."""
    begun = time.perf_counter()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(source)
    for key, value in _SESSION.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    started = time.perf_counter()
    _state(spark, source, where, output)
    worked = time.perf_counter()
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - only it knows its process
    jvm = java.java.lang.ProcessHandle.current().pid()
    memory = _peak(jvm) + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spark.stop()
    print(json.dumps({"start_s": started - begun, "work_s": worked - started, "memory_kib": memory}))


def _state(spark: Any, source: str, where: str, output: Path) -> None:
    from groupshift.spark.batches.records import Keep
    from groupshift.spark.coordinator_log import decoded
    from groupshift.spark.coordinator_state import winners
    from groupshift.spark.fetched import Brokers, fetched
    from groupshift.spark.segments import segments

    if source == "segments":
        records = segments(spark, where, topic=TOPIC, keep=Keep.NEWEST)
    else:
        brokers = Brokers(bootstrap_servers=where)
        records = fetched(spark, brokers, topic=TOPIC, keep=Keep.NEWEST)
    newest = winners(records.persist()).persist()
    decoded(newest, PARTITIONS).write.parquet(str(output))


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def ours(source: str, where: str, output: Path) -> dict[str, Any]:
    """Figures of one contender, its wall time among them; what it wrote is in ``output``."""
    shutil.rmtree(output, ignore_errors=True)
    argv = [sys.executable, __file__, "--contender", source, where, str(output)]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    begun = time.perf_counter()
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    wall = time.perf_counter() - begun
    return {"wall_s": wall, **json.loads(done.stdout.splitlines()[-1])}


def fingerprint(output: Path) -> str:
    """SHA-256 of the sorted rows of a state table."""
    import pyarrow.dataset as ds

    table = ds.dataset(output, format="parquet").to_table()
    rows = sorted(json.dumps(row, sort_keys=True, default=repr) for row in table.to_pylist())
    assert rows
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def serve(home: Home, folder: Path) -> KraftCluster:
    """A broker whose topic is the segment files of ``folder``: put in its place while it is down."""
    cluster = start_kraft(home.create())
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    for process in marked(home):
        stop(process, 30.0)
    (node,) = cluster.nodes
    for place in sorted(path for path in node.folder.rglob(f"{TOPIC}-*") if path.is_dir()):
        for old in place.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        shutil.copy(folder / place.name / f"{0:020}.log", place)
    for clean in node.folder.rglob(".kafka_cleanshutdown"):
        clean.unlink()  # so that it checks and indexes what lies there
    await_node(cluster, node, start_node(cluster, node))
    return cluster


def reader_rate(folder: Path) -> float:
    """Records a second from the files into Arrow, one thread, checksums compared, compiled beforehand."""
    from groupshift.spark.batches.files import filesystem, read_parts
    from groupshift.spark.batches.inflation import Origin
    from groupshift.spark.batches.records import read_records

    store, rates = filesystem(str(folder))[0], []
    for path in sorted(folder.rglob("*.log"))[:5]:
        begun, rows = time.process_time(), 0
        for part in read_parts(store, str(path), 0, path.stat().st_size, check=True):
            found = read_records(part.data, part.headers.table, Origin(name=str(path)))
            rows += sum(len(each) for each in found)
        rates.append(rows / (time.process_time() - begun))
    return median(rates[1:])


def measure(home: Home, records: int, rounds: int) -> list[dict[str, Any]]:
    """All rounds."""
    folder, output = home.root / "segments", home.root / "state"
    size = write_segments(folder, TOPIC, records)
    print(f"  {records:,} records, {size / 2**20:,.0f} MiB", flush=True)
    validated(folder, records)
    cluster = serve(home, folder)
    rate, found = reader_rate(folder), []
    for number in range(rounds):
        one: dict[str, Any] = {"reader_rate": rate, "dump": {"wall_s": dump(folder)}}
        one["segments"] = ours("segments", str(folder), output)
        one["segments"]["state"] = fingerprint(output)
        one["broker"] = ours("broker", cluster.bootstrap, output)
        one["broker"]["state"] = fingerprint(output)
        assert one["segments"]["state"] == one["broker"]["state"], "the state tables differ"
        walls = ", ".join(f"{arm} {one[arm]['wall_s']:.1f} s" for arm in ("dump", "segments", "broker"))
        print(f"  round {number + 1}: {walls}", flush=True)
        found.append(one)
    return found


def growth(home: Home, records: int) -> dict[str, Any]:
    """Segments of ``records`` and of five times as many."""
    figures: dict[str, Any] = {}
    for name, count in (("few", records), ("many", records * GROWTH)):
        folder = home.root / f"segments-{name}"
        write_segments(folder, TOPIC, count)
        figures[name] = ours("segments", str(folder), home.root / "state")
        shutil.rmtree(folder)
        print(f"  {count:,} records: {figures[name]['work_s']:.1f} s", flush=True)
    return figures


def aims(rounds: Sequence[dict[str, Any]], grown: dict[str, Any] | None) -> list[Aim]:
    """Medians of the ratios within a round."""
    ratio = {
        arm: median([each["dump"]["wall_s"] / each[arm]["wall_s"] for each in rounds])
        for arm in ("segments", "broker")
    }
    found = [
        Aim(name="segments_ratio", value=ratio["segments"], aim=3, at_least=True),
        Aim(name="broker_ratio", value=ratio["broker"], aim=1.5, at_least=True),
        Aim(name="reader_rate", value=rounds[0]["reader_rate"], aim=3e6, at_least=True),
    ]
    if grown:
        few, many = grown["few"], grown["many"]
        found.append(Aim(name="growth", value=many["work_s"] / few["work_s"], aim=5.5))
        found.append(Aim(name="memory_ratio", value=many["memory_kib"] / few["memory_kib"], aim=1.2))
    return found


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--records", type=int, default=10_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--growth", action="store_true", help="also five times as many records")
    arguments.add_argument(
        "--contender", nargs=3, metavar=("SOURCE", "WHERE", "OUTPUT"), help=argparse.SUPPRESS
    )
    options = arguments.parse_args()
    if options.contender:
        source, where, output = options.contender
        contender(source, where, Path(output))
        return 0
    with fresh_home() as home:
        rounds = measure(home, options.records, options.rounds)
        grown = growth(home, options.records) if options.growth else None
    return report("decode_sources", aims(rounds, grown), {"rounds": rounds, "growth": grown})


if __name__ == "__main__":
    sys.exit(main())
