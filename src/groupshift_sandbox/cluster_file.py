"""A cluster written down below the sandbox's home, so that another process can go on with it.

It is written when all nodes are ready and after each step of a roll: what it says of a node is the last that
was ready. A step that was cut off is repeated by whoever reads the file.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from groupshift.adapters.system import locked
from groupshift.errors import Rejected
from groupshift_sandbox.home import Home
from groupshift_sandbox.layout import Cluster, Node, Role, ServerOptions
from groupshift_sandbox.state import read_document, write_document


def _file(home: Home, name: str) -> Path:
    return home.root / f"{name}.cluster.json"


def save(cluster: Cluster) -> None:
    """Write the cluster down; the one of this name that was there before is replaced."""
    options = {each.name: getattr(cluster.options, each.name) for each in fields(ServerOptions)}
    nodes = [{**asdict(node), "role": node.role.value, "folder": str(node.folder)} for node in cluster.nodes]
    document: dict[str, Any] = {
        "cluster_id": cluster.cluster_id,
        "zookeeper": cluster.zookeeper,
        "options": {**options, "java": list(cluster.options.java)},
        "nodes": nodes,
    }
    path = _file(cluster.home, cluster.options.name)
    with locked(path):
        write_document(path, document)


def load(home: Home, name: str) -> Cluster:
    """The cluster with this name (`ServerOptions.name`). Raises `Rejected` when none was started here."""
    document = read_document(_file(home, name))
    if not document:
        raise Rejected(f"no cluster {name!r} was started in {home.root}; start it, or name another home")
    nodes = (
        Node(**{**node, "role": Role(node["role"]), "folder": Path(node["folder"])})
        for node in document["nodes"]
    )
    return Cluster(
        home=home,
        cluster_id=document["cluster_id"],
        options=ServerOptions(**{**document["options"], "java": tuple(document["options"]["java"])}),
        nodes=tuple(nodes),
        zookeeper=document["zookeeper"],
    )
