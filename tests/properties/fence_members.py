"""The two kinds of member: ours, which is the real code, and a model of the old consumer (§4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groupshift.consumers.delivery import Delivery
from groupshift.consumers.group_state import Parts, Policy
from groupshift.consumers.reconciler import Reconciler
from groupshift.domain.assignment import Assignor, assign, threads_by_topic
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import Registration, encode_registration, parse_registration
from groupshift.ports.consumer import OffsetNode, Reset
from groupshift_testing.membership import MemoryFetch
from properties import fence_time
from properties.fence_kafka import SimulatedMembership
from properties.fence_time import LONG, SimulatedThread
from properties.fence_wire import Wire

COMMIT_EVERY_S = 2.0
DRAIN_S = 0.5
WAKE_EVERY_S = 5.0
TRIES = 4
BACKOFF_S = 2.0


class CountedDelivery(Delivery):
    """Counts the intervals: how often delivery of a partition was begun."""

    def __init__(self) -> None:
        super().__init__(store_on_delivery=True)
        self.intervals: dict[TopicPartition, int] = {}

    def open(self, starts: Mapping[TopicPartition, tuple[int, int]]) -> Any:
        """A interval begins."""
        for each in starts:
            self.intervals[each] = self.intervals.get(each, 0) + 1
        return super().open(starts)


class Process:
    """What both kinds have in common: a process that can be stalled or killed."""

    def __init__(self, world: Any, name: str) -> None:
        self.world, self.name = world, name
        self.threads: list[SimulatedThread] = []
        self.alive, self.stalled, self.leaving = True, False, False

    @property
    def running(self) -> bool:
        """Whether its threads can run."""
        return self.alive and not self.stalled

    def crash(self) -> None:
        """Kill -9."""
        self.alive = False
        for thread in self.threads:
            thread.kill()

    def run(self, calls: int) -> None:
        """Let its coordinating threads make up to ``calls`` calls."""
        for thread in self.threads if self.running else ():
            spent = fence_time.MACHINE.run(thread, calls)
            if spent and calls >= LONG:
                self.world.judge.broken(self.world.spin, f"{self.name} makes {calls} calls without waiting")
        if self.leaving and all(thread.finished for thread in self.threads):
            self.alive = False


class AwareMember(Process):
    """A member of ours: the real reconciler, holdings and delivery over simulated links."""

    def __init__(self, world: Any, name: str, streams: int) -> None:
        super().__init__(world, name)
        plant = world.plant
        self.delivery = CountedDelivery()
        self.wire: Wire = plant.wire(world, name)
        self.membership: SimulatedMembership = plant.membership(world.coordinator, name)
        self.fetch = MemoryFetch(world.ends)
        self._hand: tuple[list[Any], Mapping[TopicPartition, int]] = ([], {})
        self.reconciler: Reconciler = plant.reconciler(
            Member(consumer_id=name, subscription={"t": streams}, aware=True),
            Parts(
                coordination=self.wire,
                membership=self.membership,
                fetch=self.fetch,
                delivery=self.delivery,
            ),
            Policy(
                reset=Reset.EARLIEST,
                auto_commit=True,
                commit_every_s=COMMIT_EVERY_S,
                drain_s=DRAIN_S,
                wake_every_s=WAKE_EVERY_S,
            ),
        )
        self.wire.member = self
        plant.prepare(self)
        before = len(fence_time.MACHINE.threads)
        self.wire.start(self.reconciler, 1.0)
        self.reconciler.start()
        self.threads = fence_time.MACHINE.threads[before:]

    @property
    def linked(self) -> bool:
        """Whether the server hears its session."""
        return self.running and self.wire.up and not self.wire.suspended

    def turn(self, calls: int = LONG) -> None:
        """One turn of every thread; of the coordinating one, up to ``calls`` calls."""
        if self.running:
            self.wire.turn()
            self.membership.turn()
            self.run(calls)
            self.pump()
            self.read()

    def pump(self) -> None:
        """The fetching thread hands on what it has in hand, then fetches: much may happen in between."""
        if self.running:
            self.delivery.offer(*self._hand)
            records = self.fetch.poll(4, 0)
            self._hand = (records, self.fetch.ends())

    def read(self) -> None:
        """The application asks for records."""
        if not self.running or self.delivery.closed:
            return
        for record in self.delivery.take(None, 5, 0):
            where = TopicPartition(str(record.topic()), int(record.partition() or 0))
            self.world.judge.deliver(self, self.delivery.intervals[where], where, int(record.offset() or 0))

    def may_deliver(self) -> Iterable[TopicPartition]:
        """Open partitions, while the lease holds."""
        if not self.running or not self.delivery.lease.holds(fence_time.MACHINE.now):
            return ()
        return self.delivery.next_offsets()

    def leave(self) -> None:
        """Close; the threads end in their own time."""
        self.leaving = True
        self.delivery.done()
        self.reconciler.close(0)

    def crash(self) -> None:
        """Its links go with it."""
        super().crash()
        self.wire.heal()
        if self.wire.inner in self.world.zookeeper.links:
            self.world.zookeeper.links.remove(self.wire.inner)


class OldMember(Process):
    """An old consumer as §4 has it: no fence of its own, four tries, the owner nodes as the only lock."""

    def __init__(self, world: Any, name: str, streams: int) -> None:
        super().__init__(world, name)
        self._registration = Registration(subscription=(("t", streams),))
        self._fetching: dict[TopicPartition, int] = {}
        self._registry: dict[TopicPartition, str] = {}
        self._tenure: dict[TopicPartition, int] = {}
        self._seen: Any = None
        self._due = fence_time.MACHINE.now + COMMIT_EVERY_S
        self.cut = self.triggered = self.renewed = self.exhausted = self.late = self._fired = False
        self.session: int | None = world.zookeeper.tick()
        world.opened(self.session)
        world.zookeeper.links.append(self)
        thread = SimulatedThread(target=self._live, name=name)
        thread.start()
        self.threads = [thread]

    @property
    def linked(self) -> bool:
        """Whether the server hears its session."""
        return self.running and not self.cut

    # -- its threads -----------------------------------------------------------------------------

    def hear(self, partition: TopicPartition | None) -> None:
        """Children of ``ids``; nothing watches owners (§4.2)."""
        listing = {name: session for name, (session, _) in self.world.zookeeper.ids.items()}
        if partition is None and listing != self._seen:
            self._seen, self._fired = listing, True

    def fire(self) -> None:
        """The listing has changed, perhaps there and back."""
        self._fired = True

    def hear_of_it(self) -> None:
        """ZkClient's thread."""
        if self._fired and not self.late and not self.cut:
            self._fired, self.triggered = False, True

    def turn(self, calls: int = LONG) -> None:
        """One turn of every thread; of the coordinating one, up to ``calls`` calls."""
        if not self.running:
            return
        self.hear_of_it()
        if not self.cut and self.session not in self.world.sessions and not self.leaving:
            self.session, self.renewed = self.world.zookeeper.tick(), True
            self._registry.clear()  # on ZkClient's thread, before an attempt that waits for a session goes on
            self.world.opened(self.session)
        self.run(calls)
        if fence_time.MACHINE.now >= self._due and not self.cut:
            self._due = fence_time.MACHINE.now + COMMIT_EVERY_S
            self._commit(dict(self._fetching))
        self.read()

    def pump(self) -> None:
        """Fetched records are read at once."""

    def read(self) -> None:
        """The application asks for a record of each partition."""
        for each in sorted(self._fetching) if self.running else ():
            at = self._fetching[each]
            if at < self.world.ends[each]:
                self._fetching[each] = at + 1
                if each in self.may_deliver():
                    self.world.judge.deliver(self, self._tenure[each], each, at)
                else:
                    self.world.judge.deliver_by_flaw(each, at)

    def may_deliver(self) -> Iterable[TopicPartition]:
        """What it fetches while its owner node stands; the rest is a flaw (§4.5)."""
        owners = self.world.zookeeper.owners
        mine = {each for each, (_, session) in owners.items() if session == self.session}
        return mine & set(self._fetching) if self.running else ()

    def leave(self) -> None:
        """§4.7."""
        self.leaving = True

    def crash(self) -> None:
        """Its links go with it."""
        super().crash()
        if self in self.world.zookeeper.links:
            self.world.zookeeper.links.remove(self)

    def _live(self) -> None:
        self._register()
        self._rebalance()
        while not self.leaving:
            fence_time.MACHINE.wait(lambda: self.triggered or self.renewed or self.leaving, None)
            if self.renewed:
                self.renewed = False
                self._register()
                self._rebalance()
            elif self.triggered:
                self.triggered = False
                self._rebalance()
        self._shut_down()

    def _ask(self) -> None:
        """ZkClient waits for a connection for ever."""
        fence_time.MACHINE.point()
        fence_time.MACHINE.wait(lambda: not self.cut and self.session in self.world.sessions, None)

    def _register(self) -> None:
        self._ask()
        self.world.judge.old_member_registered()
        self.world.zookeeper.ids[self.name] = (self.session, encode_registration(self._registration))
        self.world.zookeeper.tick()
        self.world.zookeeper.tell()

    def _rebalance(self) -> None:
        """§4.3."""
        for _ in range(TRIES):
            if self.leaving:
                return
            if self._attempt():
                self.exhausted = False
                return
            self._stop()
            fence_time.MACHINE.wait(lambda: self.leaving, BACKOFF_S)
        self.exhausted = True
        self.world.judge.flaws["old member out of tries"] += 1

    def _attempt(self) -> bool:
        """§4.4."""
        zookeeper = self.world.zookeeper
        self._ask()
        if self.name not in zookeeper.ids:
            return False
        self._stop()
        self._free(self._registry)
        self._registry = {}
        self._ask()
        members = {name: parse_registration(data) for name, (_, data) in zookeeper.ids.items()}
        threads = threads_by_topic({name: dict(each.subscription) for name, each in members.items()})
        target = assign(Assignor.RANGE, threads, zookeeper.partitions)
        mine = {each: thread for each, thread in target.items() if thread.rpartition("-")[0] == self.name}
        self._ask()
        starts = {each: zookeeper.offsets.get(each, OffsetNode()).value or 0 for each in mine}
        if self.name not in members or not self._claim(mine):
            return False
        self._registry, self._fetching = mine, starts
        self._tenure = {each: self._tenure.get(each, 0) + 1 for each in {*self._tenure, *starts}}
        return True

    def _stop(self) -> None:
        """Stop fetching, then commit what this member takes for its own."""
        positions, self._fetching = self._fetching, {}
        self._ask()
        self._commit(positions)

    def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Unconditional (§6.2)."""
        for each, at in positions.items():
            version = self.world.zookeeper.offsets.get(each, OffsetNode()).version + 1
            self.world.zookeeper.offsets[each] = OffsetNode(value=at, version=version)
            self.world.judge.committed(each, at)

    def _free(self, partitions: Iterable[TopicPartition]) -> None:
        """Unconditional: it may be another's node by now (D9)."""
        for each in sorted(partitions):
            self._ask()
            _, session = self.world.zookeeper.owners.pop(each, ("", self.session))
            if session != self.session:
                self.world.judge.flaws["old member deletes another's node"] += 1
                self.world.rob(each, session)
            self.world.zookeeper.tell(each)

    def _claim(self, wanted: Mapping[TopicPartition, str]) -> bool:
        created = []
        for each, thread in sorted(wanted.items()):
            self._ask()
            holder, _ = self.world.zookeeper.owners.setdefault(each, (thread, self.session))
            if holder == thread:
                created.append(each)
        if len(created) < len(wanted):
            self._free(created)
        return len(created) == len(wanted)

    def _shut_down(self) -> None:
        self._stop()
        self.world.end_session(self.session)
        if self in self.world.zookeeper.links:
            self.world.zookeeper.links.remove(self)
