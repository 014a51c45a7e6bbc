"""A standalone Spark cluster for tests: a master and two workers of the pyspark wheel, plain processes on
127.0.0.1, each with a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pyspark

from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.spark_submit.submit import SparkSubmit
from groupshift.domain.run import SparkJob
from groupshift.errors import Broken
from groupshift.settings import SparkSettings
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Command, Running, free_port, is_running, start, stop, wait_until

WORKERS = 2
PROPERTIES = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": str(WORKERS),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.driver.memory": "768m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Two executors of one core, one on each worker: what a small machine bears. Both are there before the first
task is given out, or one of them might do all the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCluster:
    """A running cluster; ``master`` is its URL, ``folder`` holds the workers' folders and the logs."""

    master: str
    status: str
    folder: Path

    def alive_workers(self) -> int:
        """How many workers the master knows, by its own page; none while the page is not whole yet."""
        with contextlib.suppress(OSError, HTTPException, ValueError, KeyError):
            return int(self._told()["aliveworkers"])
        return 0

    def applications(self) -> list[dict[str, object]]:
        """What ran on it to its end: name, cores and state, as the master tells; nothing if it is silent."""
        with contextlib.suppress(OSError, HTTPException, ValueError, KeyError):
            return list(self._told()["completedapps"])
        return []

    def _told(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.status}/json", timeout=5) as answer:  # noqa: S310 - our own
            return dict(json.load(answer))


def submit(cluster: SparkCluster, folder: Path, job: str, *arguments: object) -> None:
    """Run a job on the cluster as `groupshift` does; what it says goes into ``folder``."""
    settings = SparkSettings(
        master=cluster.master, java_home=str(java_home()), timeout_s=500, properties=PROPERTIES
    )
    request = SparkJob(job=job, arguments=tuple(map(str, arguments)), output=str(folder))
    SparkSubmit(settings).run(request)


@contextlib.contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A cluster of the caller's own; its processes are ended by their ids, executors with their workers."""
    home = Home(folder / "cluster").create()
    port, page = free_port(), free_port()
    running: list[Running] = []
    cluster = SparkCluster(
        master=f"spark://127.0.0.1:{port}", status=f"http://127.0.0.1:{page}", folder=home.root
    )
    try:
        where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
        running.append(_daemon(home, "master", "master.Master", where))
        for number in range(WORKERS):
            own = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
            own += ["--cores", "1", "--memory", "600m", "--work-dir", str(home.root / f"worker-{number}")]
            running.append(_daemon(home, f"worker-{number}", "worker.Worker", [*own, cluster.master]))
        wait_until(lambda: _up(cluster, running), 180.0, f"{WORKERS} Spark workers at {cluster.master}")
        yield cluster
    finally:
        for process in reversed(running):
            stop(process, 20.0)


def _up(cluster: SparkCluster, running: list[Running]) -> bool:
    dead = [process.name for process in running if not is_running(process)]
    if dead:
        raise Broken(f"Spark's {', '.join(dead)} ended while the cluster started; see {cluster.folder}/logs")
    return cluster.alive_workers() == WORKERS


def _daemon(home: Home, name: str, class_name: str, arguments: list[str]) -> Running:
    spark_home = Path(pyspark.__file__).parent
    argv = [str(spark_home / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_name}", *arguments]
    environment = {
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_NO_DAEMONIZE": "1",
        "PYTHONPATH": "",
        "PATH": os.environ["PATH"],
    }
    return start(home, Command(name=name, argv=argv, environment=environment))
