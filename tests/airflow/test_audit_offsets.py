"""``audit_offsets``: its two operators over real servers, and its schedule."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.client import KazooClient

from groupshift.adapters.spark_submit.java import java_home
from groupshift.errors import Rejected
from groupshift_airflow import audits, form
from groupshift_sandbox.home import Home
from support.committed_offsets import Servers, committed_offsets

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Of this module; group ``orders-app`` has committed 5."""
    home = Home(tmp_path_factory.mktemp("sandbox")).create()
    with committed_offsets(home, 1, {"orders-app": (5,)}) as running:
        yield running


@pytest.fixture
def nodes(servers: Servers) -> Iterator[KazooClient]:
    """The group's offset in ZooKeeper, and a client to change it."""
    client = KazooClient(hosts=servers.zookeeper)
    client.start(timeout=60)
    client.create("/consumers/orders-app/offsets/orders/0", b"5", makepath=True)
    yield client
    client.stop()
    client.close()


def test_an_audit_is_kept_and_its_verdict_is_red_when_a_difference_is_not_explained(
    database: None, servers: Servers, nodes: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connections say where to look, the evidence of the deployment where it is kept."""
    for name, host in (("kafka", servers.bootstrap), ("zookeeper", servers.zookeeper)):
        told = {"conn_type": f"groupshift_{name}", "host": host}
        monkeypatch.setenv(f"AIRFLOW_CONN_GROUPSHIFT_{name.upper()}_DEFAULT", json.dumps(told))
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    kept = tmp_path / "groupshift" / "evidence" / "audits"
    _run("first")
    assert json.loads((kept / "first" / "manifest.json").read_text())["agreeing"] == 1
    monkeypatch.setenv("AIRFLOW_CONN_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    nodes.create("/consumers/orders-app/offsets/orders/7", b"3")
    nodes.create("/consumers/orders-app/migration/mode", b"kafka", makepath=True)
    for folder, spark in (("second", ""), ("third", "here")):
        with pytest.raises(AirflowFailException, match=rf"1 of 2 committed offsets differ .*audits/{folder}"):
            _run(folder, spark)
        told = json.loads((kept / folder / "manifest.json").read_text())
        assert told["kinds"] == {"never committed": 1}
    assert _rows(kept / "third") == _rows(kept / "second")
    with pytest.raises(Rejected, match="audit is never overwritten"):
        _run("third", "here")


def _rows(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "differences.parquet").to_pylist()


def _run(folder: str, spark_conn_id: str = "") -> None:
    """Both tasks, as a run of the DAG with its defaults renders them."""
    context: dict[str, Any] = {"params": {"groups": [], "commit_interval_s": 5}}
    audit, verdict = audits.Audit(task_id="audit"), audits.AuditVerdict(task_id="verdict")
    for task in (audit, verdict):
        task.kafka_conn_id, task.folder = "groupshift_kafka_default", folder
        task.zookeeper_conn_id = "groupshift_zookeeper_default"
    audit.spark_conn_id = spark_conn_id
    assert audit.execute(context) == folder
    verdict.execute(context)


def test_the_schedule_is_the_deployments_and_daily_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from the environment when the file is parsed: no I/O."""
    monkeypatch.delenv("GROUPSHIFT_AUDIT_SCHEDULE", raising=False)
    assert form.schedule("AUDIT", "@daily") == "@daily"
    monkeypatch.setenv("GROUPSHIFT_AUDIT_SCHEDULE", "*/5 * * * *")
    assert form.schedule("AUDIT", "@daily") == "*/5 * * * *"
