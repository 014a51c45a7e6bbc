"""One consistent view of a group in ZooKeeper (D5), with the watches that tell when it is stale."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from groupshift.domain.modes import ABSENT_MODE, ModeNode
from groupshift.domain.reconcile import CoordinationView
from groupshift.domain.registration import Registration, parse_awareness, parse_registration
from groupshift.domain.znodes import BROKER_TOPICS, GroupPaths, parse_partitions, topic_path
from groupshift.errors import Rejected, Transient

_ATTEMPTS = 20

Answer = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """One pass over directories and mode: what decides whether the registrations must be read.

    ``topics`` are all there are, None when nobody was known to need them."""

    topics: tuple[str, ...] | None
    mode: ModeNode
    ids: tuple[str, ...]
    ids_pzxid: int
    migration_ids: tuple[str, ...]
    migration_pzxid: int


class Observer:
    """Reads `CoordinationView`s. ``changed`` is called (on kazoo's thread) when one is stale; ``hidden`` are
    the topics that no wildcard sees."""

    def __init__(
        self, client: KazooClient, paths: GroupPaths, answer: Answer,
        *, changed: Callable[[Any], None], hidden: Collection[str],
    ) -> None:  # fmt: skip
        self._client, self._paths = client, paths
        self._answer, self._changed, self._hidden = answer, changed, hidden

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """Repeat until nothing moved in between. Raises `Transient` when it never stands still."""
        for _attempt in range(_ATTEMPTS):
            view = self._attempt(known, topics)
            if view is not None:
                return view
        raise Transient(f"the members of {self._paths.group} change faster than they can be listed")

    def _attempt(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView | None:
        listing, topic_nodes = self._list(known, topics)
        if listing is None:
            return None
        partitions, broken = self._partitions(topic_nodes)
        registrations, unfenced, malformed = self._members(listing, known)
        if len(registrations) + len(malformed) < len(listing.ids):
            return None
        wanted, unreadable = self._subscribed(registrations, listing.topics)
        wanted |= set(topics)
        more, further = self._partitions(
            {name: self._topic(name) for name in sorted(wanted - set(topic_nodes))}
        )
        partitions = {name: found for name, found in (partitions | more).items() if name in wanted}
        problems = (*malformed, *unreadable, *broken, *further)
        return CoordinationView(
            mode=listing.mode,
            ids_pzxid=listing.ids_pzxid,
            migration_pzxid=listing.migration_pzxid,
            migration_ids=listing.migration_ids,
            registrations=registrations,
            unfenced=unfenced,
            partitions=partitions,
            problems=problems,
        )

    def _list(
        self, known: CoordinationView | None, topics: Sequence[str]
    ) -> tuple[_Listing | None, dict[str, Any]]:
        """One round trip: sync, ``ids``, ``migration/ids``, mode, topics; ``ids`` once more at the end.

        No listing when ``ids`` changed in between; topic → the request for its node."""
        names = sorted({*topics, *(known.partitions if known is not None else ())})
        synced = self._client.sync_async(self._paths.root)
        ids = self._directory(self._paths.ids)
        migration = self._directory(self._paths.migration_ids)
        mode = self._client.get_async(self._paths.mode, watch=self._changed)
        appeared = self._client.exists_async(self._paths.mode, watch=self._changed)
        topic_nodes = {name: self._topic(name) for name in names}
        every = self._directory(BROKER_TOPICS) if known is not None and _wildcards(known) else None
        again = self._client.exists_async(self._paths.ids)
        self._optional(synced)
        listed, pzxid = self._listed(ids)
        aware, migration_pzxid = self._listed(migration)
        listing = _Listing(
            topics=self._listed(every)[0] if every is not None else None,
            mode=self._mode(mode, appeared),
            ids=listed,
            ids_pzxid=pzxid,
            migration_ids=aware,
            migration_pzxid=migration_pzxid,
        )
        return listing if self._pzxid(again) == pzxid else None, topic_nodes

    def _topic(self, name: str) -> Any:
        """Ask for a topic's node; the second watch reports that an absent one appears."""
        self._client.exists_async(topic_path(name), watch=self._changed)
        return self._client.get_async(topic_path(name), watch=self._changed)

    def _directory(self, path: str) -> tuple[Any, Any]:
        children = self._client.get_children_async(path, watch=self._changed, include_data=True)
        return children, self._client.exists_async(path, watch=self._changed)

    def _listed(self, asked: tuple[Any, Any]) -> tuple[tuple[str, ...], int]:
        found = self._optional(asked[0])
        self._answer(asked[1])  # its watch reports that an absent directory appears
        return (tuple(sorted(found[0])), found[1].pzxid) if found is not None else ((), -1)

    def _mode(self, asked: Any, appeared: Any) -> ModeNode:
        found = self._optional(asked)
        self._answer(appeared)
        if found is None:
            return ABSENT_MODE
        data, stat = found
        return ModeNode(data=data or b"", version=stat.version, czxid=stat.czxid, mzxid=stat.mzxid)

    def _members(
        self, listing: _Listing, known: CoordinationView | None
    ) -> tuple[Mapping[str, Registration], frozenset[str], tuple[str, ...]]:
        """Read every registration and every migration id in one round trip, unless they are known."""
        if known is not None and not known.problems and _same(known, listing):
            return known.registrations, known.unfenced, ()
        ids = {cid: self._client.get_async(self._paths.id_of(cid)) for cid in listing.ids}
        aware = {
            cid: self._client.get_async(self._paths.migration_id_of(cid)) for cid in listing.migration_ids
        }
        registrations: dict[str, Registration] = {}
        unfenced: set[str] = set()
        problems: list[str] = []
        for cid, asked in ids.items():
            found = self._optional(asked)
            try:
                if found is not None:
                    registrations[cid] = parse_registration(found[0], self._paths.id_of(cid))
            except Rejected as error:
                problems.append(str(error))
        for cid, asked in aware.items():
            found = self._optional(asked)
            if found is not None and not _fenced(found[0]):
                unfenced.add(cid)
        return registrations, frozenset(unfenced), tuple(problems)

    def _subscribed(
        self, registrations: Mapping[str, Registration], every: tuple[str, ...] | None
    ) -> tuple[set[str], tuple[str, ...]]:
        """The topics of all members, and sentences about wildcards that cannot be read.

        With a wildcard among them the list of topics is watched: a new one may match."""
        if every is None and any(each.wildcard for each in registrations.values()):
            every = self._listed(self._directory(BROKER_TOPICS))[0]
        wanted: set[str] = set()
        problems: list[str] = []
        for cid, registration in registrations.items():
            try:
                wanted.update(registration.topics(every or (), hidden=self._hidden))
            except Rejected as error:
                problems.append(f"{self._paths.id_of(cid)}: {error}")
        return wanted, tuple(problems)

    def _partitions(
        self, topic_nodes: Mapping[str, Any]
    ) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
        partitions: dict[str, tuple[int, ...]] = {}
        problems: list[str] = []
        for name, asked in topic_nodes.items():
            found = self._optional(asked)
            try:
                partitions[name] = parse_partitions(found[0], topic_path(name)) if found is not None else ()
            except Rejected as error:
                problems.append(str(error))
        return partitions, tuple(problems)

    def _pzxid(self, asked: Any) -> int:
        stat = self._answer(asked)
        return stat.pzxid if stat is not None else -1

    def _optional(self, asked: Any) -> Any:
        try:
            return self._answer(asked)
        except NoNodeError:
            return None


def _same(known: CoordinationView, listing: _Listing) -> bool:
    return (
        known.ids_pzxid == listing.ids_pzxid
        and known.migration_pzxid == listing.migration_pzxid
        and set(known.registrations) == set(listing.ids)
    )


def _wildcards(view: CoordinationView) -> bool:
    return any(each.wildcard for each in view.registrations.values())


def _fenced(data: bytes) -> bool:
    try:
        return parse_awareness(data).fence is not None
    except Rejected:
        return False
