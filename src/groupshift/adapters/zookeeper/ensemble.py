"""The nodes of many groups, or of one, in a few large requests: for scans, audits, and moves of a group.

`read_groups` reads many groups in the rounds that one group takes: a window of groups costs three round
trips, however many they are (`groupshift.adapters.zookeeper.session`), and a group is a window of one. How
much of a group is read, and what becomes of what cannot be read, is up to each method of
`ZookeeperGroups`, which implements `groupshift.audit.run.OffsetNodes`, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import Any

from kazoo.exceptions import NoAuthError

from groupshift.adapters.zookeeper.mode import as_mode, is_node_name, paths_of
from groupshift.adapters.zookeeper.nodes import (
    member_of,
    mode_problems,
    offset_of,
    owner_of,
    tells_registration,
    unforeseen,
)
from groupshift.adapters.zookeeper.session import (
    Ask,
    BulkReader,
    Children,
    Data,
    Node,
    Read,
    Refused,
    Rounds,
    Session,
    ZookeeperConnection,
    cluster_id,
    read_all,
    read_in_rounds,
)
from groupshift.audit.case import Znode, ZookeeperGroup
from groupshift.domain.group import CommittedOffset, GroupView, Member, NoOffset
from groupshift.domain.modes import MemberKind, Mode, effective_mode
from groupshift.domain.znodes import BROKER_IDS, CONSUMERS, GroupPaths
from groupshift.errors import Rejected, Transient
from groupshift.scan.state import NodeTimes


class Extent(Enum):
    """How much of a group is read; the costs are for m members, t topics and p partitions."""

    OFFSETS = auto()
    """4 + t + p reads: the mode, the names of the members, and the offsets."""
    MEMBERS = auto()
    """9 + m + 2t + 2p reads: owners and members, too, all as of one time. Of a migration-aware member only
    the migration id is read: its payload is the registration, with what the member says of itself (F6). The
    registration is read, too, where the migration id cannot be understood."""
    EVERY_NODE = auto()
    """9 + 2m + 2t + 2p reads at most: both nodes of a migration-aware member, too. Who is registered is as of
    one time (D5), owners and offsets are of right after it: members that come and go do not keep a group of
    thousands of partitions from being read."""


_ATTEMPTS = {Extent.OFFSETS: 1, Extent.MEMBERS: 10, Extent.EVERY_NODE: 25}
"""How often a group is read when its members come and go meanwhile; each attempt costs milliseconds."""


@dataclass(slots=True)
class Reading:
    """What was read of one group.

    ``members`` are nodes by path, ``refused`` the paths that the session may not read; ``settled`` is False
    when members came or went during each attempt."""

    paths: GroupPaths
    directories: tuple[Node | None, Node | None] = (None, None)
    mode: Node | None = None
    ids: tuple[str, ...] = ()
    migration_ids: tuple[str, ...] = ()
    members: dict[str, Node] = field(default_factory=dict)
    owners: list[Node] = field(default_factory=list)
    offsets: list[Node] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    settled: bool = True

    @property
    def exists(self) -> bool:
        """Whether ZooKeeper has anything of the group below the nodes that were asked for."""
        found = any((*self.directories, self.mode)) or bool(self.owners or self.offsets)
        return found or bool(self.refused)


def read_groups(read: Read, groups: Sequence[str], extent: Extent) -> list[Reading]:
    """What ZooKeeper has of each group, in this order."""
    return read_in_rounds(read, [_rounds(GroupPaths(group), extent) for group in groups])


def _rounds(paths: GroupPaths, extent: Extent) -> Rounds[Reading]:
    """Directories, then members and partitions, then owners and offsets."""
    reading = Reading(paths)
    for _ in range(_ATTEMPTS[extent]):
        reading = Reading(paths)
        topics = yield from _directories(reading, extent)
        leaves = yield from _members_and_partitions(reading, extent, *topics)
        if reading.settled or extent is not Extent.EVERY_NODE:
            yield from _leaves(reading, extent, *leaves)
        if reading.settled:
            break
    return reading


_Names = tuple[str, ...]


def _answers(reading: Reading, asks: Sequence[Ask]) -> Rounds[list[Any]]:
    """One round; what may not be read is noted, and then counts as absent."""
    answers = yield asks
    reading.refused += [each.path for each in answers if isinstance(each, Refused)]
    return [None if isinstance(each, Refused) else each for each in answers]


def _directories(reading: Reading, extent: Extent) -> Rounds[tuple[_Names, _Names]]:
    """Who is registered, and the mode; returns the topics with owners, and those with offsets."""
    paths = reading.paths
    names = (paths.ids, paths.migration_ids, paths.offsets)
    asks: list[Ask] = [Data(paths.mode), *(Children(path) for path in names)]
    if extent is not Extent.OFFSETS:
        asks = [*_both(paths), *asks, Children(paths.owners)]
    found = dict(zip(asks, (yield from _answers(reading, asks)), strict=True))
    reading.directories = (found.get(Data(paths.ids)), found.get(Data(paths.migration_ids)))
    reading.mode = found[Data(paths.mode)]
    reading.ids, reading.migration_ids, committed = (found[Children(path)] or () for path in names)
    return found.get(Children(paths.owners)) or (), committed


def _members_and_partitions(
    reading: Reading, extent: Extent, owned: _Names, committed: _Names
) -> Rounds[tuple[list[str], list[str]]]:
    """The members' nodes; returns the paths of the owner nodes, and of the offset nodes."""
    paths, members = reading.paths, _member_paths(reading, extent)
    again = _both(paths) if extent is Extent.EVERY_NODE else []
    asks: list[Ask] = [*(Data(path) for path in members), *again]
    asks += [Children(f"{paths.owners}/{topic}") for topic in owned]
    asks += [Children(f"{paths.offsets}/{topic}") for topic in committed]
    answers = iter((yield from _answers(reading, asks)))
    for path in members:
        node = next(answers)
        if node is not None:
            reading.members[path] = node
        elif path not in reading.refused:
            reading.settled = False
    _look_again(reading, [next(answers) for _ in again])
    owners = [f"{paths.owners}/{topic}/{name}" for topic in owned for name in next(answers) or ()]
    offsets = [f"{paths.offsets}/{topic}/{name}" for topic in committed for name in next(answers) or ()]
    return owners, offsets


