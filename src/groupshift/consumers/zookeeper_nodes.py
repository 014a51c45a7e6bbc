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
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL

from groupshift.adapters.zookeeper.login import ANYBODY, ZookeeperLogin, make_client
from groupshift.adapters.zookeeper.session import as_mode, failure, node_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView
from groupshift.domain.registration import (
    Registration,
    parse_awareness,
    parse_registration,
)
from groupshift.domain.znodes import (
    BROKER_IDS,
    BROKER_TOPICS,
    INTERNAL_TOPICS,
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
from groupshift.ports.consumer import CoordinationListener, OffsetNode, OffsetWrite

_BATCH = 100
T = TypeVar("T")


class Nodes:
    """What one member asks of ZooKeeper. ``client`` is made with ``login``; ``hidden`` are the topics that no
    wildcard sees."""

    def __init__(
        self, client: KazooClient, group: str, consumer_id: str,
        *, login: ZookeeperLogin = ANYBODY, hidden: Collection[str] = INTERNAL_TOPICS,
    ) -> None:  # fmt: skip
        self._client, self._login, self._consumer_id = client, login, consumer_id
        self._hosts = ",".join(f"{host}:{port}" for host, port in client.hosts) + client.chroot
        self._group, self._paths, self._hidden = group, GroupPaths(group), hidden
        self._listener: CoordinationListener | None = None
        self._owner_watches: dict[TopicPartition, Callable[[Any], None]] = {}
        self._parents: set[str] = set()

    @property
    def session_s(self) -> float:
        """The negotiated timeout; kazoo keeps it in milliseconds."""
        return float(self._client._session_timeout) / 1000  # noqa: SLF001 (no public accessor)

    def _session(self) -> int | None:
        known = self._client.client_id
        return known[0] if known else None

    def _view_changed(self, _event: Any = None) -> None:
        if self._listener is not None:
            self._listener.view_changed()

    def _owner_changed(self, partition: TopicPartition, _event: Any = None) -> None:
        if self._listener is not None:
            self._listener.owner_changed(partition)

    def _answer(self, result: Any) -> Any:
        """Wait for one answer, at most a session; only NoNode, NodeExists and BadVersion pass through."""
        if self._client.client_state == KeeperState.AUTH_FAILED:
            raise self._unauthorised("may not log in")
        if not self._client.connected and not result.ready():
            raise Transient("ZooKeeper is not connected")
        try:
            return result.get(timeout=self.session_s)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except AuthFailedError as error:
            raise self._unauthorised("may not log in") from error
        except NoAuthError as error:
            raise self._unauthorised("may not change a node of the group") from error
        except (KazooException, KazooTimeoutError) as error:
            raise Transient(f"ZooKeeper did not answer: {error!r}") from error

    def _unauthorised(self, what: str) -> Rejected:
        return Rejected(
            f"zookeeper.sasl.username: {self._login.who} {what} at {self._hosts}: log in as the group's "
            "other members do (zookeeper.sasl.mechanism, zookeeper.sasl.username and zookeeper.sasl.password)"
        )

    def _optional(self, request: Any) -> Any:
        """The answer, None where there is no node."""
        try:
            return self._answer(request)
        except NoNodeError:
            return None

    def _children(self, path: str) -> list[str]:
        return list(self._optional(self._client.get_children_async(path)) or ())

    def _ensure(self, path: str, acl: Sequence[ACL] | None = None) -> None:
        """Create a persistent node with its parents, once; by default with the ACL of the client."""
        if path not in self._parents:
            self._answer(self._client.ensure_path_async(path, acl))
            self._parents.add(path)

    def _guarded(self) -> TransactionRequest:
        change = self._client.transaction()
        change.check(self._paths.id_of(self._consumer_id), -1)
        return change


class PartitionNodes(Nodes):
    """``owners`` and ``offsets`` of one group, as seen by one member.

    The port is `groupshift.ports.consumer.Coordination`. A partition's owner node is ephemeral and
    holds the thread id; its offset node is persistent, and its version is what every write expects (O6)."""

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Create the owner nodes of ``wanted`` (partition → thread id) that are free.

        Returns the offset node of each that is held now, None for what another session holds: its watch
        tells when to try again. Pipelined per partition: create, look at what is there (with watch), read
        the offset. Raises `Transient` when ZooKeeper does not answer (what was created then is found by
        `resync`), `Rejected` where this identity may not own a partition."""
        for topic in {each.topic for each in wanted}:
            self._ensure(f"{self._paths.owners}/{topic}")
            self._ensure(f"{self._paths.offsets}/{topic}")
        requests, result = {}, {}
        for each, thread in wanted.items():
            change = self._guarded()
            change.create(self._paths.owner_of(each), thread.encode(), ephemeral=True)
            requests[each] = (
                change.commit_async(),
                self._watched_owner(each),
                self._client.get_async(self._paths.offset_of(each)),
            )
        session = self._session()
        for each, (creation, stat, offset) in requests.items():
            failed = failure(self._answer(creation))
            owner, node = self._answer(stat), self._offset_node(each, offset)
            result[each] = node if owner is not None and owner.ephemeralOwner == session else None
            if owner is None and isinstance(failed, NodeExistsError):
                self._owner_changed(each)  # it was there, and gone again between the two requests
            elif owner is None and isinstance(failed, NoAuthError):
                raise Rejected(
                    f"zookeeper.sasl.username: this member may not own {each} ({self._paths.owner_of(each)} "
                    "refuses its identity): log in as the group's other members do"
                )
            elif owner is None:
                self._parents.clear()
                raise Transient(f"the owner node of {each} could not be created: {failed!r}")
        return result

    def _watched_owner(self, partition: TopicPartition) -> Any:
        watch = self._owner_watches.setdefault(partition, partial(self._owner_changed, partition))
        return self._client.exists_async(self._paths.owner_of(partition), watch=watch)

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """Commit ``writes`` (None: nothing to commit) and delete the owner nodes of these partitions, as far
        as they are this session's (D9).

        One transaction of checked commits and deletes; where it fails, partition by partition, because one
        late writer must not hold up the others. Raises `Transient`."""
        for batch in _batches(self._owned(writes)):
            if self._done({each: writes[each] for each in batch}, release=True):
                continue
            for each in batch:
                write = writes[each]
                if write is not None:
                    self.write_offsets({each: write})
                if self._owned([each]):
                    self._done({each: None}, release=True)

    def _done(self, writes: Mapping[TopicPartition, OffsetWrite | None], *, release: bool) -> bool:
        """Write these offsets of owned partitions (None: nothing to write), and delete their owner nodes if
        this is their ``release``: whether the transaction was carried out."""
        change = self._guarded()
        for each, write in writes.items():
            owner = self._paths.owner_of(each)
            if not release:
                change.check(owner, -1)
            if write is not None:
                self._add_write(change, each, write)
            if release:
                change.delete(owner)
        return failure(self._answer(change.commit_async())) is None

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """List all owner nodes; keep what is mine and wanted, delete what is mine and forgotten.

        Returns those of ``held`` (partition → thread id) that are really mine. The watches of all of them
        are set again. Raises `Transient`."""
        listed = [
            TopicPartition(topic, at)
            for topic in self._children(self._paths.owners)
            for name in self._children(f"{self._paths.owners}/{topic}")
            if (at := partition_number(name)) is not None
        ]
        every = self._owned(listed)
        for each in set(every) - set(held):
            self._done({each: None}, release=True)
        for each in held:
            self._answer(self._watched_owner(each))
        return frozenset(each for each in every if each in held)

    def _owned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those whose owner node belongs to the present session."""
        session = self._session()
        stats = self._owner_stats(partitions)
        return [each for each, stat in stats.items() if stat is not None and stat.ephemeralOwner == session]

    def unowned(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those without an owner node."""
        return frozenset(each for each, stat in self._owner_stats(partitions).items() if stat is None)

    def _owner_stats(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        requests = {each: self._client.exists_async(self._paths.owner_of(each)) for each in partitions}
        return {each: self._answer(result) for each, result in requests.items()}

    # -- offset nodes ----------------------------------------------------------------------------

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """Write the offset nodes of owned partitions at the versions that are expected.

        Returns each node as it was written, None for a partition that is no longer mine. All in one
        transaction; where a foreign write came in late, the affected ones adopt its version (O6). Raises
        `Transient`, also for a node that changes again and again."""
        written: dict[TopicPartition, OffsetNode | None] = {}
        for batch in _batches(writes):
            expected = {each: writes[each] for each in batch}
            done = self._done(expected, release=False)
            written |= {
                each: _after(write) if done else self._write_one(each, write)
                for each, write in expected.items()
            }
        return written

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetNode]:
        """Read offset nodes in one round trip."""
        requests = {each: self._client.get_async(self._paths.offset_of(each)) for each in partitions}
        return {each: self._offset_node(each, result) for each, result in requests.items()}

    def leave_offsets(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        """Save the progress of a lost session (O9).

        Each on its own and unguarded: the registration is gone, the version decides. A node that somebody
        wrote since stays as it is. Raises `Transient`."""
        changes = {each: self._client.transaction() for each in writes}
        for each, change in changes.items():
            self._add_write(change, each, writes[each])
        for request in [change.commit_async() for change in changes.values()]:
            self._answer(request)

    def _write_one(self, partition: TopicPartition, write: OffsetWrite) -> OffsetNode | None:
        """Also where somebody deleted the group's offsets: else it could not even be given up any more."""
        for _attempt in range(3):
            if not self._owned([partition]):
                return None
            self._parents.clear()
            self._ensure(f"{self._paths.offsets}/{partition.topic}")
            node = self._offset_node(partition, self._client.get_async(self._paths.offset_of(partition)))
            expected = replace(write, version=node.version)
            if self._done({partition: expected}, release=False):
                return _after(expected)
        raise Transient(f"the offset node of {partition} keeps changing; retrying")

    def _add_write(self, change: TransactionRequest, partition: TopicPartition, write: OffsetWrite) -> None:
        path, data = self._paths.offset_of(partition), encode_offset(write.offset)
        if write.version < 0:
            change.create(path, data)
        else:
            change.set_data(path, data, version=write.version)

    def _offset_node(self, partition: TopicPartition, request: Any) -> OffsetNode:
        node = self._optional(request)
        if node is None:
            return OffsetNode()
        value = None
        with suppress(Rejected):
            value = parse_offset(node[0], self._paths.offset_of(partition))
        return OffsetNode(value=value, version=node[1].version)


def _after(write: OffsetWrite) -> OffsetNode:
    return OffsetNode(value=write.offset, version=write.version + 1)


def _batches(partitions: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    every = list(partitions)
    return [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]


_ATTEMPTS = 20


class Observer(Nodes):
    """Reads `CoordinationView`s. The listener is told (on kazoo's thread) when one is stale.

    What a view rests on is read between two looks at the version of the children of ``ids``: when it changed
    in between, the view is no view of one moment and is read again."""

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """One consistent view of the group (D5), with watches on everything that was read.

        ``known`` is the former view, from which unchanged registrations are taken over; the partitions of
        ``topics`` are always included. Repeats until nothing moved in between. Raises `Transient` when it
        never stands still, or ZooKeeper does not answer."""
        for _attempt in range(_ATTEMPTS):
            view = self._attempt(known, topics)
            if view is not None:
                return view
        raise Transient(f"the members of {self._paths.group} change faster than they can be listed")

    def _attempt(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView | None:
        """Two round trips: sync, ``ids``, ``migration/ids``, mode, topics, and ``ids`` once more; then the
        registrations, unless they are known, and what else they subscribe to. None when ``ids`` changed in
        between."""
        paths, names = self._paths, {*topics, *(known.partitions if known is not None else ())}
        synced = self._client.sync_async(paths.root)
        directories = [self._directory(paths.ids), self._directory(paths.migration_ids)]
        mode_node = self._node(paths.mode)
        topic_nodes = {name: self._node(topic_path(name)) for name in sorted(names)}
        again = self._client.exists_async(paths.ids)
        self._optional(synced)
        (ids, ids_pzxid), (aware, migration_pzxid) = map(self._listed_and_watched, directories)
        mode, stat = self._optional(mode_node), self._answer(again)
        if (stat.pzxid if stat is not None else -1) != ids_pzxid:
            return None
        pzxids, problems = (ids_pzxid, migration_pzxid), list[str]()
        if known and not known.problems and (known.ids_pzxid, known.migration_pzxid) == pzxids:
            registrations, unfenced = known.registrations, known.unfenced
        else:
            registered = {cid: self._client.get_async(paths.id_of(cid)) for cid in ids}
            migrating = {cid: self._client.get_async(paths.migration_id_of(cid)) for cid in aware}
            members = self._parsed(registered, paths.id_of, parse_registration, problems)
            if len(members) < len(ids):
                return None
            registrations = {cid: each for cid, each in members.items() if each is not None}
            awareness = self._parsed(migrating, paths.migration_id_of, parse_awareness, [])
            unfenced = frozenset(cid for cid, each in awareness.items() if each is None or each.fence is None)
        wanted = self._subscribed(registrations, problems) | set(topics)
        topic_nodes |= {name: self._node(topic_path(name)) for name in sorted(wanted - names)}
        partitions = self._parsed(topic_nodes, topic_path, parse_partitions, problems)
        return CoordinationView(
            mode=as_mode(node_of(paths.mode, *mode) if mode is not None else None),
            ids_pzxid=ids_pzxid,
            migration_pzxid=migration_pzxid,
            migration_ids=aware,
            registrations=registrations,
            unfenced=unfenced,
            partitions={name: partitions.get(name) or () for name in sorted(wanted)},
            problems=tuple(problems),
        )

    def _node(self, path: str) -> Any:
        """Ask for a node; the first watch reports that an absent one appears."""
        self._client.exists_async(path, watch=self._view_changed)
        return self._client.get_async(path, watch=self._view_changed)

    def _directory(self, path: str) -> Any:
        """Ask for the names in a directory, watched like a node."""
        self._client.exists_async(path, watch=self._view_changed)
        return self._client.get_children_async(path, watch=self._view_changed, include_data=True)

    def _listed_and_watched(self, request: Any) -> tuple[tuple[str, ...], int]:
        node = self._optional(request)
        return (tuple(sorted(node[0])), node[1].pzxid) if node is not None else ((), -1)

    def _subscribed(self, registrations: Mapping[str, Registration], problems: list[str]) -> set[str]:
        """The topics of all members; wildcards that cannot be read are ``problems``.

        With a wildcard among them the list of topics is watched: a new one may match."""
        all_topics, wanted = tuple[str, ...](), set[str]()
        if any(each.wildcard for each in registrations.values()):
            all_topics, _ = self._listed_and_watched(self._directory(BROKER_TOPICS))
        for cid, registration in registrations.items():
            try:
                wanted.update(registration.topics(all_topics, hidden=self._hidden))
            except Rejected as error:
                problems.append(f"{self._paths.id_of(cid)}: {error}")
        return wanted

    def _parsed(
        self,
        requests: Mapping[str, Any],
        path_of: Callable[[str], str],
        parse: Callable[[bytes | None, str], T],
        problems: list[str],
    ) -> dict[str, T | None]:
        """Name → what its node says, None for what cannot be read; without those that are not there."""
        read: dict[str, T | None] = {}
        for name, request in requests.items():
            if (node := self._optional(request)) is not None:
                try:
                    read[name] = parse(node[0], path_of(name))
                except Rejected as error:
                    problems.append(str(error))
                    read[name] = None
        return read


_LOG = logging.getLogger(__name__)


def find_brokers(hosts: str, timeout: float, protocol: str, login: ZookeeperLogin) -> str:
    """``host:port,…`` of every broker's first endpoint that speaks ``protocol``; broker JSON 1 to 5
    (zookeeper-coordination.md §1.3).

    A broker whose node cannot be read is left out, with a warning. Raises `Transient` without an answer in
    ``timeout`` seconds or without any broker, `Rejected` when no broker has such an endpoint."""
    client = make_client(hosts, timeout, login)
    try:
        client.start(timeout=timeout)
        ids = client.get_children(BROKER_IDS) if client.exists(BROKER_IDS) else []
        read = {path: client.get(path)[0] for path in (f"{BROKER_IDS}/{each}" for each in ids)}
    except (KazooException, KazooTimeoutError, OSError) as error:
        raise Transient(f"zookeeper.connect {hosts!r}: no answer in {timeout:g} s ({error!r})") from error
    finally:
        client.stop()
        client.close()
    if not read:
        raise Transient(f"zookeeper.connect {hosts!r}: no broker is registered there; start them")
    servers = {str(each.server) for each in endpoints_of(read) if each.protocol == protocol}
    if not servers:
        raise Rejected(f"no broker speaks security.protocol {protocol!r}; set bootstrap.servers")
    return ",".join(sorted(servers))


def endpoints_of(nodes: Mapping[str, bytes | None]) -> list[Endpoint]:
    """The endpoints of all brokers (path → data of its node). Raises `Rejected` when not one can be read."""
    endpoints: list[Endpoint] = []
    problems: list[str] = []
    for path, data in sorted(nodes.items()):
        try:
            endpoints += parse_broker(data, path)
        except Rejected as wrong:
            _LOG.warning("%s: left out", wrong)
            problems.append(str(wrong))
    if len(problems) == len(nodes) and problems:
        raise Rejected(f"no broker can be read from ZooKeeper: {problems[0]}; or set bootstrap.servers")
    return endpoints
