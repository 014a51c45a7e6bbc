"""A broker that serves made-up segment files as a topic of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.servers import await_node, start_node
from measuring.coordinator_log import PARTITIONS
from measuring.log_contenders import TOPIC


def serve(home: Home, folder: Path) -> Cluster:
    """A broker whose topic is the segment files of ``folder``: put in its place while it is down."""
    cluster = start_kraft(home.create())
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    end(home)
    (node,) = cluster.nodes
    for place in sorted(path for path in node.folder.rglob(f"{TOPIC}-*") if path.is_dir()):
        for old in place.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        shutil.copy(folder / place.name / f"{0:020}.log", place)
    for clean in node.folder.rglob(".kafka_cleanshutdown"):
        clean.unlink()  # so that it checks and indexes what lies there
    await_node(cluster, node, start_node(cluster, node))
    return cluster


def end(home: Home) -> None:
    """End every process of ``home``."""
    for process in marked(home):
        stop(process, 60.0)
