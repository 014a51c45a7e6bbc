"""Offset nodes of many groups with their times: `groupshift.ports.audits.OffsetNodes`.

A window of groups costs three round trips, however many they are (see `multiread`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from groupshift.adapters.zookeeper import parsing
from groupshift.adapters.zookeeper.connection import Session, ZookeeperConnection
from groupshift.adapters.zookeeper.identity import cluster_id
from groupshift.adapters.zookeeper.mode import as_mode, is_node_name
from groupshift.adapters.zookeeper.multiread import Ask, Children, Data, Manner, Refused, read_all
from groupshift.domain.audit_case import Znode, ZookeeperGroup
from groupshift.domain.group import CommittedOffset
from groupshift.domain.modes import Mode, effective_mode
from groupshift.domain.znodes import BROKER_IDS, CONSUMERS, GroupPaths
from groupshift.errors import Rejected

_WINDOW = 200
_Found = tuple[GroupPaths, list[Any]]


class ZookeeperOffsetNodes:
    """Reads through one connection, which it closes."""

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection
        self._manner = Manner(connection)

    def read(self, groups: Collection[str] | None = None) -> Mapping[str, ZookeeperGroup]:
        """See the port."""
        together = self._manner.together
        names = self._connection.call(lambda session: self._names(session, together=together))
        wanted = [name for name in names if groups is None or name in groups]
        found: dict[str, ZookeeperGroup] = {}
        for at in range(0, len(wanted), _WINDOW):
            window = [GroupPaths(name) for name in wanted[at : at + _WINDOW]]
            found |= self._connection.call(lambda session, w=window: _read(session, w, together=together))  # type: ignore[misc]
        return found

    def cluster_id(self) -> str:
        """See the port."""
        return cluster_id(self._connection)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _names(self, session: Session, *, together: bool) -> tuple[str, ...]:
        session.sync(CONSUMERS)
        names, brokers = read_all(session, (Children(CONSUMERS), Children(BROKER_IDS)), together=together)
        if names is None and brokers is None:
            raise Rejected(
                f"ZooKeeper at {self._connection.address} holds no Kafka cluster (neither {CONSUMERS} nor "
                f"{BROKER_IDS} is there): correct hosts and chroot of [zookeeper]"
            )
        if isinstance(names, Refused):
            raise Rejected(f"{names.path} may not be read: give the tool's login the permission read there")
        return tuple(filter(is_node_name, names)) if isinstance(names, tuple) else ()


def _read(session: Session, groups: Sequence[GroupPaths], *, together: bool) -> dict[str, ZookeeperGroup]:
    """Members and mode, then topics, then offsets of a window of groups."""
    told = _by_group(session, groups, _head, together=together)
    topics = {paths.group: tuple(answers[3] or ()) for paths, answers in told if not _no(answers[3])}
    named = _by_group(session, groups, lambda paths: _topics(paths, topics), together=together)
    leaves: dict[str, list[str]] = {}
    for paths, answers in named:
        pairs = zip(topics.get(paths.group, ()), answers, strict=True)
        leaves[paths.group] = [
            f"{paths.offsets}/{topic}/{number}"
            for topic, found in pairs
            if not _no(found)
            for number in found
        ]
    nodes = _by_group(
        session, groups, lambda paths: [Data(path) for path in leaves[paths.group]], together=together
    )
    listings = zip(told, named, nodes, strict=True)
    return {
        head[0].group: _group_of(head[0].root, head[1], (*names[1], *offsets[1]))
        for head, names, offsets in listings
    }


def _head(paths: GroupPaths) -> list[Ask]:
    return [Data(paths.mode), Children(paths.ids), Children(paths.migration_ids), Children(paths.offsets)]


def _topics(paths: GroupPaths, topics: Mapping[str, Sequence[str]]) -> list[Ask]:
    return [Children(f"{paths.offsets}/{topic}") for topic in topics.get(paths.group, ())]


def _by_group(session: Session, groups: Sequence[GroupPaths], asks: Any, *, together: bool) -> list[_Found]:
    """The answers to what is asked about each group, in one request."""
    asked = [asks(paths) for paths in groups]
    answers = iter(read_all(session, [each for part in asked for each in part], together=together))
    return [(paths, [next(answers) for _ in part]) for paths, part in zip(groups, asked, strict=True)]


def _no(answer: Any) -> bool:
    return answer is None or isinstance(answer, Refused)


def _group_of(root: str, head: list[Any], rest: Sequence[Any]) -> ZookeeperGroup:
    """What breaks the reader is a problem of its group alone: the audit goes on with the others."""
    try:
        return _group(head, rest)
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        problems = (parsing.unforeseen(root, error),)
        return ZookeeperGroup(mode=Mode.ZOOKEEPER, members=0, aware=0, offsets={}, problems=problems)


def _group(head: list[Any], rest: Sequence[Any]) -> ZookeeperGroup:
    mode, ids, aware, _ = (None if isinstance(each, Refused) else each for each in head)
    offsets: dict[tuple[str, int], Znode] = {}
    problems = [_refused(each.path) for each in (*head, *rest) if isinstance(each, Refused)]
    for node in rest:
        if node is None or isinstance(node, Refused | tuple):
            continue
        found = parsing.offset(node)
        if isinstance(found, CommittedOffset):
            offsets[found.partition] = Znode(offset=found.offset, mtime_ms=node.mtime_ms)
        else:
            problems.append(found if isinstance(found, str) else found.problem)
    return ZookeeperGroup(
        mode=effective_mode(as_mode(mode), ids or (), aware or ()),
        members=len(ids or ()),
        aware=len(aware or ()),
        offsets=offsets,
        problems=tuple(problems),
    )


def _refused(path: str) -> str:
    return f"{path} may not be read: give the tool's login the permission read there"
