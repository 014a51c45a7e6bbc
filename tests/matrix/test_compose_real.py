"""The compose file, read by the library that `docker compose` reads its files with (built from Go modules).

No container is started: none can be here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "compose"
DOCKER = Path(__file__).resolve().parents[2] / "docker"


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built once."""
    program = tmp_path_factory.mktemp("loader") / "load"
    subprocess.run(["go", "build", "-buildvcs=false", "-o", program, "."], cwd=HERE, check=True)
    return program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of ``docker/`` without secrets of anybody's own."""
    copy = tmp_path / "docker"
    shutil.copytree(DOCKER, copy, ignore=shutil.ignore_patterns(".env*"))
    return copy


def test_compose_loads_every_service_with_the_secrets_that_were_made(loader: Path, folder: Path) -> None:
    """Anchors, variables, mounts and conditions come out as they are meant."""
    subprocess.run([folder / "make-secrets"], check=True, capture_output=True)
    told = subprocess.run([loader, folder / "compose.yaml"], check=True, capture_output=True, text=True)
    services = json.loads(told.stdout)["services"]
    secrets = dict(line.split("=", 1) for line in (folder / ".env").read_text().splitlines())
    scheduler = services["airflow-scheduler"]
    assert scheduler["environment"]["PGPASSWORD"] == secrets["POSTGRES_PASSWORD"]
    assert scheduler["depends_on"]["airflow-api-server"]["condition"] == "service_healthy"
    assert scheduler["depends_on"]["airflow-migrate"]["condition"] == "service_completed_successfully"
    assert services["spark-worker"]["deploy"]["replicas"] == 2
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    mounted = [mount["source"] for service in services.values() for mount in service.get("volumes", [])]
    assert all(Path(source).is_file() for source in mounted if source.startswith("/"))


def test_compose_refuses_to_start_without_secrets(loader: Path, folder: Path) -> None:
    """And says which script makes them."""
    told = subprocess.run([loader, folder / "compose.yaml"], check=False, capture_output=True, text=True)
    assert told.returncode == 1
    assert "POSTGRES_PASSWORD is missing a value: run docker/make-secrets first" in told.stderr
