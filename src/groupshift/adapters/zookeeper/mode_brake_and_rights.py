"""The mode node of a group, the brake, and whether this session may change nodes.

The mode is written by compare-and-set and read back (F7, N7). The brake is one znode that everybody can
write, also with ZooKeeper's own shell.

`ZookeeperRights` asks the server by transactions that cannot succeed. ZooKeeper checks a transaction's
operations one after the other and applies none of them when one fails. A last one that always fails (a check
of a node that nobody has) makes the transaction a question: where an earlier one fails by NoAuth, the
identity lacks a right; where only the last one fails, it has them all. Nothing is changed and no watch fires.
"""

from __future__ import annotations

import contextlib

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from groupshift.adapters.zookeeper.login import refused, send_question
from groupshift.adapters.zookeeper.session import Guard, Node, Session, ZookeeperConnection, as_mode
from groupshift.domain.foreign_json import shown
from groupshift.domain.modes import Holder, Mode, ModeNode, parse_holder
from groupshift.domain.znodes import GroupPaths
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.cluster import Identity, Server


class ZookeeperModeSwitch:
    """`groupshift.ports.changes.ModeSwitch` on kazoo.

    A write whose answer was lost is looked up before it is repeated: when the node is one version
    further and holds the wanted value, it is the write.
    """

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection

    def read(self, group: str) -> ModeNode:
        """The node now, after a ``sync``."""
        path = paths_of(group).mode
        return self._connection.call(lambda session: read_mode(session, path))

    def take(self, group: str, holder: Holder) -> None:
        """Remember who may write. Raises `Conflict` when a later claim is remembered."""
        path = paths_of(group).fence

        def write(session: Session) -> None:
            for _ in range(_ATTEMPTS):
                node = _read(session, path)
                known = parse_holder(node.data if node else None)
                if known == holder:
                    return
                if known and known.fences(holder):
                    raise _fenced(path, holder, known)
                with contextlib.suppress(BadVersionError, NodeExistsError, NoNodeError):
                    version = node.stat.version if node else None
                    session.change(path, holder.encode(), version, acl=session.acl)
            raise Conflict(f"{path} was changed by others {_ATTEMPTS} times in a row: {_LOOK}")

        self._connection.call(write)

    def compare_and_set(
        self, group: str, expected: ModeNode, to: Mode, *, holder: Holder | None = None
    ) -> ModeNode:
        """Write ``to`` if the node is still ``expected``; returns the node as read back."""
        return self._write(paths_of(group), expected, to.value.encode(), holder)

    def delete(self, group: str, expected: ModeNode, *, holder: Holder | None = None) -> None:
        """Delete the node if it is still ``expected``; an absent node is what was asked for."""
        self._write(paths_of(group), expected, None, holder)

    def _write(
        self, paths: GroupPaths, expected: ModeNode, data: bytes | None, holder: Holder | None
    ) -> ModeNode:
        path, sent = paths.mode, list[bool]()

        def write(session: Session) -> ModeNode:
            node = read_mode(session, path)
            if (sent or data is None) and _follows(expected, node, data):
                return node
            guard = _guard(session, paths.fence, holder)
            if (node.identity, node.version) != (expected.identity, expected.version):
                raise Conflict(f"{path} holds {_shown(node)}, expected was {_shown(expected)}: {_LOOK}")
            if node.data == data:
                return node
            sent.append(True)
            version = None if node.data is None else node.version
            try:
                session.change(path, data, version, guard=guard, acl=session.acl)
            except (BadVersionError, NodeExistsError, NoNodeError) as lost:
                raise Conflict(
                    f"{path} was changed in the same moment ({type(lost).__name__}): {_LOOK}"
                ) from lost
            after = read_mode(session, path)
            if not _follows(expected, after, data):
                done = "it was deleted" if data is None else f"{data!r} was written"
                raise Conflict(f"{path} holds {_shown(after)} right after {done}: {_LOOK}")
            return after

        return self._connection.call(write)


_ATTEMPTS = 10
_LOOK = "someone else writes this group's mode; look at it with `groupshift status` and decide again"


