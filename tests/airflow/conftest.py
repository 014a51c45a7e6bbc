"""One Airflow for all tests of this folder: its environment is set before anything imports Airflow."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="groupshift-airflow-"))

os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(PROJECT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(PROJECT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS="admin:admin,viewer:viewer",
    AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=str(HOME / "passwords.json"),
    AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
    AIRFLOW__API_AUTH__JWT_SECRET="0" * 64,
    AIRFLOW__API__SECRET_KEY="1" * 64,
)
(HOME / "passwords.json").write_text('{"admin": "admin", "viewer": "viewer"}')


@pytest.fixture(scope="session")
def database() -> None:
    """Airflow's own database, created once."""
    from airflow.utils.db import initdb

    logging.disable(logging.WARNING)
    initdb()
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def dagbag() -> Any:
    """The DAGs of the repository, parsed once."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(PROJECT / "dags"))


@pytest.fixture(scope="module")
def runnable() -> Any:
    """DAGs of this module's own: dag.test() leaves its parameters in the DAG it ran."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(Path(__file__).resolve().parents[2] / "dags"))


@pytest.fixture(scope="module")
def server(database: None) -> Iterator[Any]:
    """Airflow's API server with the plugin, in this process."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    with TestClient(create_app()) as client:
        yield client


@pytest.fixture
def viewing(server: Any) -> dict[str, str]:
    """Headers of a logged-in viewer."""
    answer = server.post("/auth/token", json={"username": "viewer", "password": "viewer"})
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}
