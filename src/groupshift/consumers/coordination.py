"""`groupshift.ports.coordination.Coordination` on kazoo.

Requests are pipelined: ZooKeeper answers one session's requests in order, so a claim is one round
trip for any number of partitions. Every change travels in a transaction with a check of the own
``ids`` node: it exists only as long as the session in which this member registered, hence a change
that was delayed beyond an expiry fails as a whole (D9).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError

from groupshift.consumers.observation import Observer
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView
from groupshift.domain.znodes import GroupPaths, encode_offset, parse_offset
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.coordination import (
    CoordinationListener,
    OffsetNode,
    OffsetWrite,
    Session,
)

_BATCH = 100
_STATES = {
    KazooState.CONNECTED: Session.CONNECTED,
    KazooState.SUSPENDED: Session.SUSPENDED,
    KazooState.LOST: Session.LOST,
}


class ZookeeperCoordination:
    """One member's session. ``hosts`` may end with a chroot; ``session_s`` is asked for, in seconds."""

    def __init__(self, hosts: str, group: str, consumer_id: str, session_s: float) -> None:
        self._hosts, self._consumer_id = hosts, consumer_id
        self._paths = GroupPaths(group)
        retry = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}
        self._client = KazooClient(hosts=hosts, timeout=session_s, connection_retry=retry)
        self._observer = Observer(self._client, self._paths, self._answer, self._view_changed)
        self._owner_watches: dict[TopicPartition, Callable[[Any], None]] = {}
        self._parents: set[str] = set()
        self._listener: CoordinationListener | None = None
        self._closed = False

    # -- session ---------------------------------------------------------------------------------

    @property
    def session_s(self) -> float:
        """The negotiated timeout; kazoo keeps it in milliseconds."""
        return float(self._client._session_timeout) / 1000  # noqa: SLF001 (no public accessor)

    def start(self, listener: CoordinationListener, timeout: float) -> None:
        """Connect; the listener hears of every change from then on."""
        self._listener = listener
        try:
            self._client.start(timeout=timeout)
        except (KazooTimeoutError, KazooException, OSError) as error:
            self._client.stop()
            self._client.close()
            raise Transient(
                f"zookeeper.connect {self._hosts!r}: no answer in {timeout:g} s ({error}); start it and retry"
            ) from error
        self._client.add_listener(self._state_changed)

    def session_id(self) -> int | None:
        """Kazoo's present session id."""
        known = self._client.client_id
        return known[0] if known and self._client.connected else None

    def close(self) -> None:
        """Close the session; the server drops what is left of its ephemeral nodes."""
        if self._closed:
            return
        self._closed = True
        self._client.remove_listener(self._state_changed)
        self._client.stop()
        self._client.close()

    def prove(self, answered: Callable[[float], None]) -> None:
        """Ask for the own ``ids`` node."""
        sent, session = time.monotonic(), self.session_id()

        def completed(result: Any) -> None:
            stat = result.value if result.successful() else None
            if stat is not None and stat.ephemeralOwner == session == self.session_id():
                answered(sent)

        if session is not None:
            self._client.exists_async(self._paths.id_of(self._consumer_id)).rawlink(completed)

    def _state_changed(self, state: str) -> None:
        if self._listener is not None:
            self._listener.session_changed(_STATES[state])

    def _view_changed(self, _event: Any = None) -> None:
        if self._listener is not None:
            self._listener.view_changed()

    # -- registration ----------------------------------------------------------------------------

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """Both nodes in one transaction; a repeated call in the same session succeeds."""
        wanted = {self._paths.id_of(self._consumer_id): registration}
        if migration is not None:
            wanted[self._paths.migration_id_of(self._consumer_id)] = migration
        self._ensure([path.rpartition("/")[0] for path in wanted])
        change = self._client.transaction()
        for path, data in wanted.items():
            change.create(path, data, ephemeral=True)
        failed = _failures(self._answer(change.commit_async()))
        if not failed:
            return
        if not isinstance(failed[0], NodeExistsError):
            raise Transient(f"cannot register {self._consumer_id}: {failed[0]!r}; retrying")
        stats = [self._answer(self._client.exists_async(path)) for path in wanted]
        if any(stat is None or stat.ephemeralOwner != self.session_id() for stat in stats):
            raise Conflict(
                f"consumer.id {self._consumer_id!r} is registered by another session; waiting for its end"
            )

    def publish(self, migration: bytes) -> None:
        """Set the payload of the own migration id."""
        try:
            self._answer(self._client.set_async(self._paths.migration_id_of(self._consumer_id), migration))
        except NoNodeError:
            raise Transient("the own migration id is gone; registering again") from None

    def unregister(self) -> None:
        """Delete both ids together, whichever exist."""
        change = self._client.transaction()
        paths = (self._paths.id_of(self._consumer_id), self._paths.migration_id_of(self._consumer_id))
        stats = [self._client.exists_async(path) for path in paths]
        for path, stat in zip(paths, (self._answer(each) for each in stats), strict=True):
            if stat is not None and stat.ephemeralOwner == self.session_id():
                change.delete(path)
        if change.operations:
            self._answer(change.commit_async())

    # -- the view --------------------------------------------------------------------------------

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """See `groupshift.consumers.observation.Observer`."""
        return self._observer.observe(known, topics)

    # -- owner nodes -----------------------------------------------------------------------------

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Pipelined per partition: create if free, look at what is there (with watch), read the offset."""
        topics = {each.topic for each in wanted}
        self._ensure(f"{directory}/{topic}" for topic in topics for directory in self._directories())
        asked = [(each, *self._ask_claim(each, thread)) for each, thread in wanted.items()]
        session, result = self.session_id(), {}
        for each, creation, stat, offset in asked:
            self._answer(creation)
            owner = self._answer(stat)
            mine = owner is not None and session is not None and owner.ephemeralOwner == session
            node = self._offset_node(each, offset)
            result[each] = node if mine else None
            if owner is None and self._listener is not None:
                self._listener.owner_changed(each)  # gone again between the two requests
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
            if _failures(self._answer(self._release_change({each: writes[each] for each in batch}))):
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
        topics = self._children(self._paths.owners)
        listed = {topic: self._children(f"{self._paths.owners}/{topic}") for topic in topics}
        every = [
            TopicPartition(topic, int(name))
            for topic, names in listed.items()
            for name in names
            if name.isdigit()
        ]
        return set(self._owned(every))

    def _owned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those whose owner node belongs to the present session."""
        session = self.session_id()
        asked = [(each, self._client.exists_async(self._paths.owner_of(each))) for each in partitions]
        stats = [(each, self._answer(result)) for each, result in asked]
        return [each for each, stat in stats if stat is not None and stat.ephemeralOwner == session]

    def _owner_watch(self, partition: TopicPartition) -> Callable[[Any], None]:
        def changed(_event: Any) -> None:
            if self._listener is not None:
                self._listener.owner_changed(partition)

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
        if _failures(self._answer(change.commit_async())):
            return None
        return {
            each: OffsetNode(value=write.offset, version=write.version + 1) for each, write in writes.items()
        }

    def _write_one(self, partition: TopicPartition, write: OffsetWrite) -> OffsetNode | None:
        for _attempt in range(3):
            if not self._owned([partition]):
                return None
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

    def _directories(self) -> tuple[str, str]:
        return self._paths.owners, self._paths.offsets

    def _guarded(self) -> TransactionRequest:
        change = self._client.transaction()
        change.check(self._paths.id_of(self._consumer_id), -1)
        return change

    def _children(self, path: str) -> list[str]:
        try:
            return list(self._answer(self._client.get_children_async(path)))
        except NoNodeError:
            return []

    def _ensure(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self._parents:
                self._answer(self._client.ensure_path_async(path))
                self._parents.add(path)

    def _answer(self, result: Any) -> Any:
        """Wait for one answer, at most a session; only NoNode, NodeExists and BadVersion pass through."""
        if not self._client.connected and not result.ready():
            raise Transient("ZooKeeper is not connected")
        try:
            return result.get(timeout=self.session_s)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise Transient(f"ZooKeeper did not answer: {error!r}") from error


def _failures(results: Sequence[Any]) -> list[Exception]:
    """The errors of a transaction, the one that caused it first."""
    errors = [each for each in results if isinstance(each, Exception)]
    return sorted(errors, key=lambda each: type(each).__name__ in {"RolledBackError", "RuntimeInconsistency"})


def _batches(partitions: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    every = list(partitions)
    return [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]