def is_node_name(group: str) -> bool:
    """Whether a group of that name can have nodes at all; Kafka itself allows any text."""
    return bool(group) and "/" not in group and group not in {".", ".."} and "\x00" not in group


def paths_of(group: str) -> GroupPaths:
    """The group's paths; raises `Rejected` for a name that cannot be a path element."""
    if not is_node_name(group):
        raise Rejected(f"group {group!r} cannot be a consumer group in ZooKeeper: use [A-Za-z0-9._-] only")
    return GroupPaths(group)


def read_mode(session: Session, path: str) -> ModeNode:
    """The mode node at ``path``, not older than this call."""
    return as_mode(_read(session, path))


def _read(session: Session, path: str) -> Node | None:
    session.sync(path)
    return session.read(path)


def _guard(session: Session, path: str, holder: Holder | None) -> Guard | None:
    """The fence node as ``holder`` left it. Raises `Conflict` when it names somebody else."""
    if holder is None:
        return None
    node = _read(session, path)
    known = parse_holder(node.data if node else None)
    if node is None or known != holder:
        raise _fenced(path, holder, known)
    return path, node.stat.version


def _fenced(path: str, holder: Holder, known: Holder | None) -> Conflict:
    return Conflict(
        f"{holder} may not change the group's mode any more: {path} names {known or 'nobody'}; "
        "nothing was changed, look at it with: groupshift status"
    )


def _follows(expected: ModeNode, node: ModeNode, data: bytes | None) -> bool:
    """Whether ``node`` is ``expected`` after exactly one write of ``data``, or after it was deleted."""
    if data is None:
        return node.data is None
    same_node = expected.data is None or node.czxid == expected.czxid
    return node.data == data and node.version == expected.version + 1 and same_node


def _shown(node: ModeNode) -> str:
    return "nothing (no node)" if node.data is None else f"{shown(node.data)} (version {node.version})"


PATH = "/groupshift/brake"
"""Its data is the reason. While it is there, nothing more is started."""


class ZookeeperBrake:
    """`groupshift.scan.ports.Brake`."""

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection

    def pulled(self) -> str:
        """See the port."""
        node = self._connection.call(lambda session: _read(session, PATH))
        return "" if node is None else node.data.decode(errors="replace") or "no reason given"

    def pull(self, reason: str) -> None:
        """See the port."""

        def write(session: Session) -> None:
            try:
                session.change(PATH, reason.encode(), None)
            except NodeExistsError:
                session.change(PATH, reason.encode(), -1)

        self._connection.call(write)

    def release(self) -> None:
        """See the port."""

        def remove(session: Session) -> None:
            with contextlib.suppress(NoNodeError):
                session.change(PATH, None, -1)

        self._connection.call(remove)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class ZookeeperRights:
    """Whether the tool's session may do what a move does to a group's nodes: write its mode and who may write
    it. That it may read all the others shows when the group is read."""

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection

    def identity(self, group: str) -> Identity:
        """Raises as `ZookeeperConnection.call`."""
        paths = paths_of(group)
        may_write = self._connection.call(
            lambda session: {path: _may_write(session, path) for path in (paths.mode, paths.fence)}
        )
        missing = tuple(f"write {path}" for path, granted in may_write.items() if not granted)
        return Identity(server=Server.ZOOKEEPER, who=self._connection.login.who, missing=missing)


def _may_write(session: Session, path: str) -> bool:
    """Whether the node may be written and deleted, whether or not it and what lies above it are there. Asked
    again when it came or went between looking and asking."""
    names = path.split("/")
    above = ["/".join(names[:depth]) for depth in range(2, len(names))]
    for _ in range(_ATTEMPTS):
        there, missing = session.exists(path), [each for each in above if not session.exists(each)]
        question = session.client.transaction()
        for each in () if there else (*missing, path):
            question.create(each, b"")
        if there:
            question.set_data(path, b"")
        question.delete(path)
        *changes, last = session.result(send_question(question))
        if refused(changes):
            return False
        if isinstance(last, NoNodeError):
            return True
    raise Transient(f"{path} came and went while the right to write it was asked for: run it again")
