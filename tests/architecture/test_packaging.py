"""The wheel a service team installs carries all it needs and asks for two libraries only."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _built(project: Path, out: Path) -> zipfile.ZipFile:
    """A wheel of this tree, built without network."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=project,
        check=True,
        capture_output=True,
    )
    return zipfile.ZipFile(next(out.glob("*.whl")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """What a service team and a platform team install."""
    return _built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sandbox_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """What brings the demo, the sandbox and the simulators."""
    return _built(ROOT / "packaging" / "sandbox", tmp_path_factory.mktemp("sandbox"))


def _packages(wheel: zipfile.ZipFile) -> set[str]:
    return {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}


def test_each_wheel_carries_its_packages_only(wheel: zipfile.ZipFile, sandbox_wheel: zipfile.ZipFile) -> None:
    """Production has no sandbox; every file of the sandbox is in the other one."""
    assert _packages(wheel) == {"groupshift"}
    assert _packages(sandbox_wheel) == {"groupshift_sandbox", "groupshift_testing"}
    listed = subprocess.run(
        ["git", "ls-files", "src/groupshift_sandbox", "src/groupshift_testing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = {name.removeprefix("src/") for name in listed.stdout.splitlines()}
    assert wanted
    assert wanted <= set(sandbox_wheel.namelist())


def test_both_distributions_have_one_version_and_one_jdk() -> None:
    """The sandbox asks for exactly the groupshift of its release."""
    ours, theirs = (
        tomllib.loads((ROOT / part / "pyproject.toml").read_text()) for part in (".", "packaging/sandbox")
    )
    version = ours["project"]["version"]
    assert theirs["project"]["version"] == version
    assert theirs["project"]["dependencies"] == [f"kafka-groupshift[airflow,spark,tool]=={version}"]
    assert set(theirs["project"]["optional-dependencies"]["java"]) <= set(ours["dependency-groups"]["dev"])


def test_the_wheel_carries_the_sql_files(wheel: zipfile.ZipFile) -> None:
    """Every file below sql/ is inside the package, through the symlink."""
    inside = {name.removeprefix("groupshift/") for name in wheel.namelist()}
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "sql").rglob("*.sql")}
    assert wanted
    assert wanted <= inside


def test_the_source_distribution_has_what_the_wheel_has(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Whoever builds from it gets the same package: modules, SQL and tables."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/src/")[2] for name in archive.getnames()}
    wanted = {name for name in wheel.namelist() if name.startswith("groupshift/")}
    assert wanted
    assert wanted <= inside


def test_wheel_and_shipped_code_carry_every_table_and_read_it_there(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    """Tables beside the modules go with them: into the wheel and the zip that Spark's workers import."""
    from groupshift.adapters.spark_submit.submit import shipped_code

    package = ROOT / "src" / "groupshift"
    tables = [*package.rglob("*.toml"), *package.rglob("*.json")]
    wanted = {f"groupshift/{path.relative_to(package).as_posix()}" for path in tables}
    assert {"groupshift/domain/hazards.toml", "groupshift/log/messages.json"} <= wanted
    assert wanted <= set(wheel.namelist())
    code = (
        "import groupshift.audit.rules as rules, groupshift.domain.equality_rules, groupshift.log.schema; "
        "import groupshift.domain.hazards, groupshift.moves.downgrade.releases; print(rules.__file__)"
    )
    with shipped_code() as archive:
        assert wanted <= set(zipfile.ZipFile(archive).namelist())
        ran = subprocess.run(
            [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.startswith(str(archive))


def test_the_consumers_read_no_toml() -> None:
    """Importing the library loads no parser of TOML."""
    code = "import sys, groupshift.consumers as c; c.MigratingConsumer; print('tomllib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_base_dependencies_are_the_two_clients() -> None:
    """`pip install kafka-groupshift` brings kazoo and confluent-kafka, nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(d.partition(">=")[0] for d in project["dependencies"]) == ["confluent-kafka", "kazoo"]


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


def test_f14_what_others_have_too_is_asked_for_in_ranges() -> None:
    """An exact pin of a library that an application or an Airflow has already cannot be installed there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for asked in [*project["dependencies"], *extras["tool"], *extras["airflow"]]:
        assert "==" not in asked, asked
        assert ">=" in asked, asked
    for asked in [*project["dependencies"], *extras["airflow"]]:
        assert ",<" in asked, asked


def test_f14_the_version_says_what_is_supported_and_what_was_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One table, printed and in the README; its ranges are those of pyproject."""
    from groupshift.cli.main import main
    from groupshift.domain.versions import SUPPORTED
    from groupshift_sandbox.artifacts import BROKERS, SCALA_CONSUMERS, ZOOKEEPER_ERA

    assert main(["--version"]) == 0
    said = capsys.readouterr().out
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert said.startswith(f"groupshift {project['version']}\n")
    found = {each.what: each for each in SUPPORTED}
    assert all(
        each.what in said and each.releases in said and ", ".join(each.tried) in said for each in SUPPORTED
    )
    asked = [
        *project["dependencies"],
        *(d for each in project["optional-dependencies"].values() for d in each),
    ]
    ranges = {re.split(r"[<>=\[]", each)[0]: each for each in asked}
    for what, name in (
        ("confluent-kafka", "confluent-kafka"),
        ("kazoo", "kazoo"),
        ("SQLAlchemy", "sqlalchemy"),
        ("Airflow", "apache-airflow"),
        ("Spark", "pyspark"),
    ):
        assert ranges[name] == f"{name}{found[what].releases}"
    assert found["Python"].releases == project["requires-python"]
    assert set(found["Scala consumers"].tried) == set(SCALA_CONSUMERS)
    assert set(found["Kafka brokers"].tried) == set(BROKERS) | set(ZOOKEEPER_ERA) - set(SCALA_CONSUMERS)
    lock = (ROOT / "requirements.lock").read_text()
    for what, name in (
        ("confluent-kafka", "confluent-kafka"),
        ("kazoo", "kazoo"),
        ("Airflow", "apache-airflow"),
    ):
        assert f"{name}=={found[what].tried[-1]} " in lock, "the newest that was tried is the locked one"
    rows = [f"| {each.what} | `{each.releases}` | {', '.join(each.tried)} |" for each in SUPPORTED]
    table = "\n".join(["| | supported | tried |", "|---|---|---|", *rows])
    assert table in (ROOT / "README.md").read_text()
