"""Spark sessions: a small quiet one for a job, and one for a comparison of millions of rows.

Local sessions are bound to the loopback address. The large one has compiled code, adaptive plans and a
bounded heap.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from groupshift.adapters.spark_submit.submit import BRIEF, sharing_options

# Snapshots are a few thousand rows: planning and code generation cost more than the work itself.
_SMALL_DATA = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
LOCAL = {**_LOOPBACK, "spark.python.daemon.module": "groupshift.spark.worker_daemon"}
"""Of a local master: it listens here only, and its workers are forked with what our tasks need loaded."""


def versions(spark: SparkSession) -> dict[str, str]:
    """Spark and the Java that runs it, as they call themselves."""
    java = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM's properties
    java_version = java.System.getProperty("java.version") if java is not None else "unknown"
    return {"spark": str(spark.version), "java": str(java_version)}


def start_with(options: str, *arguments: str) -> None:
    """What the JVM is started with if this process starts it: ``options`` of its own, the classes that it
    shares with earlier ones, and ``arguments`` of spark-submit. What the environment says already stands."""
    if not {"PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"} & os.environ.keys():
        every = f"{options} {sharing_options()}".strip()
        submit = " ".join([*arguments, f'--driver-java-options "{every}"', "pyspark-shell"])
        os.environ["PYSPARK_SUBMIT_ARGS"] = submit


def local_session(name: str) -> SparkSession:
    """The session of this process for small data. What an earlier job of this process cached is dropped:
    Spark takes a file that was written anew under its name for the one that it has in memory."""
    start_with(BRIEF)  # where this process starts the JVM; spark-submit was given its own
    session = _session(name, _SMALL_DATA)
    session.catalog.clearCache()
    return session


_LARGE_DATA = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.autoBroadcastJoinThreshold": "32m",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_JVM = "-XX:+UseParallelGC -XX:-UsePerfData"
_BRIEF_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def large_session(name: str, memory: str = "2g", *, brief: bool = False) -> SparkSession:
    """The session of this process that is there, else one for large data with a heap of ``memory``.

    A ``brief`` one has little to do: its JVM does not optimise code beyond the first tier, which would take
    longer than it saves (measured: 10.5 instead of 18 s of processor time for 18,000 rows)."""
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    start_with(_BRIEF_JVM if brief else _JVM, f"--driver-memory {memory}")
    return _session(name, _LARGE_DATA)


def _session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """Under ``spark-submit`` the master given there is used, else two local threads; workers run the
    interpreter that runs this code. A local master listens on the loopback address only."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    SparkContext._ensure_initialized()  # noqa: SLF001 - makes SparkConf see what spark-submit was given
    conf = SparkConf()
    master = conf.get("spark.master", None) or "local[2]"
    local = LOCAL if master.startswith("local") else {}
    for key, value in {**settings, **_QUIET, **local}.items():
        conf.set(key, value)
    session = SparkSession.builder.master(master).appName(name).config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
