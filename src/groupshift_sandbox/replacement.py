"""Replacement driver `sandbox`: other jars for a node of a cluster that this sandbox started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from groupshift.adapters.system import locked
from groupshift.domain.group_protocol import ASSIGNORS, PROTOCOLS
from groupshift.domain.versions import Version
from groupshift.errors import Conflict
from groupshift.log.releases import Coordinator
from groupshift.ports.driver import (
    BrokerReplacement,
    NodeState,
    NodeStatus,
    Replacement,
    Started,
)
from groupshift_sandbox.cluster_file import load
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL
from groupshift_sandbox.layout import Change, Node
from groupshift_sandbox.metadata_log import newest_snapshot
from groupshift_sandbox.processes import is_running, known
from groupshift_sandbox.rolling import NodeFailed, replace_node
from groupshift_sandbox.state import read_document, write_document

_FIRST, _LAST = Version.parse("3.7.0").lowest, Version.parse("4.0.0").lowest
"""Releases in between run either coordinator, by their properties."""


class SandboxReplacement:
    """`groupshift.ports.driver.BrokerReplacement` over `rolling.replace_node`; ``name`` is the
    cluster's. ``start`` returns when the node is ready, or did not become ready: `observe` says which."""

    def __init__(self, home: Home, name: str) -> None:
        self._home, self._name = home, name
        self._file = home.root / f"{name}.replacements.json"

    def start(self, replacement: Replacement) -> Started:
        """See the port."""
        with locked(self._file):
            document = read_document(self._file)
            tokens, applied = document.setdefault("tokens", {}), document.setdefault("applied", {})
            highest = int(tokens.get(replacement.fence, 0))
            if replacement.token < highest:
                raise Conflict(
                    f"token {replacement.token} of {replacement.fence} is void: {highest} was here"
                )
            cluster = load(self._home, self._name)
            done = applied.get(str(replacement.node_id), {})
            tokens[replacement.fence] = replacement.token
            if done.get("change_id") != replacement.change_id or done.get("trouble"):
                trouble = ""
                try:
                    replace_node(cluster, replacement.node_id, _change(replacement))
                except NodeFailed as why:
                    trouble = str(why)
                applied[str(replacement.node_id)] = {"change_id": replacement.change_id, "trouble": trouble}
            write_document(self._file, document)
        return Started(change_id=replacement.change_id)

    def observe(self, node_id: int) -> NodeStatus:
        """See the port. The release is that of the last start that became ready."""
        node = load(self._home, self._name).node(node_id)
        applied = read_document(self._file).get("applied", {}).get(str(node_id), {})
        process, trouble = known(self._home, node.name), applied.get("trouble", "")
        runs = process is not None and is_running(process) and not trouble
        return NodeStatus(
            node_id=node_id,
            state=NodeState.RUNNING if runs else NodeState.DOWN,
            release=node.release,
            change_id=applied.get("change_id", ""),
            snapshot=newest_snapshot(node),
            trouble=trouble,
        )


def _change(wanted: Replacement) -> Change:
    """Properties that a release does not know are only warned of and stay, so that the rollback has them;
    what would end its start is left out."""
    if not wanted.release:
        return lambda node: replace(node, properties={**node.properties, **wanted.properties})
    version = Version.parse(wanted.release)
    chosen = CONSUMER_PROTOCOL if wanted.coordinator is Coordinator.NEW else {PROTOCOLS: "classic"}
    set_now = chosen if _FIRST <= version < _LAST else {}
    fatal = {PROTOCOLS, *({ASSIGNORS} & set(wanted.without))}

    def changed(node: Node) -> Node:
        kept = {name: value for name, value in node.properties.items() if name not in fatal}
        return replace(node, release=wanted.release, properties=kept | set_now)

    return changed


def from_table(table: Mapping[str, Any]) -> BrokerReplacement:
    """The driver of the table ``[sandbox]`` of a nodes file: ``home`` is the folder of a sandbox, ``cluster``
    the name of its cluster. Entry point ``sandbox`` of the group ``groupshift.drivers``."""
    home = Home(Path(str(table.get("home", ""))).absolute())
    return SandboxReplacement(home, str(table.get("cluster", "kraft")))
