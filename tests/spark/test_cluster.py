"""Jobs on a standalone cluster, master and workers being real processes: our code travels with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.spark_submit.submit import LOG
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.evidence import Moment
from groupshift.jobs import compare, validate
from groupshift_sandbox.processes import wait_until
from spark.cluster_snapshots import commit, commits, one_group, write
from spark.snapshots import CANARY, OLD_THREE, canary_rules, owner, snapshot, store
from support.spark_cluster import PROPERTIES, WORKERS, SparkCluster, spark_cluster, submit

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]

pytestmark = pytest.mark.timeout(600)  # several Java processes start one after another


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster for this module."""
    with spark_cluster(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two snapshots on a shared folder, with a second owner and an offset gone; and their rules."""
    root = tmp_path_factory.mktemp("shared")
    after = snapshot(CANARY, 520)
    after["owners"].append(owner(0, "m2"))
    del after["offsets"][3]
    folders = {
        "--before": store(root, "canary", Moment.BEFORE, snapshot(OLD_THREE)),
        "--after": store(root, "canary", Moment.AFTER, after, taken_at_ms=1_763_740_021_500),
        "--rules": root / "rules.json",
    }
    folders["--rules"].write_text(json.dumps(canary_rules().to_data()))
    return [part for name, path in folders.items() for part in (name, str(path))]


def settings_file(folder: Path) -> Path:
    """What a deployment says of Spark, besides the connection that names the master."""
    lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in PROPERTIES.items()]
    path = folder / "settings.toml"
    path.write_text("\n".join(["[spark.properties]", *lines, ""]))
    return path


def test_spark_submit_takes_our_code_with_its_sql_to_the_workers(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """Executors on both workers import the zip that was sent, and read the SQL files out of it."""
    submit(cluster, tmp_path, str(HERE / "cluster_probe.py"), "--output", tmp_path)
    found = json.loads((tmp_path / "where.json").read_text())
    assert len(found) == 4
    workers = {Path(one["folder"]).relative_to(cluster.folder).parts[0] for one in found}
    assert workers == {f"worker-{number}" for number in range(WORKERS)}
    sql = files("groupshift").joinpath("sql", "checks", "snapshot")
    for one in found:
        code = Path(one["folder"]) / one["code"]  # Python names it relative to the executor's folder
        assert code == Path(one["folder"]) / "groupshift.zip" / "groupshift" / "__init__.py"
        assert one["checks"]
        assert all(text == sql.joinpath(f"{name}.sql").read_text() for name, text in one["checks"].items())
        assert one["python"] == sys.executable


def test_airflow_gets_the_verdict_of_a_local_master_from_the_cluster(
    cluster: SparkCluster, arguments: list[str], tmp_path: Path, spark: SparkSession
) -> None:
    """Over the connection ``spark_default``: every finding, every count and every difference is the same."""
    assert spark.sparkContext.master.startswith("local")
    local, remote = tmp_path / "local", tmp_path / "remote"
    assert validate.main([*arguments, "--output", str(local)]) == 0
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": cluster.master}),
        "GROUPSHIFT_SETTINGS": str(settings_file(tmp_path)),
        "PYTHONPATH": str(PROJECT / "plugins"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(java_home()),
    }
    environment.pop("SPARK_LOCAL_IP", None)
    script = [sys.executable, str(HERE / "airflow_submit.py"), validate.__file__, str(remote)]
    done = subprocess.run(
        [*script, *arguments, "--output", str(remote)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    verdicts = [json.loads((folder / validate.VERDICT).read_text()) for folder in (local, remote)]
    assert verdicts[0]["verdict"] == "fail"
    assert verdicts[1] == verdicts[0]
    differences = [pq.read_table(folder / validate.DIFFERENCES).to_pylist() for folder in (local, remote)]
    assert differences[1] == differences[0] != []
    wait_until(
        lambda: any(
            "validate" in name or "canary" in name
            for name in (str(app["name"]) for app in cluster.applications())
        ),
        60.0,
        "the master takes the application for ended",
    )
    assert not (remote / LOG).exists()


def test_two_clusters_compare_on_the_cluster_as_they_do_here(
    cluster: SparkCluster, tmp_path: Path, spark: SparkSession
) -> None:
    """`compare.py`: verdict, findings, classes and every differing row; executors read the shared folder."""
    before = write(tmp_path / "before", one_group(offsets=[*one_group()["offsets"], *commits()]), files=3)
    moved = one_group(offsets=[*one_group()["offsets"][1:], *commits()[2:], commit("new", 0, 5)])
    after = write(tmp_path / "after", moved, files=3)
    given = [str(before), str(after), "--move", Comparison.PROTOCOL.value, "--part-rows", "20"]
    local, remote = tmp_path / "local", tmp_path / "remote"
    assert compare.main([*given, "--output", str(local)]) == 0
    submit(cluster, tmp_path, compare.__file__, *given, "--output", remote)
    verdicts = [json.loads((folder / "verdict.json").read_text()) for folder in (local, remote)]
    assert verdicts[0]["verdict"] == "fail"
    assert _timeless(verdicts[1]) == _timeless(verdicts[0])
    assert rows(remote / "differences") == rows(local / "differences") != []


def _timeless(verdict: dict[str, Any]) -> dict[str, Any]:
    return {name: told for name, told in verdict.items() if name not in {"seconds", "output"}}


def rows(folder: Path) -> list[dict[str, Any]]:
    """Every row of a folder of Parquet files, in one order."""
    return sorted(pq.read_table(folder).to_pylist(), key=repr)
