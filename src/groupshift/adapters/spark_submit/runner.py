"""Runs a Spark job through spark-submit (Airflow runs the same request through its own operator)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import IO

from groupshift.adapters.spark_submit.driver_jvm import driver_options
from groupshift.adapters.spark_submit.shipping import SubmitFiles, stays_here, submit_files
from groupshift.errors import Transient
from groupshift.foreign_files import made_anew
from groupshift.ports.spark_jobs import ProofRequest
from groupshift.settings import SparkSettings

_LAST_LINES = 8
LOG = "spark.log"


class SparkSubmit:
    """`groupshift.ports.spark_jobs.ProofRunner`: one process a job, bounded, its output kept beside the report.

    The process group is ended when the time is over or the caller is interrupted."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def run(self, request: ProofRequest) -> None:
        """See the port."""
        log = _log_of(request)
        log.parent.mkdir(parents=True, exist_ok=True)
        made_anew(log)
        with (
            log.open("wb") as output,
            submit_files(self._settings, self._settings.master) as files,
            self._started(request, files, output) as process,
        ):
            try:
                code = process.wait(self._settings.timeout_s)
            except subprocess.TimeoutExpired as error:
                raise Transient(
                    f"Spark job {Path(request.job).name} did not end within {self._settings.timeout_s} s, "
                    f"see {log}; raise spark.timeout_s or run it again"
                ) from error
            finally:
                _end(process)
        if code != 0:
            raise Transient(f"Spark job {Path(request.job).name} failed with exit code {code}: {_tail(log)}")
        if "://" in request.output:
            shutil.rmtree(log.parent, ignore_errors=True)

    def _started(
        self, request: ProofRequest, files: SubmitFiles, output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return self._start(request, files, output)
        except OSError as error:
            raise Transient(
                f"spark-submit could not be started ({error}); set spark.submit to its path"
            ) from error

    def _start(self, request: ProofRequest, files: SubmitFiles, output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                self._settings.submit or _spark_submit(),
                *("--master", self._settings.master, "--name", "groupshift-validate"),
                *("--conf", "spark.ui.enabled=false"),
                *("--driver-java-options", driver_options(self._settings.master, self._settings.java_home)),
                *_options(files),
                request.job,
                *request.arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=self._environment(),
            start_new_session=True,
        )

    def _environment(self) -> dict[str, str]:
        settings = self._settings
        python = {
            "PYSPARK_PYTHON": settings.python or sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        # Workers on other machines must reach the driver: there Spark, or the environment, finds its address.
        loopback = {"SPARK_LOCAL_IP": "127.0.0.1"} if stays_here(settings.master) else {}
        java = {"JAVA_HOME": settings.java_home} if settings.java_home else {}
        return {**os.environ, **python, **loopback, **java}


def _options(files: SubmitFiles) -> list[str]:
    code = ["--py-files", files.code] if files.code else []
    keys = ["--properties-file", files.properties, "--load-spark-defaults"] if files.properties else []
    return [*code, *keys]


def _log_of(request: ProofRequest) -> Path:
    """Beside the report when that is a folder, else (an object store) in a new folder of this user alone."""
    if "://" not in request.output:
        return Path(request.output) / LOG
    return Path(tempfile.mkdtemp(prefix="groupshift-spark-")) / LOG


def _spark_submit() -> str:
    """The script beside the running interpreter, else the one on the PATH."""
    beside = Path(sys.executable).parent / "spark-submit"
    found = str(beside) if beside.exists() else shutil.which("spark-submit")
    if found is None:
        raise Transient(
            "spark-submit was not found; install the extra: pip install 'kafka-groupshift[spark]'"
        )
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind: the JVM is a child of the script that was started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(log: Path) -> str:
    with log.open(encoding="utf-8", errors="replace") as lines:
        last = deque((line.strip() for line in lines if line.strip()), maxlen=_LAST_LINES)
    return f"{' | '.join(last)}; the whole output is in {log}"
