"""What Airflow's three processes are told, and where its DAGs are found."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from groupshift.errors import Rejected
from groupshift_sandbox import airflow


@pytest.fixture
def spec(tmp_path: Path) -> airflow.AirflowSpec:
    """An Airflow that is not started."""
    return airflow.AirflowSpec(
        home=tmp_path / "airflow",
        project=tmp_path,
        port=18080,
        settings=tmp_path / "settings.toml",
        connections=airflow.connections("127.0.0.1:9092", "127.0.0.1:2181"),
        extra={"JAVA_HOME": "jre"},
    )


@pytest.mark.airflow
def test_everything_binds_the_loopback_address(spec: airflow.AirflowSpec) -> None:
    """And no process serves logs or triggers on a port of its own."""
    told = airflow.environment(spec, {})
    assert told["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert told["AIRFLOW__API__BASE_URL"] == spec.url == "http://127.0.0.1:18080"
    assert airflow.command("airflow-scheduler")[1:] == ["scheduler", "--skip-serve-logs"]
    assert set(airflow.PROCESSES) == {"airflow-api-server", "airflow-scheduler", "airflow-dag-processor"}


def test_what_the_caller_has_configured_for_another_airflow_is_dropped(spec: airflow.AirflowSpec) -> None:
    """Only our own configuration counts; other variables are passed on, ``extra`` wins."""
    base = {"AIRFLOW__CORE__EXECUTOR": "Celery", "AIRFLOW_HOME": "elsewhere", "LANG": "C", "JAVA_HOME": "jdk"}
    told = airflow.environment(spec, base)
    assert "AIRFLOW__CORE__EXECUTOR" not in told
    assert (told["AIRFLOW_HOME"], told["LANG"], told["JAVA_HOME"]) == (str(spec.home), "C", "jre")


def test_spark_runs_the_interpreter_that_runs_airflow(spec: airflow.AirflowSpec) -> None:
    """Its folder is first on the PATH, and the Spark connection exists (without one it would be YARN)."""
    told = airflow.environment(spec, {"PATH": "bin"})
    assert told["PYSPARK_PYTHON"] == sys.executable
    assert told["PATH"].split(":") == [str(Path(sys.executable).parent), "bin"]
    assert json.loads(told["AIRFLOW_CONN_SPARK_DEFAULT"]) == {"conn_type": "spark", "host": "local[*]"}


def test_signing_keys_are_made_once_and_are_private(spec: airflow.AirflowSpec) -> None:
    """The three processes must share them; nobody else may read them."""
    first, second = airflow.environment(spec, {}), airflow.environment(spec, {})
    assert len(first["AIRFLOW__API_AUTH__JWT_SECRET"]) == 64
    assert first["AIRFLOW__API_AUTH__JWT_SECRET"] == second["AIRFLOW__API_AUTH__JWT_SECRET"]
    assert stat.S_IMODE((spec.home / "keys.json").stat().st_mode) == 0o600


def test_a_lost_task_is_noticed_within_twenty_seconds(spec: airflow.AirflowSpec) -> None:
    """The heartbeat timeout of the issue's fifth show."""
    assert int(airflow.environment(spec, {})["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"]) <= 20


def test_a_busy_machine_is_given_time(spec: airflow.AirflowSpec) -> None:
    """A locked database and a slow API server are waited for; the URL is one that SQLite takes."""
    told = airflow.environment(spec, {})
    url = make_url(told["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    assert (url.database, url.query["timeout"]) == (str(spec.home / "airflow.db"), "60")
    spec.home.mkdir(exist_ok=True)
    with create_engine(url).connect() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 60_000
    assert float(told["AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT"]) == 60


def test_the_project_is_found_upwards_or_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any folder of the project; the variable wins."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "groupshift_plugin.py").touch()
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.delenv(airflow.PROJECT_VARIABLE, raising=False)
    assert airflow.find_project(deep) == tmp_path.resolve()
    monkeypatch.setenv(airflow.PROJECT_VARIABLE, str(tmp_path))
    assert airflow.find_project(Path("/")) == tmp_path.resolve()


def test_a_missing_project_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names the folder and the variable."""
    monkeypatch.setenv(airflow.PROJECT_VARIABLE, str(tmp_path))
    with pytest.raises(Rejected, match="holds no dags/ and plugins/ of groupshift; run in the project"):
        airflow.find_project()
