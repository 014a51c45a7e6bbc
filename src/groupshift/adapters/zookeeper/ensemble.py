"""The nodes of many groups, or of one, in a few large requests: for scans, audits, and moves of a group.

`read_groups` reads many groups in the rounds that one group takes: a window of groups costs three round
trips, however many they are (`groupshift.adapters.zookeeper.session`), and a group is a window of one. What
becomes of what cannot be read is up to each method of `ZookeeperGroups`, which implements
`groupshift.audit.run.OffsetNodes`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from kazoo.exceptions import NoAuthError

from groupshift.adapters.zookeeper.mode_brake_and_rights import is_node_name, paths_of
from groupshift.adapters.zookeeper.nodes import member_of, mode_problems, offset_of, owner_of, unforeseen
from groupshift.adapters.zookeeper.session import (
    Ask,
    Children,
    Data,
    Node,
    Read,
    Refused,
    Rounds,
    Session,
    ZookeeperConnection,
    as_mode,
    cluster_id,
    read_all,
    read_in_rounds,
    understands,
)
from groupshift.audit.inputs import ZookeeperGroup
from groupshift.domain.group import GroupView, Member, NoOffset
from groupshift.domain.modes import MemberKind, Mode, effective_mode
from groupshift.domain.rows import OffsetRow
from groupshift.domain.znodes import BROKER_IDS, CONSUMERS, GroupPaths
from groupshift.errors import Rejected, Transient
from groupshift.scan.group_state import NodeTimes

T = TypeVar("T")


_ATTEMPTS = 25
"""How often the members of a group are read when some come and go meanwhile; each costs milliseconds."""


@dataclass(slots=True)
class Reading:
    """What was read of one group.

    ``members`` are nodes by path, ``refused`` the paths that the session may not read; ``settled`` is False
    when members came or went during each attempt."""

    paths: GroupPaths
    directories: Sequence[Node | None] = ()
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
        there = any((*self.directories, self.mode)) or bool(self.owners or self.offsets)
        return there or bool(self.refused)


def read_groups(read: Read, groups: Sequence[str]) -> list[Reading]:
    """What ZooKeeper has of each group, in this order: 9 + 2m + 2t + 2p reads at most for m members, t topics
    and p partitions."""
    return read_in_rounds(read, [_rounds(GroupPaths(group)) for group in groups])


def _rounds(paths: GroupPaths) -> Rounds[Reading]:
    """Directories, then members, then owners and offsets.

    Who is registered, in which mode, is as of one time (D5): whether somebody came or went meanwhile shows in
    the directories of the members, which are read again together with them. Owners and offsets are of right
    after it: members that come and go do not keep a group of thousands of partitions from being read."""
    directories = [Data(paths.ids), Data(paths.migration_ids)]
    listed = [Children(path) for path in (paths.ids, paths.migration_ids, paths.owners, paths.offsets)]
    reading, topics, names = Reading(paths), list[str](), list[Any]()
    for _ in range(_ATTEMPTS):
        reading = Reading(paths)
        answers = yield from _answers(reading, [*directories, Data(paths.mode), *listed])
        reading.directories, reading.mode = answers[:2], answers[2]
        reading.ids, reading.migration_ids, owned, committed = (each or () for each in answers[3:])
        members = [*map(paths.id_of, reading.ids), *map(paths.migration_id_of, reading.migration_ids)]
        topics = [f"{paths.owners}/{topic}" for topic in owned]
        topics += [f"{paths.offsets}/{topic}" for topic in committed]
        answers = yield from _answers(reading, [*map(Data, members), *directories, *map(Children, topics)])
        reading.members = {node.path: node for node in answers[: len(members)] if node is not None}
        again, names = answers[len(members) : len(members) + 2], answers[len(members) + 2 :]
        there = set(members) <= reading.members.keys() | set(reading.refused)
        reading.settled = there and _children(again) == _children(reading.directories)
        if reading.settled:
            break
    nodes = [f"{topic}/{name}" for topic, each in zip(topics, names, strict=True) for name in each or ()]
    answers = yield from _answers(reading, [Data(path) for path in nodes])
    leaves = [node for node in answers if node is not None]  # the others went away
    reading.owners = [node for node in leaves if node.path.startswith(f"{paths.owners}/")]
    reading.offsets = [node for node in leaves if node.path.startswith(f"{paths.offsets}/")]
    return reading


def _answers(reading: Reading, asks: Sequence[Ask]) -> Rounds[list[Any]]:
    """One round; what may not be read is noted, and then counts as absent."""
    answers = yield asks
    reading.refused += [each.path for each in answers if isinstance(each, Refused)]
    return [None if isinstance(each, Refused) else each for _, each in zip(asks, answers, strict=True)]


def _children(directories: Sequence[Node | None]) -> list[int]:
    """What identifies the children of each."""
    return [node.stat.pzxid if node else -1 for node in directories]


def _view(reading: Reading) -> GroupView:
    paths, aware = reading.paths, set(reading.migration_ids)
    members, problems = [], list(mode_problems(paths.mode, as_mode(reading.mode)))
    for name in reading.ids:
        migration = reading.members.get(paths.migration_id_of(name)) if name in aware else None
        registered = reading.members.get(paths.id_of(name), migration)
        if registered is not None:
            member, unread = member_of(registered, migration)
            members.append(member)
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
        ids_pzxid=_children(reading.directories)[0],
        members=tuple(members),
        owners=tuple(each for each in owners if each is not None and not isinstance(each, str)),
        zookeeper_offsets=tuple(each for each in offsets if isinstance(each, OffsetRow)),
        no_offsets=tuple(each for each in offsets if isinstance(each, NoOffset)),
        problems=tuple(problems),
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
        self._together = together

    @property
    def name(self) -> str:
        """Hosts and chroot."""
        return self._connection.address

    def groups(self) -> tuple[str, ...]:
        """The children of ``/consumers``, sorted. Raises `Rejected` where there is no Kafka cluster, or where
        they may not be listed."""
        names, brokers = self._call(lambda read: read([Children(CONSUMERS), Children(BROKER_IDS)]))
        if isinstance(names, Refused):
            raise Rejected(_refused(names.path))
        self._require_cluster(there=names is not None or brokers is not None)
        return names if isinstance(names, tuple) else ()

    def cluster_id(self) -> str:
        """The id of the Kafka cluster whose nodes these are; empty where it is not told."""
        return cluster_id(self._connection)

    def observe(self, group: str) -> GroupView:
        """Registrations, mode node, owners and offsets of the group.

        Raises as `ZookeeperConnection.call`, also when the session may not read one of the nodes; `Transient`
        also when members come and go faster than they can be listed, `Rejected` when no Kafka cluster keeps
        its nodes below this chroot."""
        paths = paths_of(group)

        def work(session: Session) -> GroupView:
            session.sync(CONSUMERS)
            if not session.exists(paths.root):
                self._require_cluster(there=session.exists(CONSUMERS) or session.exists(BROKER_IDS))
                return GroupView(group=group)
            read = partial(read_all, session, together=False)
            (reading,) = read_groups(read, [group])
            if reading.refused:
                raise NoAuthError(reading.refused[0])
            if not reading.settled:
                raise Transient(
                    f"members of {paths.root} came and went during each of {_ATTEMPTS} listings: "
                    "wait until the group is at rest, then run the same command again"
                )
            return _view(reading)

        return self._connection.call(work)

    def window(self, groups: Sequence[str]) -> tuple[tuple[GroupView, NodeTimes], ...]:
        """Each group's nodes and their times, in this order.

        A name that Kafka allows and that cannot be a node is in Kafka only."""
        names = list(dict.fromkeys(filter(is_node_name, groups)))
        readings = self._call(lambda read: read_groups(read, names))
        views = dict(zip(names, map(_view_of, readings), strict=True))
        return tuple(views.get(group, (GroupView(group=group), NodeTimes())) for group in groups)

    def read(self, groups: Collection[str] | None = None) -> Mapping[str, ZookeeperGroup]:
        """See the port."""
        wanted = [name for name in self.groups() if groups is None or name in groups]
        by_group: dict[str, ZookeeperGroup] = {}
        for at in range(0, len(wanted), _WINDOW):
            readings = self._call(partial(read_groups, groups=wanted[at : at + _WINDOW]))
            by_group |= {reading.paths.group: _group_of(reading) for reading in readings}
        return by_group

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _call(self, work: Callable[[Read], T]) -> T:
        """Run ``work``, which is given what reads; nothing that it reads is older than this call. Whether the
        servers answer many reads at once is found out at the first one.

        ``work`` must be safe to repeat. Raises as `ZookeeperConnection.call`."""
        if self._together is None:
            self._together = self._connection.call(understands)
            if not self._together:
                self._connection.close()
        together = self._together

        def attempt(session: Session) -> T:
            session.sync(CONSUMERS)
            return work(partial(read_all, session, together=together))

        return self._connection.call(attempt)

    def _require_cluster(self, *, there: bool) -> None:
        """That there is no group is believed only of a ZooKeeper that holds a Kafka cluster."""
        if not there:
            raise Rejected(
                f"ZooKeeper at {self.name} holds no Kafka cluster (neither {CONSUMERS} nor {BROKER_IDS} is "
                "there): correct hosts and chroot of [zookeeper]"
            )


def _view_of(reading: Reading) -> tuple[GroupView, NodeTimes]:
    """A group of a window. What cannot be read, or breaks the reader, is a problem of its group alone."""
    if not reading.exists:
        return GroupView(group=reading.paths.group), NodeTimes()
    try:
        view, times = _view(reading), _times(reading)
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        aware = set(reading.migration_ids)
        view = GroupView(
            group=reading.paths.group,
            exists=True,
            ids=reading.ids,
            migration_ids=reading.migration_ids,
            members=tuple(
                Member(member_id=name, kind=MemberKind.AWARE if name in aware else MemberKind.ZOOKEEPER)
                for name in reading.ids
            ),
            problems=(unforeseen(reading.paths.root, error),),
        )
        return view, NodeTimes()
    problems = [f"{_refused(path)}, or correct its credentials" for path in sorted(set(reading.refused))]
    if not reading.settled:
        problems.append(
            f"members of {reading.paths.root} came and went during each of {_ATTEMPTS} "
            "readings: scan again once the group is at rest"
        )
    return replace(view, problems=(*view.problems, *problems)) if problems else view, times


def _refused(path: str) -> str:
    return f"{path} may not be read: give the tool's login the permission read there"


def _times(reading: Reading) -> NodeTimes:
    """A member came or went (pzxid of both directories), the mode was written, a partition was taken."""
    directories = [node.stat for node in reading.directories if node is not None]
    mode = [reading.mode.stat] if reading.mode is not None else []
    owners = [node.stat for node in reading.owners]
    others = [node.stat for node in (*reading.members.values(), *reading.offsets)]
    stats = [*directories, *mode, *owners, *others]
    changes = [stat.pzxid for stat in directories] + [stat.mzxid for stat in mode]
    return NodeTimes(
        changes=(*changes, *(stat.czxid for stat in owners)),
        stamps=tuple(sorted({pair for s in stats for pair in ((s.czxid, s.ctime), (s.mzxid, s.mtime))})),
    )


def _group_of(reading: Reading) -> ZookeeperGroup:
    """The half of an audit. What breaks the reader is a problem of its group alone: the audit goes on. Owners
    and what members say of themselves are none of its matters."""
    try:
        paths, offsets = reading.paths, dict[tuple[str, int], int]()
        others = (paths.owners, paths.id_of(""), paths.migration_id_of(""))
        problems = [_refused(path) for path in sorted(set(reading.refused)) if not path.startswith(others)]
        for node in reading.offsets:
            offset = offset_of(node)
            if isinstance(offset, OffsetRow):
                offsets[offset.at] = offset.offset
            else:
                problems.append(offset if isinstance(offset, str) else offset.problem)
        return ZookeeperGroup(
            mode=effective_mode(as_mode(reading.mode), reading.ids, reading.migration_ids),
            members=len(reading.ids),
            aware=len(reading.migration_ids),
            offsets=offsets,
            problems=tuple(problems),
        )
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        said = (unforeseen(reading.paths.root, error),)
        return ZookeeperGroup(mode=Mode.ZOOKEEPER, members=0, aware=0, offsets={}, problems=said)
