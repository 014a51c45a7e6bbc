"""The ZooKeeper side of one group member: session, registration, owner nodes, offset nodes, watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView


class Session(StrEnum):
    """What is known about the session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class CoordinationListener(Protocol):
    """Called on threads of the implementation; must return at once."""

    def session_changed(self, session: Session) -> None:
        """The link was made (perhaps with a new session), went silent, or the session is gone."""
        ...

    def view_changed(self) -> None:
        """Something that `Coordination.observe` read has changed, or a watch was lost."""
        ...

    def owner_changed(self, partition: TopicPartition) -> None:
        """The owner node of a partition that was claimed or met as taken has come or gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetNode:
    """An offset znode: ``value`` None when absent or unreadable, ``version`` -1 when absent."""

    value: int | None = None
    version: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetWrite:
    """Write ``offset`` if the node is still at ``version`` (-1: still absent)."""

    offset: int
    version: int


class Coordination(Protocol):
    """One member's link to ZooKeeper. All calls but the listener's come from one thread.

    Every change is bound to the present registration: it fails when the session in which the member
    registered is gone. Methods raise `Transient` when ZooKeeper does not answer in time; the outcome
    of a change is then unknown until `resync`.
    """

    @property
    def session_s(self) -> float:
        """The negotiated session timeout in seconds."""
        ...

    def start(self, listener: CoordinationListener, timeout: float) -> None:
        """Connect. Raises `Transient` naming the hosts when there is no answer in ``timeout`` seconds."""
        ...

    def session_id(self) -> int | None:
        """The session now, None without one."""
        ...

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """Create ``ids/<cid>`` and, with ``migration``, ``migration/ids/<cid>`` in one transaction (D4).

        Raises `Conflict` while another session holds one of them."""
        ...

    def publish(self, migration: bytes) -> None:
        """Replace the payload of the own migration id."""
        ...

    def unregister(self) -> None:
        """Delete both ids in one transaction."""
        ...

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """One consistent view (D5), with watches set by these very reads.

        ``known`` lets unchanged registrations be taken over; ``topics`` are always included."""
        ...

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Create owner nodes (partition → thread id); the offset node of those now held, None for
        those another session holds. A watch stands on each of them afterwards."""
        ...

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """Commit and delete owner nodes, together where ZooKeeper allows; only own nodes (D9)."""
        ...

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """Version-checked commit (O6): the node as written; None when the partition is no longer mine."""
        ...

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetNode]:
        """Read offset nodes; from any thread."""
        ...

    def leave_offsets(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        """Commit after a lost session where the offset node is still at its version (O9)."""
        ...

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """After an unknown outcome: which of ``held`` are really mine; own nodes not in ``held`` are
        deleted, and watches set again."""
        ...

    def unowned(self, partitions: Sequence[TopicPartition]) -> frozenset[TopicPartition]:
        """Those without an owner node now, of whatever session."""
        ...

    def wake(self) -> None:
        """Make every member rebalance without changing anything (F9): a registration of nobody, in both
        directories, that comes and goes in one transaction."""
        ...

    def prove(self, answered: Callable[[float], None]) -> None:
        """Ask for the own registration; ``answered(sent)`` is called when this session's node is
        there, with the monotonic time at which the question was sent."""
        ...

    def close(self) -> None:
        """End the session; idempotent."""
        ...
