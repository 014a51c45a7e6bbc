"""Membership and fetch of a member in memory: one classic group with eager rebalances.

Implements `groupshift.ports.consumer.Membership` and `groupshift.ports.consumer.Fetch`. A rebalance has two
steps, so that a test can do things in between: `MemoryKafkaGroup.revoke` starts it, `complete` ends it once
every member has let go. `MemoryFetch` reads logs that are only lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from threading import Event

from groupshift.domain.assignment import range_assignment
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict
from groupshift.ports.consumer import MembershipListener, Record, Reset


@dataclass(slots=True)
class MemoryKafkaGroup:
    """The coordinator: committed ``offsets``, ``members`` by client id, who still has to let go."""

    partitions: Mapping[str, tuple[int, ...]]
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    members: dict[str, MemoryMembership] = field(default_factory=dict)
    letting_go: list[Event] = field(default_factory=list)
    shares: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)

    def revoke(self) -> None:
        """Everyone has to give up everything."""
        self.letting_go += [member.revoke() for member in self.members.values()]

    def complete(self) -> bool:
        """Assign anew; False while someone has not let go."""
        if not all(event.is_set() for event in self.letting_go):
            return False
        self.letting_go.clear()
        streams = tuple(f"{client}-0" for client in sorted(self.members))
        threads = dict.fromkeys(self.partitions, streams)
        shares: dict[str, set[TopicPartition]] = {client: set() for client in self.members}
        for partition, thread in range_assignment(threads, self.partitions).items():
            shares[thread.rpartition("-")[0]].add(partition)
        self.shares = {client: frozenset(share) for client, share in shares.items()}
        for client, share in self.shares.items():
            self.members[client].assign(share)
        return True


class MemoryMembership:
    """One member of the group."""

    def __init__(self, group: MemoryKafkaGroup, client: str) -> None:
        self._group, self._client = group, client
        self._listener: MembershipListener | None = None

    @property
    def session_s(self) -> float:
        """Long: a test evicts members itself."""
        return 3600.0

    def start(self, listener: MembershipListener) -> None:
        """Join: a rebalance begins."""
        self._listener = listener
        self._group.members[self._client] = self
        self._group.revoke()

    def subscribe(self, topics: Collection[str]) -> None:
        """Everyone consumes everything."""

    def revoke(self) -> Event:
        """Ask the listener to let go."""
        return self._listener.revoked() if self._listener is not None else Event()

    def assign(self, partitions: frozenset[TopicPartition]) -> None:
        """Tell the listener its share."""
        if self._listener is not None:
            self._listener.assigned(partitions)

    def evict(self) -> None:
        """The coordinator forgets this member; it rejoins."""
        if self._listener is not None:
            self._listener.lost()
            self._group.revoke()

    def joined(self, timeout: float) -> bool:  # noqa: ARG002
        """While a member."""
        return self._client in self._group.members

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float) -> None:  # noqa: ARG002
        """Accepted from members, of any partition, as the broker does (zookeeper-coordination.md §8.8)."""
        if self._client not in self._group.members:
            raise Conflict(f"{self._client} is not a member")
        self._group.offsets.update(offsets)

    def commit_later(self, offsets: Mapping[TopicPartition, int]) -> None:
        """At once."""
        if self._client in self._group.members:
            self._group.offsets.update(offsets)

    def committed(
        self,
        partitions: Collection[TopicPartition],
        timeout: float,  # noqa: ARG002
    ) -> Mapping[TopicPartition, int | None]:
        """What is stored."""
        return {each: self._group.offsets.get(each) for each in partitions}

    def describe(self, timeout: float) -> KafkaGroup:  # noqa: ARG002
        """Stable unless somebody has to let go."""
        shares = self._group.shares
        return KafkaGroup(
            state="PreparingRebalance" if self._group.letting_go else "Stable",
            members=tuple(
                KafkaMember(
                    member_id=f"{client}-uuid",
                    client_id=client,
                    host="127.0.0.1",
                    assigned=frozenset(shares.get(client, ())),
                )
                for client in sorted(self._group.members)
            ),
        )

    def close(self, timeout: float) -> None:  # noqa: ARG002
        """Leave: a rebalance begins."""
        if self._group.members.pop(self._client, None) is not None:
            self._group.revoke()


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record is where it is."""

    where: TopicPartition
    at: int

    def topic(self) -> str:
        """Topic."""
        return self.where.topic

    def partition(self) -> int:
        """Partition number."""
        return self.where.partition

    def offset(self) -> int:
        """Offset."""
        return self.at


class MemoryFetch:
    """``ends`` is the log end of every partition; logs start at 0."""

    def __init__(self, ends: MutableMapping[TopicPartition, int]) -> None:
        self._ends = ends
        self._calls: list[Callable[[], None]] = []
        self._next: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()

    def add(self, positions: Mapping[TopicPartition, int], added: Callable[[], None]) -> None:
        """At the next poll."""

        def call() -> None:
            self._next.update(positions)
            self._paused.difference_update(positions)
            added()

        self._calls.append(call)

    def remove(self, partitions: Collection[TopicPartition], removed: Callable[[], None]) -> None:
        """At the next poll."""
        gone = list(partitions)

        def call() -> None:
            for each in gone:
                self._next.pop(each, None)
            removed()

        self._calls.append(call)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """At once."""
        self._paused.update(partitions)

    def poll(self, limit: int, timeout: float) -> list[Record]:  # noqa: ARG002 (never waits)
        """Up to ``limit`` records, partition by partition."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()
        records: list[Record] = []
        for each in sorted(set(self._next) - self._paused):
            while self._next[each] < self._ends.get(each, 0) and len(records) < limit:
                records.append(MemoryRecord(each, self._next[each]))
                self._next[each] += 1
        return records

    def ends(self) -> Mapping[TopicPartition, int]:
        """Next offsets."""
        return dict(self._next)

    def flawed(self, records: Sequence[Record]) -> bool:  # noqa: ARG002 (never)
        """Never."""
        return False

    def out_of_range(self, record: Record) -> TopicPartition | None:  # noqa: ARG002 (logs are never cut)
        """Never."""
        return None

    def offsets_at(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """Log start or end."""
        return {each: 0 if to is Reset.EARLIEST else self._ends.get(each, 0) for each in partitions}

    def end_of(self, partition: TopicPartition) -> int | None:
        """The end."""
        return self._ends.get(partition)

    def close(self) -> None:
        """Nothing is open."""
