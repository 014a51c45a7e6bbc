"""The ports of one group member: coordination in ZooKeeper, membership in Kafka, and the fetch of records.

`Coordination` has session, registration, owner nodes, offset nodes and watches; `Membership` has
assignment and commits under its generation; `Fetch` reads given partitions from given offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Event
from typing import Protocol

from groupshift.domain.group_protocol import KafkaGroup
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView


class SessionState(StrEnum):
    """What is known about the session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class CoordinationListener(Protocol):
    """Called on threads of the implementation; must return at once."""

    def session_changed(self, session: SessionState) -> None:
        """The link was made (perhaps with a new session), went silent, or the session is gone."""

    def view_changed(self) -> None:
        """Something that `Coordination.observe` read has changed, or a watch was lost."""

    def owner_changed(self, partition: TopicPartition) -> None:
        """The owner node of a partition that was claimed or met as taken has come or gone."""


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

    def start(self, listener: CoordinationListener, timeout: float) -> None:
        """Connect. Raises `Transient` naming the hosts when there is no answer in ``timeout`` seconds."""

    def session_id(self) -> int | None:
        """The session now, None without one."""

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """Create ``ids/<cid>`` and, with ``migration``, ``migration/ids/<cid>`` in one transaction (D4).

        Raises `Conflict` while another session holds one of them."""

    def publish(self, migration: bytes) -> None:
        """Replace the payload of the own migration id."""

    def unregister(self) -> None:
        """Delete both ids in one transaction."""

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """One consistent view (D5), with watches set by these very reads.

        ``known`` lets unchanged registrations be taken over; ``topics`` are always included."""

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Create owner nodes (partition → thread id); the offset node of those now held, None for
        those another session holds. A watch stands on each of them afterwards."""

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """Commit and delete owner nodes, together where ZooKeeper allows; only own nodes (D9)."""

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """Version-checked commit (O6): the node as written; None when the partition is no longer mine."""

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetNode]:
        """Read offset nodes; from any thread."""

    def leave_offsets(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        """Commit after a lost session where the offset node is still at its version (O9)."""

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """After an unknown outcome: which of ``held`` are really mine; own nodes not in ``held`` are
        deleted, and watches set again."""

    def unowned(self, partitions: Sequence[TopicPartition]) -> frozenset[TopicPartition]:
        """Those without an owner node now, of whatever session."""

    def wake(self) -> None:
        """Make every member rebalance without changing anything (F9): a registration of nobody, in both
        directories, that comes and goes in one transaction."""

    def prove(self, answered: Callable[[float], None]) -> None:
        """Ask for the own registration; ``answered(sent)`` is called when this session's node is
        there, with the monotonic time at which the question was sent."""

    def close(self) -> None:
        """End the session; idempotent."""


class MembershipListener(Protocol):
    """Called on the membership's own thread."""

    def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """A new generation; returns at once."""

    def revoked(self, kept: frozenset[TopicPartition] = frozenset()) -> Event:
        """All but ``kept`` (none, unless the assignor is a cooperative one) is to be given up. The
        generation ends when the event is set (D3), or after a bound; without ``kept``, delivery has
        stopped when this returns. Commits are still carried out until then."""

    def lost(self) -> None:
        """Membership is gone: delivery has stopped when this returns."""


class Membership(Protocol):
    """Takes part in the Kafka group without fetching."""

    @property
    def session_s(self) -> float:
        """The Kafka session timeout in seconds."""

    def start(self, listener: MembershipListener) -> None:
        """Begin; returns at once. The group is joined when there is something to `subscribe` to."""

    def subscribe(self, topics: Collection[str]) -> None:
        """Be a member with these topics (none: no member at all); returns at once. With the same topics
        again: ask the brokers anew for their partitions."""

    def joined(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a generation; True in one. Only there commits are possible."""

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float) -> None:
        """Commit under the present generation and wait: proof of membership.

        Raises `Conflict` when the group no longer knows this member and `Transient` when it does not
        answer within ``timeout`` seconds or is rebalancing."""

    def commit_later(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Best-effort commit, in order with the others; failures are retried by the next one."""

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, int | None]:
        """Committed offsets, None where there is none. Raises `Transient`."""

    def describe(self, timeout: float) -> KafkaGroup:
        """State, members and assignments of the group now (none while it is not stable). Raises `Transient`,
        also when the answer lacks this very member."""

    def close(self, timeout: float) -> None:
        """Leave the group; idempotent."""


class Record(Protocol):
    """What is handed to the application; `confluent_kafka.Message` is one."""

    def topic(self) -> str | None:
        """Topic, None for an error that concerns no partition."""

    def partition(self) -> int | None:
        """Partition number."""

    def offset(self) -> int | None:
        """Offset of this record."""


class Reset(StrEnum):
    """Where to start without a usable offset (``auto.offset.reset``)."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Fetch(Protocol):
    """The fetcher. `poll`, `ends` and `close` are called by one thread at a time; polling also carries out
    what the others ask for."""

    def add(self, positions: Mapping[TopicPartition, int], added: Callable[[], None]) -> None:
        """Fetch these partitions from these offsets, in place of former ones.

        ``added`` is called on the polling thread between two polls: what earlier polls returned for
        these partitions is void, what later ones return starts at the given offsets."""

    def remove(self, partitions: Collection[TopicPartition], removed: Callable[[], None]) -> None:
        """Stop fetching them; ``removed`` is called like ``added``: later polls return nothing of them."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Keep them, but fetch nothing until they are added again."""

    def poll(self, limit: int, timeout: float) -> list[Record]:
        """Up to ``limit`` records; waits up to ``timeout`` seconds for the first. With limit 0, only
        carries out what was asked for; with limit 0 and a timeout, only waits until something was, which
        any thread may do."""

    def ends(self) -> Mapping[TopicPartition, int]:
        """The positions after all that was polled: the next offset of each partition that has one."""

    def flawed(self, records: Sequence[Record]) -> bool:
        """Whether one of these is not a record but the report of an error."""

    def out_of_range(self, record: Record) -> TopicPartition | None:
        """The partition whose position the broker does not have, when ``record`` says so."""

    def offsets_at(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """Log start or log end; partitions that cannot be asked now are left out."""

    def end_of(self, partition: TopicPartition) -> int | None:
        """The log end last seen, without asking; None when never seen."""

    def close(self) -> None:
        """Release the client."""
