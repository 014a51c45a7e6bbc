"""`groupshift.ports.consumer.Coordination` in memory: one server, many members.

Deterministic: everything happens in the caller's thread and watches fire at once. Sessions end only
when `MemoryZookeeper.expire` is called; `suspend` makes a member's link silent before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from groupshift.domain.modes import ABSENT_MODE, Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView
from groupshift.domain.registration import parse_awareness, parse_registration
from groupshift.errors import Conflict, Transient
from groupshift.ports.consumer import CoordinationListener, OffsetNode, OffsetWrite, SessionState


@dataclass(slots=True)
class MemoryZookeeper:
    """The nodes of one group. ``owners`` is partition → (thread id, session)."""

    partitions: Mapping[str, tuple[int, ...]]
    mode: ModeNode = ABSENT_MODE
    ids: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    migration_ids: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    owners: dict[TopicPartition, tuple[str, int]] = field(default_factory=dict)
    offsets: dict[TopicPartition, OffsetNode] = field(default_factory=dict)
    links: list[MemoryCoordination] = field(default_factory=list)
    zxid: int = 0

    def tick(self) -> int:
        """The next transaction id."""
        self.zxid += 1
        return self.zxid

    def toggle(self, mode: Mode) -> None:
        """Write the mode node, as a tool does."""
        zxid = self.tick()
        created = zxid if self.mode.data is None else self.mode.czxid
        version = self.mode.version + 1
        self.mode = ModeNode(data=mode.value.encode(), version=version, czxid=created, mzxid=zxid)
        self.tell()

    def tell(self, partition: TopicPartition | None = None) -> None:
        """Fire the watches on the view, or on one owner node."""
        for link in self.links:
            link.hear(partition)

    def expire(self, session: int) -> None:
        """Remove everything a session made."""
        self.tick()
        for directory in (self.ids, self.migration_ids):
            for name in [name for name, (owner, _) in directory.items() if owner == session]:
                del directory[name]
        for partition in [each for each, (_, owner) in self.owners.items() if owner == session]:
            del self.owners[partition]
            self.tell(partition)
        self.tell()


class MemoryCoordination:
    """One member's link. `suspend` and `reconnect` play the network."""

    def __init__(self, server: MemoryZookeeper, consumer_id: str) -> None:
        self._server, self._consumer_id = server, consumer_id
        self._listener: CoordinationListener | None = None
        self._session: int | None = None
        self._silent = True
        server.links.append(self)

    @property
    def session_s(self) -> float:
        """Long: a test ends sessions itself."""
        return 3600.0

    def start(self, listener: CoordinationListener, timeout: float) -> None:  # noqa: ARG002 (answers at once)
        """Open the first session."""
        self._listener = listener
        self._session, self._silent = self._server.tick(), False

    def session_id(self) -> int | None:
        """None while silent."""
        return None if self._silent else self._session

    def hear(self, partition: TopicPartition | None) -> None:
        """A watch of this member fires, unless the link is silent (watches are set anew afterwards)."""
        if self._listener is None or self._silent:
            return
        if partition is None:
            self._listener.view_changed()
        else:
            self._listener.owner_changed(partition)

    def suspend(self) -> None:
        """The link goes silent."""
        self._silent = True
        if self._listener is not None:
            self._listener.session_changed(SessionState.SUSPENDED)

    def reconnect(self, *, expired: bool) -> None:
        """Come back, with the same session or (the server having expired it) a new one."""
        if expired and self._session is not None:
            self._server.expire(self._session)
            self._session = self._server.tick()
        self._silent = False
        if self._listener is not None:
            self._listener.session_changed(SessionState.CONNECTED)

    def prove(self, answered: Callable[[float], None]) -> None:
        """Answers at once."""
        if self._server.ids.get(self._consumer_id, (None, b""))[0] == self.session_id():
            answered(time.monotonic())

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """Both or none."""
        session = self._live()
        if self._server.ids.get(self._consumer_id, (session, b""))[0] != session:
            raise Conflict(f"{self._consumer_id} is registered by another session")
        self._server.ids[self._consumer_id] = (session, registration)
        if migration is not None:
            self._server.migration_ids[self._consumer_id] = (session, migration)
        self._server.tick()
        self._server.tell()

    def publish(self, migration: bytes) -> None:
        """Nobody watches the payload."""
        self._guard()
        self._server.migration_ids[self._consumer_id] = (self._live(), migration)

    def unregister(self) -> None:
        """Both at once."""
        self._live()
        self._server.ids.pop(self._consumer_id, None)
        self._server.migration_ids.pop(self._consumer_id, None)
        self._server.tick()
        self._server.tell()

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:  # noqa: ARG002
        """Everything, at one moment."""
        self._live()
        unfenced = {
            name
            for name, (_, data) in self._server.migration_ids.items()
            if parse_awareness(data).fence is None
        }
        return CoordinationView(
            mode=self._server.mode,
            ids_pzxid=self._server.zxid,
            migration_pzxid=self._server.zxid,
            migration_ids=tuple(sorted(self._server.migration_ids)),
            registrations={name: parse_registration(data) for name, (_, data) in self._server.ids.items()},
            unfenced=frozenset(unfenced),
            partitions=self._server.partitions,
        )

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """First come, first served."""
        session = self._guard()
        result: dict[TopicPartition, OffsetNode | None] = {}
        for each, thread in wanted.items():
            holder = self._server.owners.setdefault(each, (thread, session))
            result[each] = self._server.offsets.get(each, OffsetNode()) if holder[1] == session else None
        return result

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """Commit, then delete what is mine."""
        session = self._guard()
        for each, write in writes.items():
            if self._server.owners.get(each, ("", -1))[1] != session:
                continue
            if write is not None:
                self._write(each, write.offset)
            del self._server.owners[each]
            self._server.tell(each)

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """Mine only; a foreign version is adopted."""
        session = self._guard()
        mine = {each for each in writes if self._server.owners.get(each, ("", -1))[1] == session}
        return {
            each: self._write(each, write.offset) if each in mine else None for each, write in writes.items()
        }

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetNode]:
        """Read."""
        return {each: self._server.offsets.get(each, OffsetNode()) for each in partitions}

    def leave_offsets(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        """Only where nobody wrote since."""
        self._live()
        for each, write in writes.items():
            if self._server.offsets.get(each, OffsetNode()).version == write.version:
                self._write(each, write.offset)

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """Delete what was forgotten."""
        session = self._guard()
        mine = {each for each, (_, owner) in self._server.owners.items() if owner == session}
        self.release(dict.fromkeys(mine - set(held)))
        return frozenset(mine & set(held))

    def unowned(self, partitions: Sequence[TopicPartition]) -> frozenset[TopicPartition]:
        """Nobody's."""
        self._live()
        return frozenset(each for each in partitions if each not in self._server.owners)

    def wake(self) -> None:
        """Fire the watches."""
        self._guard()
        self._server.tick()
        self._server.tell()

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._server.expire(self._session)
        self._server.links.remove(self)
        self._session, self._silent = None, True

    def _live(self) -> int:
        session = self.session_id()
        if session is None:
            raise Transient("the link is silent")
        return session

    def _guard(self) -> int:
        """Every change is bound to the registration made in this very session."""
        session = self._live()
        if self._server.ids.get(self._consumer_id, (None, b""))[0] != session:
            raise Transient("not registered in this session")
        return session

    def _write(self, partition: TopicPartition, offset: int) -> OffsetNode:
        version = self._server.offsets.get(partition, OffsetNode()).version + 1
        self._server.offsets[partition] = OffsetNode(value=offset, version=version)
        return self._server.offsets[partition]
