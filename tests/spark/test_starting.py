"""A real JVM makes and maps the archive of classes; real workers are forked from our daemon."""

from __future__ import annotations

import gc
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from groupshift.adapters.spark_submit.java import java_binary, java_home
from groupshift.adapters.spark_submit.submit import sharing_options


def _launched(*options: str) -> str:
    """Spark's launcher, which says how it is used; with what the JVM says."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    (launcher,) = (Path(spark.origin).parent / "jars").glob("spark-launcher_*.jar")
    argv = [java_binary(), *options, "-cp", str(launcher), "org.apache.spark.launcher.Main"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr


def test_a_jvm_maps_the_classes_that_one_before_it_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the launcher's own class, which is in no archive of Java's; and it says nothing of it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    said = _launched()
    making = sharing_options().split()
    assert making[0].startswith("-XX:ArchiveClassesAtExit=")
    assert _launched(*making) == said
    mapping = sharing_options().split()
    assert mapping[0].startswith("-XX:SharedArchiveFile=")
    assert _launched(*mapping) == said
    loads = _launched(*mapping, "-Xlog:class+load").splitlines()
    (main,) = (line for line in loads if "org.apache.spark.launcher.Main source:" in line)
    assert main.endswith("shared objects file (top)")


def test_workers_are_forked_with_our_code_loaded(spark: SparkSession) -> None:
    """The session's main module is our daemon, and the collector leaves alone what it loaded."""

    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            daemon = str(sys.modules["__main__"].__file__)
            ready = "groupshift.spark.batches.records" in sys.modules
            yield pa.RecordBatch.from_pydict(
                {"daemon": [daemon], "ready": [ready], "frozen": [gc.get_freeze_count()]}
            )

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(told, "daemon string, ready boolean, frozen long").collect()
    assert row.daemon.endswith("worker_daemon.py")
    assert row.ready
    assert row.frozen > 100_000
