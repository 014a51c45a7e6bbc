"""The jobs that read the coordinator's log and audit it, on a standalone cluster: from a dump, from segment
files on a shared folder, at a position of the log, with retention, and from a real broker; each table is that
of a local run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from groupshift.adapters.spark_submit.java import java_home
from groupshift.audit.inputs import Terms
from groupshift.bootstrap.audit_jobs import AuditRequest, handed_over, run_audit
from groupshift.jobs import read_coordinator_log
from groupshift.jobs.read_coordinator_log import TABLES
from groupshift.settings import KafkaSettings, ZookeeperSettings
from groupshift.spark.session import local_session
from groupshift_sandbox.home import Home
from spark.test_coordinator_job import dump, segment_files
from support.committed_offsets import Servers, committed_offsets
from support.coordinator_story import PARTITIONS, T
from support.spark_cluster import SparkCluster, spark_cluster, submit

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


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A broker with committed offsets, and its ZooKeeper, in which one of them is another."""
    home = Home(tmp_path_factory.mktemp("sandbox")).create()
    with committed_offsets(home, 2, {"orders-app": (5, 6), "billing": (7,)}) as running:
        client = KazooClient(hosts=running.zookeeper)
        client.start(timeout=60)
        client.create("/consumers/orders-app/offsets/orders/0", b"5", makepath=True)
        client.create("/consumers/orders-app/offsets/orders/1", b"2")
        for folder in ("ids", "migration/ids"):
            client.create(f"/consumers/orders-app/{folder}/orders-app_m", b"{}", makepath=True)
        client.stop()
        client.close()
        yield running


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


def rows(folder: Path) -> list[dict[str, Any]]:
    """Every row of a folder of Parquet files, in one order."""
    return sorted(pq.read_table(folder).to_pylist(), key=repr)


def test_the_log_of_a_real_broker_is_read_and_audited_on_the_cluster(
    cluster: SparkCluster, broker: Servers, tmp_path: Path, spark: SparkSession
) -> None:
    """`read_coordinator_log.py --brokers`, `audit_offsets.py`: executors fetch from the leaders; tables and
    differences are those of a local run."""
    given = ["--brokers", broker.bootstrap, "--partitions", "10", "--decoded"]
    local, remote = tmp_path / "local", tmp_path / "remote"
    assert read_coordinator_log.main([*given, "--output", str(local)]) == 0
    submit(cluster, tmp_path, read_coordinator_log.__file__, *given, "--output", remote)
    for table in ("raw", "decoded", "commits", "foreign", "groups"):
        assert rows(remote / f"{table}.parquet") == rows(local / f"{table}.parquet"), table
    committed = {
        (row["group_id"], row["partition"]): row["offset"] for row in rows(remote / "commits.parquet")
    }
    assert committed == {("orders-app", 0): 5, ("orders-app", 1): 6, ("billing", 0): 7}
    request = AuditRequest(
        kafka=KafkaSettings(bootstrap_servers=broker.bootstrap),
        zookeeper=ZookeeperSettings(hosts=broker.zookeeper),
        options=Terms(settle_ms=200),
        timeout_s=60.0,
    )
    with handed_over(request) as handed:
        submit(cluster, tmp_path, handed.job, *handed.arguments)
        found = handed.result()
    assert found.looked == run_audit(request).looked
    assert [(one.key, one.rule) for one in found.looked.mismatches] == [(("orders-app", "orders", 1), "A33")]