def _leaves(reading: Reading, extent: Extent, owners: list[str], offsets: list[str]) -> Rounds[None]:
    """Owners and offsets; one that went away after it was listed is not there now. And the registrations
    that a migration id does not tell."""
    again = _both(reading.paths) if extent is Extent.MEMBERS else []
    untold = _untold(reading) if extent is Extent.MEMBERS else []
    leaves = [Data(path) for path in (*owners, *offsets, *untold)]
    answers = iter((yield from _answers(reading, [*leaves, *again])))
    reading.owners = [node for _ in owners if (node := next(answers)) is not None]
    reading.offsets = [node for _ in offsets if (node := next(answers)) is not None]
    reading.members |= {path: node for path in untold if (node := next(answers)) is not None}
    _look_again(reading, list(answers))


def _untold(reading: Reading) -> list[str]:
    """The registrations of the members whose migration id is none, or that no living member made."""
    paths = reading.paths
    nodes = {name: reading.members.get(paths.migration_id_of(name)) for name in reading.migration_ids}
    return [paths.id_of(name) for name in reading.ids if (n := nodes.get(name)) and not tells_registration(n)]


def _both(paths: GroupPaths) -> list[Ask]:
    """Asks for the directories whose nodes say when somebody came or went last."""
    return [Data(paths.ids), Data(paths.migration_ids)]


def _look_again(reading: Reading, directories: Sequence[Node | None]) -> None:
    """Note whether somebody came or went since the directories were read first (D5)."""
    then, now = (tuple(map(_pzxid, nodes)) for nodes in (reading.directories, directories))
    if now and now != then:
        reading.settled = False


def _pzxid(node: Node | None) -> int:
    return -1 if node is None else node.pzxid


def _member_paths(reading: Reading, extent: Extent) -> list[str]:
    """The nodes of the members that are read."""
    if extent is Extent.OFFSETS:
        return []
    paths, aware = reading.paths, set(reading.migration_ids)
    if extent is Extent.EVERY_NODE:
        registered = [paths.id_of(name) for name in reading.ids]
        return [*registered, *(paths.migration_id_of(name) for name in reading.migration_ids)]
    return [paths.migration_id_of(name) if name in aware else paths.id_of(name) for name in reading.ids]


