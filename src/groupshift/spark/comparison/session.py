"""The Spark session of a comparison of millions of rows: compiled code, adaptive plans, a bounded heap."""

from __future__ import annotations

import os
import sys

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from groupshift.spark.session import LOCAL, start_with

_LARGE_DATA = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.autoBroadcastJoinThreshold": "32m",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_JVM = "-XX:+UseParallelGC -XX:-UsePerfData"
_BRIEF_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def large_session(name: str, memory: str = "2g", *, brief: bool = False) -> SparkSession:
    """The session of this process: the one that is there, else under ``spark-submit`` with the master given
    there, else two local threads with a heap of ``memory``.

    A ``brief`` one has little to do: its JVM does not optimise code beyond the first tier, which would take
    longer than it saves (measured: 10.5 instead of 18 s of processor time for 18,000 rows)."""
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    start_with(_BRIEF_JVM if brief else _JVM, f"--driver-memory {memory}")
    SparkContext._ensure_initialized()  # noqa: SLF001 - makes SparkConf see what spark-submit was given
    conf = SparkConf()
    master = conf.get("spark.master", None) or "local[2]"
    for key, value in {**_LARGE_DATA, **(LOCAL if master.startswith("local") else {})}.items():
        conf.set(key, value)
    session = SparkSession.builder.master(master).appName(name).config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
