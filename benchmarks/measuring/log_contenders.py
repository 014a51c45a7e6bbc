"""Contenders of `decode`: the release's dump tool, ours from three sources, each a process of its own.

Run as a program this module is one of ours: ``python -m measuring.log_contenders SOURCE WHERE OUTPUT``.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from groupshift.adapters.spark_submit.java import java_binary, java_home
from groupshift_sandbox.artifacts import SIMPLE_LOGGING, TOOLS, class_path
from measuring.coordinator_log import PARTITIONS

TOPIC = "coordinator-log"
_SHORT_JOB = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Tasks in Python read and write: optimising the JVM's code takes longer than it saves."""
_FEW_OBJECTS = " -Xmn64m"
_SMALL = {"spark.driver.memory": "768m", "spark.driver.extraJavaOptions": _SHORT_JOB + _FEW_OBJECTS}
"""Where no row passes through the JVM."""

_SESSION = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": _SHORT_JOB,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def dump(folder: Path) -> dict[str, float]:
    """``wall_s`` and ``cpu_s`` of the dump tool over every file; its words go to the null device."""
    before, begun = _children_s(), time.perf_counter()
    subprocess.run(_dump(folder), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {"wall_s": time.perf_counter() - begun, "cpu_s": _children_s() - before}


def _dump(folder: Path) -> list[str]:
    files = ",".join(str(path) for path in sorted(folder.rglob("*.log")))
    tool = "org.apache.kafka.tools.DumpLogSegments"
    argv = [java_binary(), "-Xmx1g", "-cp", class_path(SIMPLE_LOGGING, TOOLS), tool]
    return [*argv, "--offsets-decoder", "--files", files]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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


def ours(source: str, where: str, output: Path) -> dict[str, Any]:
    """The state table of ``source`` (segments, broker, parquet) in ``output``: ``wall_s`` from the start of
    the process to its end, ``start_s`` and ``work_s`` within it, ``cpu_s`` of all its processes,
    ``memory_kib``: highest resident sets of the driver, Python and JVM."""
    shutil.rmtree(output, ignore_errors=True)
    argv = [sys.executable, "-m", __name__, source, where, str(output)]
    inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    environment = {
        **inherited,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    begun = time.perf_counter()
    done = subprocess.run(
        argv, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    return {"wall_s": time.perf_counter() - begun, **json.loads(done.stdout.splitlines()[-1])}


def _contender(source: str, where: str, output: str) -> None:
    begun = time.perf_counter()
    from pyspark.sql import SparkSession

    from groupshift.adapters.spark_submit.submit import sharing_options
    from groupshift.spark.session import LOCAL

    conf: dict[str, Any] = _SESSION | LOCAL | ({} if source == "parquet" else _SMALL)
    conf["spark.driver.extraJavaOptions"] += f" {sharing_options()}"
    loading = Thread(target=import_module, args=("groupshift.spark.coordinator_log",))
    loading.start()  # while the JVM starts
    spark = SparkSession.builder.appName(source).config(map=conf).getOrCreate()
    loading.join()
    started = time.perf_counter()
    _write(spark, source, where, Path(output))
    worked = time.perf_counter()
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - only it knows its process
    jvm = java.java.lang.ProcessHandle.current().pid()
    figures = {
        "start_s": started - begun,
        "work_s": worked - started,
        "cpu_s": sum(_cpu_s(pid) for pid in _family(os.getpid())),
        "memory_kib": _peak(jvm) + _peak(os.getpid()),
    }
    spark.stop()
    print(json.dumps(figures))


def _write(spark: Any, source: str, where: str, output: Path) -> None:
    from groupshift.spark.broker_source import Brokers, fetched
    from groupshift.spark.coordinator_log import decoded, decoding, winners
    from groupshift.spark.segments import read_segments, scan_segments
    from measuring.parquet_log import write_by_tasks

    state = decoding(PARTITIONS, winners=True)
    if source == "segments":
        log = scan_segments(spark, where, topic=TOPIC)
        write_by_tasks(lambda into: read_segments(spark, log, into=into), state, output)
    elif source == "broker":
        brokers = Brokers(bootstrap_servers=where)
        write_by_tasks(lambda into: fetched(spark, brokers, into, topic=TOPIC), state, output)
    else:
        decoded(winners(spark.read.parquet(where)), PARTITIONS).write.parquet(str(output))


def _stat(pid: int) -> list[str]:
    """From the parent's id on; nothing of a process that has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1:]
    except OSError:
        return []


def _family(pid: int) -> Iterator[int]:
    yield pid
    for other in Path("/proc").iterdir():
        if other.name.isdigit() and _stat(int(other.name))[:1] == [str(pid)]:
            yield from _family(int(other.name))


def _cpu_s(pid: int) -> float:
    """User and system time, also of its children that have ended."""
    return sum(int(ticks) for ticks in _stat(pid)[10:14]) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    _contender(*sys.argv[1:])
