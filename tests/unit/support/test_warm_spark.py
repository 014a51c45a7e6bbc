"""The Spark of a test run: one process for all its workers, which ends by itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift_sandbox.processes import wait_until
from support import warm_spark as warm
from support.warm_spark import Jobs, warm_spark

JOB = ("/anywhere/validate.py", "--before", "here")
"""Lacks three arguments: the job says so before it starts a session."""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the process keeps its folder; the path of a socket has 107 characters at most."""
    folder = tmp_path_factory.mktemp("w")
    monkeypatch.setattr(warm.tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """The run to which the Spark of these tests belongs: not the one that they are part of."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(warm, "_owner", lambda: process.pid)
        yield process
        process.kill()


def submitted(submit: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A job as the product submits it."""
    command = [str(submit), "--master", "local[2]", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_two_workers_share_a_process_that_ends_with_their_run(
    place: Path, owner: subprocess.Popen[bytes]
) -> None:
    """Exit code and output are those of the job; the process is gone with its folder soon after its owner."""
    for name in "12":
        (place / name).mkdir()
    served = set()
    with warm_spark(place / "1") as one, warm_spark(place / "2") as two:
        for submit in (one, two):
            told = submitted(submit, *JOB)
            assert told.returncode == 2
            assert "--after" in told.stdout
            (folder,) = place.glob("groupshift-spark-*")
            served.add((folder / warm.SOCKET).stat().st_ctime_ns)
    assert len(served) == 1
    owner.communicate(b"\n")
    wait_until(lambda: not folder.exists(), 20.0, "the process ended")


@pytest.mark.usefixtures("owner")
def test_what_runs_instead_stays_in_the_worker(place: Path) -> None:
    """No process is started for it."""
    jobs, seen = Jobs(), list[list[str]]()

    def instead(arguments: list[str]) -> int:
        seen.append(arguments)
        return 3

    with warm_spark(place, jobs) as submit, jobs.by(instead):
        assert submitted(submit, *JOB).returncode == 3
    assert seen == [["--before", "here"]]
    assert list(place.glob("groupshift-spark-*")) == []


@pytest.mark.usefixtures("owner")
def test_after_an_error_that_no_job_foresees_the_next_one_gets_a_new_process(place: Path) -> None:
    """The session may be of no use any more; the error is told as spark-submit tells it."""
    with warm_spark(place) as submit:
        told = submitted(submit, "/anywhere/no_such_job.py")
        assert told.returncode == 1
        assert "No module named 'groupshift.jobs.no_such_job'" in told.stdout
        (socket,) = place.glob(f"groupshift-spark-*/{warm.SOCKET}")
        first = socket.stat().st_ctime_ns
        assert submitted(submit, *JOB).returncode == 2
        assert socket.stat().st_ctime_ns != first
