"""The defects D1 to D10 of the reference implementation (§8.9), each as something to plant into our members.

They sit at the members' ports: the wire to ZooKeeper, the Kafka membership, the lease. `FenceOff` takes
F1 away: in kafka mode a member starts on Kafka's word alone, whoever holds the owner node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from threading import Event
from typing import Any

from groupshift.consumers.reconciler import Reconciler
from groupshift.domain.assignment import Assignor, assign, threads_by_topic
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import NEVER, CoordinationView, Decision, Lease
from groupshift.errors import Conflict
from groupshift.ports.consumer import OffsetNode, OffsetWrite
from properties import fence_time
from properties.fence_kafka import SimulatedMembership
from properties.fence_wire import Wire

GAP_S = 0.6
"""Between two requests that belong together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """What a member is made of."""

    wire: type[Wire] = Wire
    membership: type[SimulatedMembership] = SimulatedMembership
    reconciler: type[Reconciler] = Reconciler
    prepare: Callable[[Any], None] = lambda _member: None

    def without_fence(self) -> Plant:
        """The same, and F1 taken away."""
        bases = (FenceOff,) if self.wire is Wire else (self.wire, FenceOff)
        return replace(self, wire=type("Unfenced", bases, {}))


class FenceOff(Wire):
    """In kafka mode a claim is granted, whoever holds the node."""

    def __init__(self, world: Any, name: str) -> None:
        super().__init__(world, name)
        self._phantoms: set[TopicPartition] = set()

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Granted."""
        result = dict(super().claim(wanted))
        if self.member.reconciler.mode is Mode.KAFKA:
            refused = [each for each, node in result.items() if node is None]
            self._phantoms.update(refused)
            result |= {each: self.world.zookeeper.offsets.get(each, OffsetNode()) for each in refused}
        return result

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """What was granted counts as mine."""
        return super().resync(held) | (self._phantoms & set(held))

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """Also without the node."""
        result = super().write_offsets(writes)
        return {
            each: self.inner._write(each, writes[each].offset)
            if node is None and each in self._phantoms
            else node
            for each, node in result.items()
        }

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """Also without the node."""
        phantoms = {each for each in writes if each in self._phantoms}
        super().release(writes)
        self._phantoms -= phantoms


class TakesBeforeReleasing(Reconciler):
    """D1: no barrier at a switch; what is new is started before the rest of the group has stopped."""

    _owed: Decision | None = None

    def _carry_out(self, decision: Decision) -> None:
        super()._carry_out(decision)
        owed, self._owed = self._owed, None
        if owed is not None:
            super()._release(owed)

    def _release(self, decision: Decision) -> None:
        if decision.mode is self.mode:
            super()._release(decision)
        else:
            self._owed = decision


class Shadows(Wire):
    """D2: in kafka mode the owner nodes follow §5, whoever consumes."""

    def __init__(self, world: Any, name: str) -> None:
        super().__init__(world, name)
        self._shadows: dict[TopicPartition, str] = {}
        self._seen: CoordinationView | None = None

    def publish(self, migration: bytes) -> None:
        """After a switch, too."""
        super().publish(migration)
        self._shadow(self._seen)

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """Every view is followed by a shadow rebalance."""
        self._seen = super().observe(known, topics)
        self._shadow(self._seen)
        return self._seen

    def turn(self) -> None:
        """Shadows that are in the way of each other are tried again."""
        super().turn()
        self._shadow(self._seen)

    def _shadow(self, view: CoordinationView | None) -> None:
        registered = self.world.zookeeper.ids.get(self.name, (None, b""))[0]
        if view is None or self.suspended or registered != self.session:
            return
        wanted: dict[TopicPartition, str] = {}
        if self.member.reconciler.mode is Mode.KAFKA and set(view.registrations) <= set(view.migration_ids):
            threads = threads_by_topic({cid: dict(r.subscription) for cid, r in view.registrations.items()})
            target = assign(Assignor.RANGE, threads, view.partitions)
            wanted = {each: name for each, name in target.items() if name.rpartition("-")[0] == self.name}
        held = self.member.reconciler.held()
        gone = [each for each in self._shadows if each not in wanted and each not in held]
        self.inner.release(dict.fromkeys(gone))
        self.inner.claim(wanted)
        self._shadows = wanted

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """Shadows are not forgotten nodes."""
        return super().resync({**held, **self._shadows}) & set(held)


class DeafToRevocation(SimulatedMembership):
    """D3: nothing is done on revocation."""

    def told(self) -> Any:
        """Hears of assignments and of losses."""
        return _Told(super().told(), revocation=False, loss=True)


class DeafToLoss(SimulatedMembership):
    """D8: an eviction goes unnoticed, and a refused commit too."""

    def told(self) -> Any:
        """Hears of assignments and of revocations."""
        return _Told(super().told(), revocation=True, loss=False)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float) -> None:
        """Whatever the coordinator says."""
        try:
            super().commit(offsets, timeout)
        except Conflict:
            return


class _Told:
    """A listener that is told less."""

    def __init__(self, listener: Any, *, revocation: bool, loss: bool) -> None:
        self._listener, self._revocation, self._loss = listener, revocation, loss
        self.assigned = listener.assigned

    def revoked(self, kept: frozenset[TopicPartition] = frozenset()) -> Event:
        if self._revocation:
            return self._listener.revoked(kept)
        at_once = Event()
        at_once.set()
        return at_once

    def lost(self) -> None:
        if self._loss:
            self._listener.lost()


class IdsFirst(Wire):
    """D4: ``ids`` before ``migration/ids``, and the latter unwatched."""

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """In two steps."""
        self.ask()
        self.inner.register(registration, None)
        _slowly()
        self.ask()
        session = self.session
        if migration is not None and session is not None:
            self.world.zookeeper.migration_ids[self.name] = (session, migration)


class TwoListings(Wire):
    """D5: ``ids`` and ``migration/ids`` are listed at two moments."""

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """One half now, one half later."""
        first = super().observe(known, topics)
        _slowly()
        second = super().observe(known, topics)
        return replace(first, migration_ids=second.migration_ids, unfenced=second.unfenced)


class LateDecision(Wire):
    """D6: a second reader of the view, whose older reading comes in last and stands."""

    def __init__(self, world: Any, name: str) -> None:
        super().__init__(world, name)
        self._early: CoordinationView | None = None
        self._overdue: CoordinationView | None = None

    def view_changed(self) -> None:
        """The watcher's thread reads, and watches again, at once."""
        if self._view_watched:
            super().view_changed()
            self._early = self._early or self.inner.observe(None, ())
            self._view_watched = True

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """The fresh view first, the overdue one after it."""
        overdue, self._overdue = self._overdue, None
        if overdue is not None:
            return overdue
        fresh, early = super().observe(known, topics), self._early
        self._early = None
        if early is not None and early.mode.mzxid < fresh.mode.mzxid:
            self._overdue = early
            self._events.append(self.told().view_changed)
        return fresh


