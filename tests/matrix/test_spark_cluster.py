"""The job that reads the coordinator's log, on a standalone cluster: from a dump and from segment files on a
shared folder, at a position of the log, with retention; each table is that of a local run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from coordinator_story import PARTITIONS, T
from groupshift.sandbox.java import java_home
from groupshift.spark.jobs import read_coordinator_log
from groupshift.spark.jobs.read_coordinator_log import TABLES
from groupshift.spark.session import local_session
from spark.test_coordinator_job import dump, segment_files
from spark_cluster import SparkCluster, spark_cluster, submit

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster for this module."""
    with spark_cluster(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """The session of the local runs."""
    os.environ["JAVA_HOME"] = str(java_home())
    session = local_session("groupshift matrix")
    yield session
    session.stop()


@pytest.mark.parametrize("source", ["dump", "segments"])
def test_a_log_from_files_is_read_on_the_cluster(
    cluster: SparkCluster, spark: SparkSession, tmp_path: Path, source: str
) -> None:
    """Every table that the job writes, row by row."""
    given = {"dump": dump, "segments": segment_files}[source](tmp_path / source)
    position = tmp_path / "position.json"
    position.write_text(json.dumps(dict.fromkeys(range(PARTITIONS), 1000)))
    arguments = [f"--{source}", str(given), "--partitions", str(PARTITIONS), "--up-to", str(position)]
    arguments += ["--decoded", "--retention-ms", "1000", "--now-ms", str(T + 5000)]
    local, remote = tmp_path / "local", tmp_path / "remote"
    assert read_coordinator_log.main([*arguments, "--output", str(local)]) == 0
    submit(cluster, tmp_path, read_coordinator_log.__file__, *arguments, "--output", remote)
    wanted = [name for name in TABLES if name != "raw" or source == "segments"]
    for table in wanted:
        found = [
            sorted(pq.read_table(folder / f"{table}.parquet").to_pylist(), key=repr)
            for folder in (local, remote)
        ]
        assert found[1] == found[0], table
        assert found[0], table
