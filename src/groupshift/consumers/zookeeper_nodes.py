"""A member's nodes and its view of the group in ZooKeeper (D5), with watches; broker addresses.

Owner and offset nodes are claimed, written and released in pipelined, guarded transactions. ZooKeeper
answers one session's requests in order, so a claim is one round trip for any number of partitions. Every
change travels in a transaction with a check of the own ``ids`` node: it exists only as long as the session
in which this member registered, hence a change that was delayed beyond an expiry fails as a whole (D9).

Watches tell when the view is stale. `find_brokers` serves a consumer that got no ``bootstrap.servers``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL

from groupshift.adapters.zookeeper.login import ZookeeperLogin, make_client
from groupshift.domain.modes import ABSENT_MODE, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView
from groupshift.domain.registration import Registration, parse_awareness, parse_registration
from groupshift.domain.znodes import (
    BROKER_IDS,
    BROKER_TOPICS,
    Endpoint,
    GroupPaths,
    encode_offset,
    parse_broker,
    parse_offset,
    parse_partitions,
    partition_number,
    topic_path,
)
from groupshift.errors import Rejected, Transient
from groupshift.ports.consumer import OffsetNode, OffsetWrite

_BATCH = 100

Answer = Callable[[Any], Any]


class PartitionNodes:
    """``owners`` and ``offsets`` of one group, as seen by one member.

    ``guard`` is the path of the member's registration, ``answer`` waits for one reply, ``changed`` is
    called (on kazoo's thread) with a partition whose owner node has come or gone.
    """

    def __init__(
        self, client: KazooClient, paths: GroupPaths, guard: str, answer: Answer,
        *, changed: Callable[[TopicPartition], None],
    ) -> None:  # fmt: skip
        self._client, self._paths, self._guard = client, paths, guard
        self._answer, self._changed = answer, changed
        self._owner_watches: dict[TopicPartition, Callable[[Any], None]] = {}
        self._parents: set[str] = set()

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Pipelined per partition: create if free, look at what is there (with watch), read the offset."""
        for topic in {each.topic for each in wanted}:
            self.ensure(f"{self._paths.owners}/{topic}")
            self.ensure(f"{self._paths.offsets}/{topic}")
        asked = [(each, *self._ask_claim(each, thread)) for each, thread in wanted.items()]
        session, result = self._session(), {}
        for each, creation, stat, offset in asked:
            failed = failures(self._answer(creation))
            owner, node = self._answer(stat), self._offset_node(each, offset)
            result[each] = node if owner is not None and owner.ephemeralOwner == session else None
            if owner is None and isinstance(failed[0], NodeExistsError):
                self._changed(each)  # it was there, and gone again between the two requests
            elif owner is None and isinstance(failed[0], NoAuthError):
                raise Rejected(
                    f"zookeeper.sasl.username: this member may not own {each} ({self._paths.owner_of(each)} "
                    "refuses its identity): log in as the group's other members do"
                )
            elif owner is None:
                self.forget_parents()
                raise Transient(f"the owner node of {each} could not be created: {failed[0]!r}")
        return result

    def _ask_claim(self, partition: TopicPartition, thread: str) -> tuple[Any, Any, Any]:
        path = self._paths.owner_of(partition)
        change = self._guarded()
        change.create(path, thread.encode(), ephemeral=True)
        watch = self._owner_watches.setdefault(partition, self._owner_watch(partition))
        return (
            change.commit_async(),
            self._client.exists_async(path, watch=watch),
            self._client.get_async(self._paths.offset_of(partition)),
        )

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """One transaction of checked commits and deletes; where it fails, partition by partition."""
        owned = self._owned(writes)
        for batch in _batches(owned):
            if failures(self._answer(self._release_change({each: writes[each] for each in batch}))):
                for each in batch:
                    self._release_one(each, writes[each])

    def _release_change(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> Any:
        change = self._guarded()
        for each, write in writes.items():
            if write is not None:
                self._add_write(change, each, write)
            change.delete(self._paths.owner_of(each))
        return change.commit_async()

    def _release_one(self, partition: TopicPartition, write: OffsetWrite | None) -> None:
        if write is not None:
            self.write_offsets({partition: write})
        if self._owned([partition]):
            self._answer(self._release_change({partition: None}))

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """List all owner nodes; keep what is mine and wanted, delete what is mine and forgotten."""
        every = self._all_owners()
        mine = every & set(held)
        for each in every - mine:
            self._answer(self._release_change({each: None}))
        for each in held:
            watch = self._owner_watches.setdefault(each, self._owner_watch(each))
            self._answer(self._client.exists_async(self._paths.owner_of(each), watch=watch))
        return frozenset(mine)

    def _all_owners(self) -> set[TopicPartition]:
        """Every owner node of the group that belongs to the present session."""
        topics = self.children(self._paths.owners)
        listed = {topic: self.children(f"{self._paths.owners}/{topic}") for topic in topics}
        every = [
            TopicPartition(topic, number)
            for topic, names in listed.items()
            for number in map(partition_number, names)
            if number is not None
        ]
        return set(self._owned(every))

    def _owned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those whose owner node belongs to the present session."""
        session = self._session()
        asked = [(each, self._client.exists_async(self._paths.owner_of(each))) for each in partitions]
        stats = [(each, self._answer(result)) for each, result in asked]
        return [each for each, stat in stats if stat is not None and stat.ephemeralOwner == session]

    def _owner_watch(self, partition: TopicPartition) -> Callable[[Any], None]:
        def changed(_event: Any) -> None:
            self._changed(partition)

        return changed

    # -- offset nodes ----------------------------------------------------------------------------

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """All in one transaction; a late foreign write makes the affected ones adopt its version (O6)."""
        result: dict[TopicPartition, OffsetNode | None] = {}
        for batch in _batches(writes):
            answers = self._commit_offsets({each: writes[each] for each in batch})
            if answers is not None:
                result.update(answers)
                continue
            for each in batch:
                result[each] = self._write_one(each, writes[each])
        return result

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetNode]:
        """Read offset nodes in one round trip."""
        asked = {each: self._client.get_async(self._paths.offset_of(each)) for each in partitions}
        return {each: self._offset_node(each, result) for each, result in asked.items()}

    def leave_offsets(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        """Each on its own and unguarded: the registration is gone, the version decides."""
        changes = []
        for each, write in writes.items():
            change = self._client.transaction()
            self._add_write(change, each, write)
            changes.append(change.commit_async())
        for change in changes:
            self._answer(change)

    def _commit_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode] | None:
        change = self._guarded()
        for each, write in writes.items():
            change.check(self._paths.owner_of(each), -1)
            self._add_write(change, each, write)
        if failures(self._answer(change.commit_async())):
            return None
        return {
            each: OffsetNode(value=write.offset, version=write.version + 1) for each, write in writes.items()
        }

    def _write_one(self, partition: TopicPartition, write: OffsetWrite) -> OffsetNode | None:
        """Also where somebody deleted the group's offsets: else it could not even be given up any more."""
        for _attempt in range(3):
            if not self._owned([partition]):
                return None
            self.forget_parents()
            self.ensure(f"{self._paths.offsets}/{partition.topic}")
            node = self._offset_node(partition, self._client.get_async(self._paths.offset_of(partition)))
            adopted = OffsetWrite(offset=write.offset, version=node.version)
            answers = self._commit_offsets({partition: adopted})
            if answers is not None:
                return answers[partition]
        raise Transient(f"the offset node of {partition} keeps changing; retrying")

    def _add_write(self, change: TransactionRequest, partition: TopicPartition, write: OffsetWrite) -> None:
        path, data = self._paths.offset_of(partition), encode_offset(write.offset)
        if write.version < 0:
            change.create(path, data)
        else:
            change.set_data(path, data, version=write.version)

    def _offset_node(self, partition: TopicPartition, asked: Any) -> OffsetNode:
        try:
            data, stat = self._answer(asked)
        except NoNodeError:
            return OffsetNode()
        try:
            return OffsetNode(
                value=parse_offset(data, self._paths.offset_of(partition)), version=stat.version
            )
        except Rejected:
            return OffsetNode(version=stat.version)

    # -- plumbing --------------------------------------------------------------------------------

    def _session(self) -> int | None:
        known = self._client.client_id
        return known[0] if known else None

    def _guarded(self) -> TransactionRequest:
        change = self._client.transaction()
        change.check(self._guard, -1)
        return change

    def children(self, path: str) -> list[str]:
        """The names below a node, none where there is no node."""
        try:
            return list(self._answer(self._client.get_children_async(path)))
        except NoNodeError:
            return []

    def ensure(self, path: str, acl: Sequence[ACL] | None = None) -> None:
        """Create a persistent node with its parents, once; by default with the ACL of the client."""
        if path not in self._parents:
            self._answer(self._client.ensure_path_async(path, acl))
            self._parents.add(path)

    def forget_parents(self) -> None:
        """Somebody deleted directories: make sure of them again."""
        self._parents.clear()


def failures(results: Sequence[Any]) -> list[Exception]:
    """The errors of a transaction, the one that caused it first."""
    errors = [each for each in results if isinstance(each, Exception)]
    return sorted(errors, key=lambda each: type(each).__name__ in {"RolledBackError", "RuntimeInconsistency"})


def _batches(partitions: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    every = list(partitions)
    return [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]


_ATTEMPTS = 20


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


_LOG = logging.getLogger(__name__)


def find_brokers(hosts: str, timeout: float, protocol: str, login: ZookeeperLogin) -> str:
    """``host:port,…`` of every broker's first endpoint that speaks ``protocol``; broker JSON 1 to 5
    (zookeeper-coordination.md §1.3).

    A broker whose node cannot be read is left out, with a warning. Raises `Transient` without an answer in
    ``timeout`` seconds or without any broker, `Rejected` when no broker has such an endpoint."""
    client = make_client(hosts, timeout, login)
    try:
        client.start(timeout=timeout)
        paths = [f"{BROKER_IDS}/{each}" for each in client.get_children(BROKER_IDS)]
        read = {path: client.get(path)[0] for path in paths}
    except NoNodeError as error:
        raise Transient(f"zookeeper.connect {hosts!r}: no broker is registered there; start them") from error
    except (KazooException, KazooTimeoutError, OSError) as error:
        raise Transient(f"zookeeper.connect {hosts!r}: no answer in {timeout:g} s ({error})") from error
    finally:
        client.stop()
        client.close()
    if not read:
        raise Transient(f"zookeeper.connect {hosts!r}: no broker is registered there; start them")
    endpoints = [each for each in endpoints_of(read) if each.protocol == protocol]
    if not endpoints:
        raise Rejected(f"no broker speaks security.protocol {protocol!r}; set bootstrap.servers")
    return ",".join(sorted({each.address for each in endpoints}))


def endpoints_of(nodes: Mapping[str, bytes | None]) -> list[Endpoint]:
    """The endpoints of all brokers (path → data of its node). Raises `Rejected` when not one can be read."""
    found: list[Endpoint] = []
    problems: list[str] = []
    for path, data in sorted(nodes.items()):
        try:
            found += parse_broker(data, path).endpoints
        except Rejected as wrong:
            _LOG.warning("%s: left out", wrong)
            problems.append(str(wrong))
    if len(problems) == len(nodes) and problems:
        raise Rejected(f"no broker can be read from ZooKeeper: {problems[0]}; or set bootstrap.servers")
    return found