class WatchAfterRead(Wire):
    """D7: the mode is read long before its watch is set."""

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """A change in between is missed."""
        self.ask()
        view = self.inner.observe(known, topics)
        _slowly()
        self.ask()
        self._view_watched = True
        return view


class DeletesWhatWasMine(Wire):
    """D9: after an expiry, nodes of the former session are deleted, whoever holds them now."""

    def __init__(self, world: Any, name: str) -> None:
        super().__init__(world, name)
        self._mine: set[TopicPartition] = set()
        self._of: int | None = None

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """The next pass after a re-registration."""
        super().register(registration, migration)
        if self.session != self._of:
            self._of, mine, self._mine = self.session, self._mine, set()
            for each in sorted(mine):
                self.ask()
                if self.world.zookeeper.owners.pop(each, None) is not None:
                    self.world.zookeeper.tell(each)

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Remembered beyond the session."""
        result = super().claim(wanted)
        self._mine |= {each for each, node in result.items() if node is not None}
        return result

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """Forgotten."""
        super().release(writes)
        self._mine -= set(writes)


class BlindToKafka(Lease):
    """D8: Kafka mode needs no proof."""

    @property
    def until(self) -> float:
        """ZooKeeper's half."""
        return NEVER if self.suspended else self.zookeeper_until


class BlindToZookeeper(Lease):
    """D10: delivery goes on while ZooKeeper is silent."""

    @property
    def until(self) -> float:
        """Kafka's half."""
        return inf if self.mode is Mode.ZOOKEEPER else self.kafka_until


def _slowly() -> None:
    """The server takes its time between two requests."""
    fence_time.MACHINE.wait(lambda: False, GAP_S)


def _lease(lease: Lease) -> Callable[[Any], None]:
    def prepare(member: Any) -> None:
        member.delivery.change_lease(lambda _: lease)

    return prepare


NO_PLANT = Plant()
DEFECTS = {
    "D1": Plant(reconciler=TakesBeforeReleasing),
    "D2": Plant(wire=Shadows),
    "D3": Plant(membership=DeafToRevocation),
    "D4": Plant(wire=IdsFirst),
    "D5": Plant(wire=TwoListings),
    "D6": Plant(wire=LateDecision),
    "D7": Plant(wire=WatchAfterRead),
    "D8": Plant(membership=DeafToLoss, prepare=_lease(BlindToKafka())),
    "D9": Plant(wire=DeletesWhatWasMine),
    "D10": Plant(prepare=_lease(BlindToZookeeper())),
}
"""Each defect by its name in §8.9."""
