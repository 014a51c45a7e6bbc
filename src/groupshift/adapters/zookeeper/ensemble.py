"""The ZooKeeper half of many groups, and their offset nodes, in a few large requests a window.

Implements `groupshift.audit.ports.OffsetNodes`, too. A group with m members, t topics and p partitions costs
9 + m + 2t + 2p reads; a window of groups costs three round trips, however many they are
(`groupshift.adapters.zookeeper.multiread`). Of a migration-aware member only the migration id is read: its
payload is the registration, with what the member says about itself (§8.10 F6).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kazoo.exceptions import NoAuthError

from groupshift.adapters.zookeeper.mode import as_mode, is_node_name
from groupshift.adapters.zookeeper.multiread import (
    Ask,
    Children,
    Data,
    Manner,
    Refused,
    Stamped,
    read_all,
)
from groupshift.adapters.zookeeper.nodes import member_of, mode_problems, offset_of, owner_of, unforeseen
from groupshift.adapters.zookeeper.session import Session, ZookeeperConnection, cluster_id
from groupshift.audit.case import Znode, ZookeeperGroup
from groupshift.domain.group import CommittedOffset, Member, NoOffset
from groupshift.domain.modes import MemberKind, Mode, effective_mode
from groupshift.domain.observation import ZookeeperSide
from groupshift.domain.znodes import BROKER_IDS, CONSUMERS, GroupPaths
from groupshift.errors import Rejected
from groupshift.scan.state import NodeTimes

_ATTEMPTS = 10
"""How often a group is read anew when its members come and go meanwhile."""

ABSENT = (ZookeeperSide(exists=False), NodeTimes())
"""A group that only Kafka knows."""


@dataclass(slots=True)
class _Reading:
    """What has been read of one group so far."""

    paths: GroupPaths
    ids: tuple[str, ...] = ()
    migration_ids: tuple[str, ...] = ()
    directories: tuple[Stamped | None, Stamped | None] = (None, None)
    mode: Stamped | None = None
    nodes: dict[str, Stamped] = field(default_factory=dict)
    owners: list[Stamped] = field(default_factory=list)
    offsets: list[Stamped] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    settled: bool = True

    @property
    def exists(self) -> bool:
        """Whether ZooKeeper has anything of the group below the nodes that were asked for."""
        found = any((*self.directories, self.mode)) or bool(self.owners or self.offsets)
        return found or bool(self.refused)


class ZookeeperEnsemble:
    """Reads groups and changes nothing. Raises as `ZookeeperConnection.call`.

    ``together`` False asks for each node alone, as servers before ZooKeeper 3.6 want it; None finds out."""

    def __init__(self, connection: ZookeeperConnection, *, together: bool | None = None) -> None:
        self._connection = connection
        self._manner = Manner(connection, together=together)

    @property
    def name(self) -> str:
        """Hosts and chroot."""
        return self._connection.address

    def groups(self) -> tuple[str, ...]:
        """The children of ``/consumers``, sorted. Raises `Rejected` where there is no Kafka cluster."""
        together = self._manner.together

        def work(session: Session) -> tuple[str, ...]:
            session.sync(CONSUMERS)
            names, brokers = read_all(session, (Children(CONSUMERS), Children(BROKER_IDS)), together=together)
            if names is None and brokers is None:
                raise Rejected(
                    f"ZooKeeper at {self.name} holds no Kafka cluster (neither {CONSUMERS} nor {BROKER_IDS} "
                    "is there): correct hosts and chroot of [zookeeper]"
                )
            if isinstance(names, Refused):
                raise NoAuthError(names.path)
            return names if isinstance(names, tuple) else ()

        return self._connection.call(work)

    def cluster_id(self) -> str:
        """The id of the Kafka cluster whose nodes these are; empty where it is not told."""
        return cluster_id(self._connection)

    def observe(self, groups: Sequence[str]) -> tuple[tuple[ZookeeperSide, NodeTimes], ...]:
        """Each group's nodes and their times, in this order."""
        together = self._manner.together
        return self._connection.call(lambda session: _observe(session, groups, together=together))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _observe(
    session: Session, groups: Sequence[str], *, together: bool
) -> tuple[tuple[ZookeeperSide, NodeTimes], ...]:
    """All groups of a window; those whose members changed while they were read are read again.

    A name that Kafka allows and that cannot be a node is in Kafka only."""
    readings = {group: _Reading(GroupPaths(group)) for group in groups if is_node_name(group)}
    moving = dict(readings)
    for _ in range(_ATTEMPTS):
        _Window(session, list(moving.values()), together=together).read()
        moving = {group: _Reading(each.paths) for group, each in moving.items() if not each.settled}
        readings |= moving
        if not moving:
            break
    return tuple(_side_of(readings[group]) if group in readings else ABSENT for group in groups)


