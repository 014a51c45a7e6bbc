"""The wheel a service team installs carries all it needs and asks for two libraries only."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this tree, built without network."""
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_wheel_carries_the_sql_files(wheel: zipfile.ZipFile) -> None:
    """Every file below sql/ is inside the package, through the symlink."""
    inside = {name.removeprefix("groupshift/") for name in wheel.namelist()}
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "sql").rglob("*.sql")}
    assert wanted
    assert wanted <= inside


def test_base_dependencies_are_the_two_clients() -> None:
    """`pip install kafka-groupshift` brings kazoo and confluent-kafka, nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(d.partition("==")[0] for d in project["dependencies"]) == ["confluent-kafka", "kazoo"]


def test_the_consumers_import_with_the_base_dependencies_only() -> None:
    """Importing the library pulls in no tool, Spark or Airflow package."""
    code = (
        "import sys, groupshift.consumers as c; c.MigratingConsumer, c.ZookeeperConsumer; "
        "heavy = {'typer', 'rich', 'sqlalchemy', 'pyarrow', 'pyspark', 'pandas', 'airflow', 'kafka'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_pyspark_and_its_client_are_pinned_to_one_version() -> None:
    """Both own the folder `pyspark`; two versions overwrite each other."""
    spark = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    versions = {d.partition("==")[2] for d in spark if d.startswith("pyspark")}
    assert len(versions) == 1
