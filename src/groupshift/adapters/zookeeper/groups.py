"""The ZooKeeper half of a group, from one consistent view of who is registered (D5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from groupshift.adapters.zookeeper import parsing
from groupshift.adapters.zookeeper.connection import Directory, Node, Session, ZookeeperConnection
from groupshift.adapters.zookeeper.mode import as_mode, paths_of
from groupshift.domain.group import CommittedOffset, Member, NoOffset
from groupshift.domain.modes import ModeNode
from groupshift.domain.observation import ZookeeperSide
from groupshift.domain.znodes import BROKER_IDS, CONSUMERS, GroupPaths
from groupshift.errors import Rejected, Transient

T = TypeVar("T")

_ATTEMPTS = 25
"""A view is repeated this often before the group counts as never at rest; each costs milliseconds."""


class ZookeeperGroups:
    """Reads groups and changes nothing."""

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection

    def observe(self, group: str) -> ZookeeperSide:
        """Registrations, mode node, owners and offsets of the group.

        Raises as `ZookeeperConnection.call`; `Transient` also when members come and go faster than they
        can be listed, `Rejected` when no Kafka cluster keeps its nodes below this chroot."""
        paths, address = paths_of(group), self._connection.address
        return self._connection.call(lambda session: _observe(session, paths, address))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    """One consistent view of both directories and the mode node; nodes in the order of the names."""

    mode: ModeNode
    ids: tuple[Node, ...]
    migration_ids: tuple[Node, ...]
    ids_pzxid: int


def _observe(session: Session, paths: GroupPaths, address: str) -> ZookeeperSide:
    session.sync(CONSUMERS)
    if not session.exists(paths.root):
        _demand_cluster(session, address)
        return ZookeeperSide(exists=False)
    found = _registered(session, paths)
    members, unread = _members(found)
    owners, unowned = _leaves(session, paths.owners, parsing.owner)
    stored, unset = _leaves(session, paths.offsets, parsing.offset)
    mode_problem = parsing.mode_problem(paths.mode, found.mode)
    return ZookeeperSide(
        exists=True,
        mode=found.mode,
        ids=tuple(_name(node) for node in found.ids),
        migration_ids=tuple(_name(node) for node in found.migration_ids),
        ids_pzxid=found.ids_pzxid,
        members=members,
        owners=owners,
        offsets=tuple(each for each in stored if isinstance(each, CommittedOffset)),
        no_offsets=tuple(each for each in stored if isinstance(each, NoOffset)),
        problems=(*mode_problem, *unread, *unowned, *unset),
    )


def _demand_cluster(session: Session, address: str) -> None:
    """An absent group is proven only by a ZooKeeper that holds a Kafka cluster."""
    if not session.exists(CONSUMERS) and not session.exists(BROKER_IDS):
        raise Rejected(
            f"ZooKeeper at {address} holds no Kafka cluster (neither {CONSUMERS} nor {BROKER_IDS} is there): "
            "correct hosts and chroot of [zookeeper]"
        )


def _registered(session: Session, paths: GroupPaths) -> _Registered:
    both = (paths.ids, paths.migration_ids)
    for _ in range(_ATTEMPTS):
        session.sync(paths.root)
        before = session.list(both)
        ids = session.read(_below(paths.ids, before[0]))
        migration_ids = session.read(_below(paths.migration_ids, before[1]))
        (mode,) = session.read([paths.mode])
        whole_ids = tuple(node for node in ids if node is not None)
        whole_migration_ids = tuple(node for node in migration_ids if node is not None)
        complete = len(whole_ids) == len(ids) and len(whole_migration_ids) == len(migration_ids)
        if complete and session.list(both) == before:
            return _Registered(
                mode=as_mode(mode),
                ids=whole_ids,
                migration_ids=whole_migration_ids,
                ids_pzxid=before[0].pzxid if before[0] else -1,
            )
    raise Transient(
        f"members of {paths.root} came and went during each of {_ATTEMPTS} listings: "
        "wait until the group is at rest, then run the same command again"
    )


def _members(found: _Registered) -> tuple[tuple[Member, ...], tuple[str, ...]]:
    aware = {_name(node): node for node in found.migration_ids}
    parsed = [parsing.member(node, aware.get(_name(node))) for node in found.ids]
    problems = tuple(problem for _, unread in parsed for problem in unread)
    return tuple(member for member, _ in parsed), problems


def _leaves(
    session: Session, directory: str, parse: Callable[[Node], T | str | None]
) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """All ``<directory>/<topic>/<partition>`` leaves: the parsed ones, and sentences about the others."""
    (topics,) = session.list([directory])
    folders = _below(directory, topics)
    listed = session.list(folders)
    leaves = [path for folder, found in zip(folders, listed, strict=True) for path in _below(folder, found)]
    parsed = [parse(node) for node in _present(session.read(leaves))]
    problems = tuple(outcome for outcome in parsed if isinstance(outcome, str))
    return tuple(each for each in parsed if each is not None and not isinstance(each, str)), problems


def _present(nodes: Sequence[Node | None]) -> Iterator[Node]:
    """Without the leaves that went away between listing and reading: they are not there now."""
    return (node for node in nodes if node is not None)


def _below(path: str, directory: Directory | None) -> tuple[str, ...]:
    return tuple(f"{path}/{child}" for child in directory.children) if directory else ()


def _name(node: Node) -> str:
    return node.path.rpartition("/")[2]