def _view(reading: Reading) -> GroupView:
    paths, aware = reading.paths, set(reading.migration_ids)
    members, problems = [], list(mode_problems(paths.mode, as_mode(reading.mode)))
    for name in reading.ids:
        migration = reading.members.get(paths.migration_id_of(name)) if name in aware else None
        registered = reading.members.get(paths.id_of(name), migration)
        if registered is not None:
            found, unread = member_of(registered, migration)
            members.append(found)
            problems += unread
    owners = [owner_of(node) for node in reading.owners]
    offsets = [offset_of(node) for node in reading.offsets]
    problems += [each for each in (*owners, *offsets) if isinstance(each, str)]
    return GroupView(
        group=paths.group,
        exists=True,
        mode=as_mode(reading.mode),
        ids=reading.ids,
        migration_ids=reading.migration_ids,
        ids_pzxid=_pzxid(reading.directories[0]),
        members=tuple(members),
        owners=tuple(each for each in owners if each is not None and not isinstance(each, str)),
        zookeeper_offsets=tuple(each for each in offsets if isinstance(each, CommittedOffset)),
        no_offsets=tuple(each for each in offsets if isinstance(each, NoOffset)),
        problems=tuple(problems),
    )


def _group_names(read: Read, address: str) -> tuple[str, ...] | Refused:
    """The children of ``/consumers``, sorted. Raises `Rejected` where there is no Kafka cluster."""
    names, brokers = read([Children(CONSUMERS), Children(BROKER_IDS)])
    _require_cluster(address, there=names is not None or brokers is not None)
    return names if isinstance(names, tuple | Refused) else ()


def _require_cluster(address: str, *, there: bool) -> None:
    """That there is no group is believed only of a ZooKeeper that holds a Kafka cluster."""
    if not there:
        raise Rejected(
            f"ZooKeeper at {address} holds no Kafka cluster (neither {CONSUMERS} nor {BROKER_IDS} is there): "
            "correct hosts and chroot of [zookeeper]"
        )


_WINDOW = 200


class ZookeeperGroups:
    """Reads one group with every node of it, windows of groups, or offsets alone, and changes nothing.
    Raises as `ZookeeperConnection.call`.

    ``together`` False asks for each node alone, as servers before ZooKeeper 3.6 want it; None finds out when
    more than one group is read: that takes seconds where they cannot, which a window of groups is worth, but
    no single one."""

    def __init__(self, connection: ZookeeperConnection, *, together: bool | None = None) -> None:
        self._connection = connection
        self._reader = BulkReader(connection, together=together)

    @property
    def name(self) -> str:
        """Hosts and chroot."""
        return self._connection.address

    def groups(self) -> tuple[str, ...]:
        """The children of ``/consumers``, sorted. Raises `Rejected` where there is no Kafka cluster."""

        def work(read: Read) -> tuple[str, ...]:
            names = _group_names(read, self.name)
            if isinstance(names, Refused):
                raise NoAuthError(names.path)
            return names

        return self._reader.call(work)

    def cluster_id(self) -> str:
        """The id of the Kafka cluster whose nodes these are; empty where it is not told."""
        return cluster_id(self._connection)

    def observe(self, group: str) -> GroupView:
        """Registrations, mode node, owners and offsets of the group.

        Raises as `ZookeeperConnection.call`, also when the session may not read one of the nodes; `Transient`
        also when members come and go faster than they can be listed, `Rejected` when no Kafka cluster keeps
        its nodes below this chroot."""
        paths, address = paths_of(group), self._connection.address

        def work(session: Session) -> GroupView:
            session.sync(CONSUMERS)
            if not session.exists(paths.root):
                _require_cluster(address, there=session.exists(CONSUMERS) or session.exists(BROKER_IDS))
                return GroupView(group=group)
            read = partial(read_all, session, together=False)
            (reading,) = read_groups(read, [group], Extent.EVERY_NODE)
            if reading.refused:
                raise NoAuthError(reading.refused[0])
            if not reading.settled:
                raise Transient(
                    f"members of {paths.root} came and went during each of "
                    f"{_ATTEMPTS[Extent.EVERY_NODE]} listings: "
                    "wait until the group is at rest, then run the same command again"
                )
            return _view(reading)

        return self._connection.call(work)

    def window(self, groups: Sequence[str]) -> tuple[tuple[GroupView, NodeTimes], ...]:
        """Each group's nodes and their times, in this order.

        A name that Kafka allows and that cannot be a node is in Kafka only."""
        names = list(dict.fromkeys(filter(is_node_name, groups)))
        readings = self._reader.call(lambda read: read_groups(read, names, Extent.MEMBERS))
        found = dict(zip(names, map(_view_of, readings), strict=True))
        return tuple(found.get(group, (GroupView(group=group), NodeTimes())) for group in groups)

    def read(self, groups: Collection[str] | None = None) -> Mapping[str, ZookeeperGroup]:
        """See the port."""
        names = self._reader.call(lambda read: _group_names(read, self.name))
        if isinstance(names, Refused):
            raise Rejected(_refused(names.path))
        wanted = [name for name in names if groups is None or name in groups]
        found: dict[str, ZookeeperGroup] = {}
        for at in range(0, len(wanted), _WINDOW):
            readings = self._reader.call(
                partial(read_groups, groups=wanted[at : at + _WINDOW], extent=Extent.OFFSETS)
            )
            found |= {reading.paths.group: _group_of(reading) for reading in readings}
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _view_of(reading: Reading) -> tuple[GroupView, NodeTimes]:
    """A group of a window. What cannot be read, or breaks the reader, is a problem of its group alone."""
    if not reading.exists:
        return GroupView(group=reading.paths.group), NodeTimes()
    try:
        view, times = _view(reading), _times(reading)
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        aware = set(reading.migration_ids)
        members = tuple(
            Member(member_id=name, kind=MemberKind.AWARE if name in aware else MemberKind.OLD)
            for name in reading.ids
        )
        view = GroupView(
            group=reading.paths.group,
            exists=True,
            ids=reading.ids,
            migration_ids=reading.migration_ids,
            members=members,
            problems=(unforeseen(reading.paths.root, error),),
        )
        return view, NodeTimes()
    return replace(view, problems=(*view.problems, *_unread(reading))), times


