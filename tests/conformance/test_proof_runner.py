"""Submitting a Spark job: bounded, logged, and nothing left behind; with a script in spark-submit's place."""

from __future__ import annotations

import os
import signal
import tempfile
import zipfile
from pathlib import Path

import pytest

from groupshift.adapters.spark_submit.submit import LOG, SparkSubmit, shipped_code, stays_here
from groupshift.adapters.system import KillAtStep, Whom
from groupshift.domain.run import SparkJob
from groupshift.errors import Transient
from groupshift.ports.clock import CrashPoint
from groupshift.settings import SparkSettings
from groupshift_sandbox.processes import wait_until

PROJECT = Path(__file__).resolve().parents[2]
CLUSTER = {"master": "spark://master:7077", "python": "/opt/python"}


@pytest.fixture(autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of the test's own: a script writes no archive of classes, and a draft that nobody
    finishes makes every JVM of the machine do without one for an hour."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


def request(folder: Path) -> SparkJob:
    """A job that writes below ``folder``."""
    return SparkJob(job="validate.py", arguments=("--phase", "canary"), output=str(folder / "out"))


def submit(folder: Path, script: str, timeout_s: int = 30, **settings: object) -> SparkSubmit:
    """A runner whose spark-submit is this shell script."""
    file = folder / "spark-submit"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    given = {"master": "local[3]", "java_home": "/j", **settings}
    return SparkSubmit(SparkSettings(submit=str(file), timeout_s=timeout_s, **given))


def test_the_job_gets_master_arguments_and_environment(tmp_path: Path) -> None:
    """And what it printed is beside its report."""
    runner = submit(tmp_path, 'echo "$@"; echo "$SPARK_LOCAL_IP $JAVA_HOME $PYSPARK_PYTHON"')
    runner.run(request(tmp_path))
    first, second = (tmp_path / "out" / LOG).read_text().splitlines()
    assert "--master local[3]" in first
    assert first.endswith("validate.py --phase canary")
    assert second.split()[:2] == ["127.0.0.1", "/j"]
    assert Path(second.split()[2]).exists()


def test_a_java_that_cannot_be_looked_at_is_a_failed_dependency(tmp_path: Path) -> None:
    """One sentence, and the run stays in order; here its name is longer than the system takes."""
    runner = submit(tmp_path, "exit 0", java_home="/" + "j" * 5000)
    with pytest.raises(Transient, match="spark-submit could not be started"):
        runner.run(request(tmp_path))


def test_a_cluster_gets_our_code_and_its_driver_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zip holds package and SQL, and is gone afterwards; workers elsewhere can reach the driver."""
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    script = f'while [ "$1" != --py-files ]; do shift; done; echo "$2"; cp "$2" {tmp_path}/code.zip; '
    runner = submit(tmp_path, script + 'echo "[$SPARK_LOCAL_IP]"; echo "$PYSPARK_PYTHON"', **CLUSTER)
    runner.run(request(tmp_path))
    sent, address, python = (tmp_path / "out" / LOG).read_text().splitlines()
    assert (address, python) == ("[]", "/opt/python")
    assert not Path(sent).parent.exists()
    names = zipfile.ZipFile(tmp_path / "code.zip").namelist()
    assert {name for name in names if name.endswith(".sql")} == {
        f"groupshift/sql/{path.relative_to(PROJECT / 'sql')}" for path in (PROJECT / "sql").rglob("*.sql")
    }
    assert {f"groupshift/report/templates/{name}" for name in ("page.html", "report.css")} <= set(names)
    assert [name for name in names if "/." in name or name.endswith(".pyc")] == []


def test_the_code_of_equal_trees_is_equal() -> None:
    """Byte for byte, so that two jobs of one release can be compared."""
    with shipped_code() as first, shipped_code() as second:
        assert first != second
        assert first.read_bytes() == second.read_bytes()


def test_keys_of_spark_stay_off_the_command_line(tmp_path: Path) -> None:
    """They may hold a secret: a file that only its owner can read carries them, as Java reads such files."""
    script = 'echo "$@"; while [ "$1" != --properties-file ]; do shift; done; stat -c "%a $2" "$2"; cat "$2"'
    keys = {"spark.hadoop.fs.s3a.secret.key": " hush\\now", "spark.executor.memory": "2g"}
    submit(tmp_path, script, properties=keys).run(request(tmp_path))
    command, mode, *lines = (tmp_path / "out" / LOG).read_text().splitlines()
    assert "hush" not in command
    assert "--load-spark-defaults" in command
    assert "--py-files" not in command
    assert mode.startswith("600 ")
    assert lines == ["spark.executor.memory 2g", "spark.hadoop.fs.s3a.secret.key \\ hush\\\\now"]
    assert not Path(mode.split()[1]).exists()


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://127.0.0.10:7077", False),
        ("spark://master:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),
    ],
)
def test_only_what_stays_on_this_machine_is_bound_to_the_loopback(master: str, *, here: bool) -> None:
    """A driver on the loopback address would wait for workers that cannot reach it."""
    assert stays_here(master) is here


def test_a_failed_job_says_its_last_words_and_where_its_log_is(tmp_path: Path) -> None:
    """One sentence, worth another try."""
    with pytest.raises(Transient, match=r"exit code 3: .*out of luck.*spark\.log"):
        submit(tmp_path, "echo out of luck; exit 3").run(request(tmp_path))


def test_a_job_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    """The JVM is a child of the script: its whole process group goes."""
    told = tmp_path / "child"
    told.touch()
    for timeout_s in (5, 100):
        if not told.read_text():  # on a busy machine it may not even have begun
            runner = submit(tmp_path, f"sleep 600 & echo $! > {told}; wait", timeout_s=timeout_s)
            with pytest.raises(Transient, match=f"did not end within {timeout_s} s"):
                runner.run(request(tmp_path))
    child = int(told.read_text())
    wait_until(lambda: not _lives(child), 60, "the child of the script is gone")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_missing_spark_submit_is_named(tmp_path: Path) -> None:
    """With the setting to correct."""
    runner = SparkSubmit(SparkSettings(submit=str(tmp_path / "none")))
    with pytest.raises(Transient, match=r"spark\.submit"):
        runner.run(request(tmp_path))


@pytest.mark.parametrize("whom", list(Whom))
def test_a_crash_point_kills_only_there(whom: Whom, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SIGKILL: the process, or its parent first."""
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    point = KillAtStep("toggle/set_mode", CrashPoint.AFTER_ACT, whom)
    point.reached("09 toggle/set_mode", CrashPoint.AFTER_JOURNAL)
    point.reached("05 canary/replace_members", CrashPoint.AFTER_ACT)
    assert killed == []
    point.reached("09 toggle/set_mode", CrashPoint.AFTER_ACT)
    mine = [(os.getpid(), signal.SIGKILL)]
    assert killed == (mine if whom is Whom.SELF else [(os.getppid(), signal.SIGKILL), *mine])
