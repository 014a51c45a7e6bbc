"""The coordinator of a classic Kafka group, with generations, session timeouts and eager rebalances.

More faithful than `groupshift_testing.membership`: members talk to it over links that fail, learn
of a rebalance by their heartbeats, and are evicted when they are silent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from groupshift.domain.assignment import range_assignment
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, Transient
from groupshift.ports.consumer import MembershipListener
from properties import fence_time

SESSION_S = 10.0
REVOKE_S = 5.0
REBALANCE_S = 30.0


@dataclass(slots=True)
class Seat:
    """A member as the coordinator knows it."""

    heard: float
    generation: int = -1
    joined: bool = False
    share: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True)
class Coordinator:
    """The server: who sits where in which generation, and the committed ``offsets``."""

    partitions: Mapping[str, tuple[int, ...]]
    judge: Any
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    seats: dict[str, Seat] = field(default_factory=dict)
    generation: int = 0
    rebalancing_since: float | None = None

    def rebalance(self) -> None:
        """Everyone has to join anew."""
        if self.rebalancing_since is None:
            self.rebalancing_since = fence_time.MACHINE.now
            for seat in self.seats.values():
                seat.joined = False

    def join(self, client: str) -> None:
        """A member asks for a place in the next generation."""
        self.rebalance()
        self.seats[client] = Seat(heard=fence_time.MACHINE.now, joined=True)

    def leave(self, client: str) -> None:
        """A member goes."""
        if self.seats.pop(client, None) is not None:
            self.rebalance()

    def hear(self, client: str, generation: int) -> Seat | None:
        """A heartbeat or a commit of a known member of this generation; else None."""
        seat = self.seats.get(client)
        if seat is None or seat.generation != generation:
            return None
        seat.heard = fence_time.MACHINE.now
        return seat

    def tick(self) -> None:
        """Evict who is silent; end a rebalance once everyone is back, or too late."""
        now, began = fence_time.MACHINE.now, self.rebalancing_since
        for client, seat in list(self.seats.items()):
            awaiting = seat.joined and began is not None
            late = began is not None and not seat.joined and now - began >= REBALANCE_S
            if late or (not awaiting and now - seat.heard >= SESSION_S):
                self.leave(client)
        if self.rebalancing_since is not None and all(seat.joined for seat in self.seats.values()):
            self._complete()

    def _complete(self) -> None:
        self.rebalancing_since = None
        self.generation += 1
        threads = dict.fromkeys(self.partitions, tuple(f"{client}-0" for client in sorted(self.seats)))
        shares: dict[str, set[TopicPartition]] = {client: set() for client in self.seats}
        for partition, thread in range_assignment(threads, self.partitions).items():
            shares[thread.rpartition("-")[0]].add(partition)
        for client, seat in self.seats.items():
            seat.generation, seat.share = self.generation, frozenset(shares[client])
            seat.heard = fence_time.MACHINE.now

    def commit(self, client: str, generation: int, offsets: Mapping[TopicPartition, int]) -> None:
        """By any member of the generation, of any partition, as brokers do (§8.8)."""
        if self.hear(client, generation) is None:
            raise Conflict(f"{client} is not a member of generation {self.generation}")
        self.offsets.update(offsets)
        for each, at in offsets.items():
            self.judge.committed(each, at)


class State(Enum):
    """Of a membership."""

    OUT = auto()
    JOINING = auto()
    MEMBER = auto()
    LETTING_GO = auto()
    CLOSED = auto()


class SimulatedMembership:
    """`groupshift.ports.consumer.Membership`; its thread is `turn`. ``up`` is its link."""

    def __init__(self, coordinator: Coordinator, client: str) -> None:
        self._coordinator, self._client = coordinator, client
        self._listener: MembershipListener | None = None
        self._state, self._asked = State.OUT, False
        self._generation, self._heard = -1, 0.0
        self._released: Any = None
        self._deadline = 0.0
        self.up = True

    @property
    def session_s(self) -> float:
        """Seconds."""
        return SESSION_S

    def start(self, listener: MembershipListener) -> None:
        """Join with the next turns."""
        self._listener, self._state = listener, State.JOINING

    def subscribe(self, topics: Collection[str]) -> None:
        """Every member consumes everything."""

    # -- its thread ------------------------------------------------------------------------------

    def turn(self) -> None:
        """What the thread finds to do now."""
        if self._state in {State.OUT, State.CLOSED}:
            return
        if not self.up:
            self._be_silent()
        elif self._state is State.JOINING:
            self._join()
        else:
            self._heartbeat()
        if self._state is State.LETTING_GO:
            self._let_go()

    def _be_silent(self) -> None:
        if self._state is not State.JOINING and fence_time.MACHINE.now - self._heard >= SESSION_S:
            self._lose()

    def _join(self) -> None:
        seat = self._coordinator.seats.get(self._client) if self._asked else None
        if seat is None or (seat.generation < 0 and not seat.joined):
            self._coordinator.join(self._client)
            self._asked = True
        elif seat.generation >= 0:
            self._state, self._asked, self._generation = State.MEMBER, False, seat.generation
            self._heard = fence_time.MACHINE.now
            self.told().assigned(seat.share)

    def _heartbeat(self) -> None:
        if self._coordinator.hear(self._client, self._generation) is None:
            self._lose()
            return
        self._heard = fence_time.MACHINE.now
        if self._coordinator.rebalancing_since is not None and self._state is State.MEMBER:
            self._state, self._deadline = State.LETTING_GO, fence_time.MACHINE.now + REVOKE_S
            self._released = self.told().revoked()

    def _let_go(self) -> None:
        if self._released.is_set():
            self._state = State.JOINING
        elif fence_time.MACHINE.now >= self._deadline:
            self._state = State.JOINING
            self.told().lost()

    def _lose(self) -> None:
        self._state = State.JOINING
        self.told().lost()

    def told(self) -> MembershipListener:
        """Whom to tell."""
        assert self._listener is not None
        return self._listener

    # -- the port --------------------------------------------------------------------------------

    def joined(self, timeout: float) -> bool:
        """Wait for a generation."""
        members = {State.MEMBER, State.LETTING_GO}
        return fence_time.MACHINE.wait(lambda: self._state in members, timeout)

    def _ask(self, timeout: float) -> None:
        fence_time.MACHINE.point()
        if not fence_time.MACHINE.wait(lambda: self.up, timeout):
            raise Transient("the coordinator does not answer")

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float) -> None:
        """Under the generation."""
        if not offsets:
            return
        self._ask(timeout)
        if self._state not in {State.MEMBER, State.LETTING_GO}:
            raise Transient("the Kafka group is rebalancing")
        self._coordinator.commit(self._client, self._generation, offsets)

    def commit_later(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Best effort."""
        member = self.up and self._state in {State.MEMBER, State.LETTING_GO}
        if offsets and member and self._coordinator.hear(self._client, self._generation) is not None:
            self._coordinator.commit(self._client, self._generation, offsets)

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, int | None]:
        """What is stored."""
        self._ask(timeout)
        return {each: self._coordinator.offsets.get(each) for each in partitions}

    def describe(self, timeout: float) -> KafkaGroup:
        """Who sits there; an answer without this member is none."""
        self._ask(timeout)
        if self._client not in self._coordinator.seats:
            raise Transient("listed without this member")
        stable = self._coordinator.rebalancing_since is None
        return KafkaGroup(
            state="Stable" if stable else "PreparingRebalance",
            members=tuple(
                KafkaMember(
                    member_id=f"{client}-uuid",
                    client_id=client,
                    host="127.0.0.1",
                    assigned=self._coordinator.seats[client].share if stable else frozenset(),
                )
                for client in sorted(self._coordinator.seats)
            ),
        )

    def close(self, timeout: float) -> None:  # noqa: ARG002 (it does not wait)
        """Leave, when there is a link; else the coordinator finds out."""
        self._state = State.CLOSED
        if self.up:
            self._coordinator.leave(self._client)