def _unread(reading: Reading) -> list[str]:
    """Sentences about what could not be read, or not all of it at one time."""
    problems = [f"{_refused(path)}, or correct its credentials" for path in sorted(set(reading.refused))]
    if not reading.settled:
        problems.append(
            f"members of {reading.paths.root} came and went during each of {_ATTEMPTS[Extent.MEMBERS]} "
            "readings: scan again once the group is at rest"
        )
    return problems


def _refused(path: str) -> str:
    return f"{path} may not be read: give the tool's login the permission read there"


def _times(reading: Reading) -> NodeTimes:
    """A member came or went (pzxid of both directories), the mode was written, a partition was taken."""
    directories = [node for node in reading.directories if node is not None]
    mode = [reading.mode] if reading.mode is not None else []
    nodes = [*directories, *mode, *reading.members.values(), *reading.owners, *reading.offsets]
    stamps = {(node.czxid, node.ctime_ms) for node in nodes} | {(n.mzxid, n.mtime_ms) for n in nodes}
    return NodeTimes(
        changes=(
            *(node.pzxid for node in directories),
            *(node.mzxid for node in mode),
            *(node.czxid for node in reading.owners),
        ),
        stamps=tuple(sorted(stamps)),
    )


def _group_of(reading: Reading) -> ZookeeperGroup:
    """What breaks the reader is a problem of its group alone: the audit goes on with the others."""
    try:
        return _group(reading)
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        problems = (unforeseen(reading.paths.root, error),)
        return ZookeeperGroup(mode=Mode.ZOOKEEPER, members=0, aware=0, offsets={}, problems=problems)


def _group(reading: Reading) -> ZookeeperGroup:
    offsets: dict[tuple[str, int], Znode] = {}
    problems = [_refused(path) for path in reading.refused]
    for node in reading.offsets:
        found = offset_of(node)
        if isinstance(found, CommittedOffset):
            offsets[found.partition] = Znode(offset=found.offset, mtime_ms=node.mtime_ms)
        else:
            problems.append(found if isinstance(found, str) else found.problem)
    return ZookeeperGroup(
        mode=effective_mode(as_mode(reading.mode), reading.ids, reading.migration_ids),
        members=len(reading.ids),
        aware=len(reading.migration_ids),
        offsets=offsets,
        problems=tuple(problems),
    )
