"""The mode node in a real ZooKeeper: compare-and-set, read back (F7, N7)."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from groupshift.adapters.zookeeper.connection import Node, Session, ZookeeperConnection
from groupshift.domain.coordination import ABSENT_MODE, Mode, ModeNode
from groupshift.domain.znodes import GroupPaths
from groupshift.errors import Conflict, Rejected


class ZookeeperModeSwitch:
    """`groupshift.ports.mode.ModeSwitch` on kazoo.

    A write whose answer was lost is looked up before it is repeated: when the node is one version
    further and holds the wanted value, it is the write.
    """

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection

    def read(self, group: str) -> ModeNode:
        """The node now, after a ``sync``."""
        path = paths_of(group).mode
        return self._connection.call(lambda session: read_mode(session, path))

    def compare_and_set(self, group: str, expected: ModeNode, to: Mode) -> ModeNode:
        """Write ``to`` if the node is still ``expected``; returns the node as read back."""
        path, data = paths_of(group).mode, to.value.encode()
        sent: list[bool] = []

        def write(session: Session) -> ModeNode:
            found = read_mode(session, path)
            if sent and _follows(expected, found, data):
                return found
            _demand(path, expected, found)
            if found.data == data:
                return found
            sent.append(True)
            _attempt(path, lambda: _put(session, path, data, found))
            return _read_back(session, path, data, expected)

        return self._connection.call(write)

    def delete(self, group: str, expected: ModeNode) -> None:
        """Delete the node if it is still ``expected``; an absent node is what was asked for."""
        path = paths_of(group).mode

        def remove(session: Session) -> None:
            found = read_mode(session, path)
            if found.data is None:
                return
            _demand(path, expected, found)
            _attempt(path, lambda: session.delete(path, found.version))
            if read_mode(session, path).data is not None:
                raise Conflict(f"{path} was created again right after its deletion: {_LOOK}")

        self._connection.call(remove)


_LOOK = "someone else writes this group's mode; look at it with `groupshift status` and decide again"


def paths_of(group: str) -> GroupPaths:
    """The group's paths; raises `Rejected` for a name that cannot be a path element."""
    if not group or "/" in group or group in {".", ".."} or "\x00" in group:
        raise Rejected(f"group {group!r} cannot be a consumer group in ZooKeeper: use [A-Za-z0-9._-] only")
    return GroupPaths(group)


def as_mode(node: Node | None) -> ModeNode:
    """The mode node of the domain."""
    if node is None:
        return ABSENT_MODE
    return ModeNode(data=node.data, version=node.version, czxid=node.czxid, mzxid=node.mzxid)


def read_mode(session: Session, path: str) -> ModeNode:
    """The mode node at ``path``, not older than this call."""
    session.sync(path)
    (node,) = session.read([path])
    return as_mode(node)


def _put(session: Session, path: str, data: bytes, found: ModeNode) -> None:
    if found.data is None:
        session.create(path, data)
    else:
        session.set(path, data, found.version)


def _attempt(path: str, write: Callable[[], None]) -> None:
    try:
        write()
    except (BadVersionError, NodeExistsError, NoNodeError) as lost:
        raise Conflict(f"{path} was changed in the same moment ({type(lost).__name__}): {_LOOK}") from lost


def _read_back(session: Session, path: str, data: bytes, expected: ModeNode) -> ModeNode:
    found = read_mode(session, path)
    if not _follows(expected, found, data):
        raise Conflict(f"{path} holds {_shown(found)} right after {data!r} was written: {_LOOK}")
    return found


def _follows(expected: ModeNode, found: ModeNode, data: bytes) -> bool:
    """Whether ``found`` is ``expected`` after exactly one write of ``data``."""
    same_node = expected.data is None or found.czxid == expected.czxid
    return found.data == data and found.version == expected.version + 1 and same_node


def _demand(path: str, expected: ModeNode, found: ModeNode) -> None:
    if (found.identity, found.version) != (expected.identity, expected.version):
        raise Conflict(f"{path} holds {_shown(found)}, expected was {_shown(expected)}: {_LOOK}")


def _shown(node: ModeNode) -> str:
    return "nothing (no node)" if node.data is None else f"{node.data!r} (version {node.version})"
