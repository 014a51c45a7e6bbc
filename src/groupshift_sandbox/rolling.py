"""Another release, or other properties, for one node after the other, over the same folders.

Each step stops a node cleanly, starts it with the same id, ports, voters and files, waits until it is ready
(`readiness`), and tells what it saw.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from groupshift.errors import Transient
from groupshift_sandbox.broker_log import LogLines, lines_that_matter
from groupshift_sandbox.cluster_file import save
from groupshift_sandbox.layout import Change, Cluster, Node
from groupshift_sandbox.processes import known, stop
from groupshift_sandbox.servers import await_node, log_of, start_node

_STOP_S = 60.0
_CLEAN = ".kafka_cleanshutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """One step: seconds it took to stop, and from the start until ready; whether it had stopped ``cleanly``
    (by itself, and a broker's files say so); the ``lines`` of its log since that start."""

    node: Node
    stop_s: float
    ready_s: float
    cleanly: bool
    lines: tuple[LogLines, ...]

    def count(self, pattern: str) -> int:
        """How often the log said this, one of `broker_log.PATTERNS`."""
        return sum(each.count for each in self.lines if each.pattern == pattern)


class NodeFailed(Transient):
    """A node did not become ready with its new release or properties; ``log`` is what its log said.

    The rollback is `replace_node` of the cluster as it was: nothing but this node was touched."""

    def __init__(self, why: str, log: Adoption) -> None:
        super().__init__(why + "".join(f"; {each.count} times {each.first!r}" for each in log.lines))
        self.log = log


def replace_node(cluster: Cluster, node_id: int, change: Change) -> tuple[Cluster, Adoption]:
    """Stop a node (if it still runs) and start what ``change`` makes of it; the cluster as it is then,
    which is written down too (`cluster_file`).

    Raises `NodeFailed`."""
    node = change(cluster.node(node_id))
    changed = cluster.having(node)
    before = time.monotonic()
    process = known(cluster.home, node.name)
    if process is not None:
        stop(process, _STOP_S)
    stopped = time.monotonic()
    cleanly = stopped - before < _STOP_S and (not node.serves_clients or (node.folder / _CLEAN).exists())

    def look() -> Adoption:
        return Adoption(
            node=node,
            stop_s=stopped - before,
            ready_s=time.monotonic() - stopped,
            cleanly=cleanly,
            lines=lines_that_matter(log_of(changed, node)),
        )

    try:
        await_node(changed, node, start_node(changed, node))
    except Transient as why:
        raise NodeFailed(str(why), look()) from why
    save(changed)
    return changed, look()


def roll(
    cluster: Cluster,
    change: Change,
    *,
    node_ids: Collection[int] = (),
    after: Callable[[Cluster, Adoption], None] = lambda _cluster, _seen: None,
) -> tuple[Cluster, tuple[Adoption, ...]]:
    """`replace_node` for these nodes (all when none is named), one after the other; ``after`` each of them
    is called, and ends the roll by raising. Raises `NodeFailed` at the first that does not become ready."""
    logs = []
    for node_id in node_ids or [node.node_id for node in cluster.nodes]:
        cluster, log = replace_node(cluster, node_id, change)
        logs.append(log)
        after(cluster, log)
    return cluster, tuple(logs)