class _Window:
    """The rounds of reading a window of groups: directories, members and topics, leaves."""

    def __init__(self, session: Session, readings: list[_Reading], *, together: bool) -> None:
        self._session = session
        self._readings = readings
        self._together = together

    def read(self) -> None:
        """All rounds; a group is ``settled`` when nobody came or went between the first and the last."""
        self._session.sync(CONSUMERS)
        topics = self._directories()
        leaves = self._members_and_partitions(topics)
        self._leaves(leaves)

    def _ask(self, asks: Sequence[Ask]) -> list[Any]:
        """What may not be read is noted and then counts as absent."""
        told = read_all(self._session, asks, together=self._together)
        for each in told:
            if isinstance(each, Refused):
                for reading in self._readings:
                    if each.path.startswith(f"{reading.paths.root}/"):
                        reading.refused.append(each.path)
        return [None if isinstance(each, Refused) else each for each in told]

    def _directories(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Who is registered, the mode node, and per group the topics with owners and with offsets."""
        asks: list[Ask] = []
        for reading in self._readings:
            p = reading.paths
            asks += [Data(p.ids), Children(p.ids), Data(p.migration_ids), Children(p.migration_ids)]
            asks += [Data(p.mode), Children(p.owners), Children(p.offsets)]
        answers, topics = self._ask(asks), []
        for number, reading in enumerate(self._readings):
            ids, names, migration, aware, mode, owners, offsets = answers[7 * number : 7 * number + 7]
            reading.directories, reading.mode = (ids, migration), mode
            reading.ids, reading.migration_ids = names or (), aware or ()
            topics.append((owners or (), offsets or ()))
        return topics

    def _members_and_partitions(
        self, topics: list[tuple[tuple[str, ...], tuple[str, ...]]]
    ) -> list[tuple[list[str], list[str]]]:
        """The members' nodes, and per group the paths of its owner and offset nodes."""
        asks: list[Ask] = []
        for reading, (owned, committed) in zip(self._readings, topics, strict=True):
            asks += [Data(path) for path in _member_paths(reading)]
            asks += [Children(f"{reading.paths.owners}/{topic}") for topic in owned]
            asks += [Children(f"{reading.paths.offsets}/{topic}") for topic in committed]
        answers, leaves = iter(self._ask(asks)), []
        for reading, (owned, committed) in zip(self._readings, topics, strict=True):
            for path in _member_paths(reading):
                node = next(answers)
                if node is None:
                    reading.settled = reading.settled and path in reading.refused
                else:
                    reading.nodes[path] = node
            owners = [f"{reading.paths.owners}/{t}/{p}" for t in owned for p in next(answers) or ()]
            offsets = [f"{reading.paths.offsets}/{t}/{p}" for t in committed for p in next(answers) or ()]
            leaves.append((owners, offsets))
        return leaves

    def _leaves(self, leaves: list[tuple[list[str], list[str]]]) -> None:
        """Owners and offsets, and whether the directories are what they were (D5)."""
        asks: list[Ask] = []
        for reading, (owners, offsets) in zip(self._readings, leaves, strict=True):
            asks += [Data(path) for path in (*owners, *offsets)]
            asks += [Data(reading.paths.ids), Data(reading.paths.migration_ids)]
        answers = iter(self._ask(asks))
        for reading, (owners, offsets) in zip(self._readings, leaves, strict=True):
            reading.owners = [node for _ in owners if (node := next(answers)) is not None]
            reading.offsets = [node for _ in offsets if (node := next(answers)) is not None]
            then = (next(answers), next(answers))
            if [_pzxid(node) for node in then] != [_pzxid(node) for node in reading.directories]:
                reading.settled = False


def _pzxid(node: Stamped | None) -> int:
    return -1 if node is None else node.pzxid


def _member_paths(reading: _Reading) -> list[str]:
    """One node a member: the migration id where there is one."""
    aware = set(reading.migration_ids)
    return [
        reading.paths.migration_id_of(name) if name in aware else reading.paths.id_of(name)
        for name in reading.ids
    ]


def _side_of(reading: _Reading) -> tuple[ZookeeperSide, NodeTimes]:
    """What breaks the reader is a problem of its group alone: the scan goes on with the others."""
    try:
        return _side(reading)
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        aware = set(reading.migration_ids)
        side = ZookeeperSide(
            exists=True,
            ids=reading.ids,
            migration_ids=reading.migration_ids,
            members=tuple(
                Member(member_id=name, kind=MemberKind.AWARE if name in aware else MemberKind.OLD)
                for name in reading.ids
            ),
            problems=(unforeseen(reading.paths.root, error),),
        )
        return side, NodeTimes()


def _side(reading: _Reading) -> tuple[ZookeeperSide, NodeTimes]:
    if not reading.exists:
        return ABSENT
    aware, members = set(reading.migration_ids), []
    problems = list(mode_problems(reading.paths.mode, as_mode(reading.mode)))
    for name, path in zip(reading.ids, _member_paths(reading), strict=True):
        if path in reading.nodes:
            node = reading.nodes[path]
            found, unread = member_of(node, node if name in aware else None)
            members.append(found)
            problems += unread
    owners = [owner_of(node) for node in reading.owners]
    offsets = [offset_of(node) for node in reading.offsets]
    problems += [each for each in (*owners, *offsets) if isinstance(each, str)]
    problems += _unread(reading)
    side = ZookeeperSide(
        exists=True,
        mode=as_mode(reading.mode),
        ids=reading.ids,
        migration_ids=reading.migration_ids,
        ids_pzxid=_pzxid(reading.directories[0]),
        members=tuple(members),
        owners=tuple(each for each in owners if each is not None and not isinstance(each, str)),
        offsets=tuple(each for each in offsets if isinstance(each, CommittedOffset)),
        no_offsets=tuple(each for each in offsets if isinstance(each, NoOffset)),
        problems=tuple(problems),
    )
    return side, _times(reading)


def _unread(reading: _Reading) -> list[str]:
    """Sentences about what could not be read, or not all of it at one time."""
    problems = [
        f"{path} may not be read: give the tool's login the permission read there, or correct its credentials"
        for path in sorted(set(reading.refused))
    ]
    if not reading.settled:
        problems.append(
            f"members of {reading.paths.root} came and went during each of {_ATTEMPTS} readings: "
            "scan again once the group is at rest"
        )
    return problems


def _times(reading: _Reading) -> NodeTimes:
    """A member came or went (pzxid of both directories), the mode was written, a partition was taken."""
    directories = [node for node in reading.directories if node is not None]
    mode = [reading.mode] if reading.mode is not None else []
    nodes = [*directories, *mode, *reading.nodes.values(), *reading.owners, *reading.offsets]
    stamps = {(node.czxid, node.ctime_ms) for node in nodes} | {(n.mzxid, n.mtime_ms) for n in nodes}
    return NodeTimes(
        changes=(
            *(node.pzxid for node in directories),
            *(node.mzxid for node in mode),
            *(node.czxid for node in reading.owners),
        ),
        stamps=tuple(sorted(stamps)),
    )


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
        problems = (unforeseen(root, error),)
        return ZookeeperGroup(mode=Mode.ZOOKEEPER, members=0, aware=0, offsets={}, problems=problems)


def _group(head: list[Any], rest: Sequence[Any]) -> ZookeeperGroup:
    mode, ids, aware, _ = (None if isinstance(each, Refused) else each for each in head)
    offsets: dict[tuple[str, int], Znode] = {}
    problems = [_refused(each.path) for each in (*head, *rest) if isinstance(each, Refused)]
    for node in rest:
        if node is None or isinstance(node, Refused | tuple):
            continue
        found = offset_of(node)
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
