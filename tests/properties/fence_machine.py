"""The schedules: a Hypothesis state machine that may do to a group whatever its weather allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from groupshift.domain.modes import Mode
from properties.fence_judge import Invariant
from properties.fence_members import AwareMember, OldMember
from properties.fence_world import SLICE_S, World
from properties.plants import NO_PLANT, Plant

EVERYTHING = frozenset(
    {"toggle", "rebalance", "join", "leave", "old", "late", "patience"}
    | {"crash", "zookeeper", "kafka", "stall", "lose", "outage"}
)
CROWD = 5
HEARING, GROUP, CALLS, FETCH, READ = "hears", "turns", "calls", "fetches", "reads"
ANYONE = st.integers(0, CROWD - 1)
STEPS = st.lists(
    st.tuples(ANYONE, st.sampled_from((CALLS, CALLS, CALLS, HEARING, GROUP, FETCH, READ)), st.integers(1, 4)),
    min_size=1,
    max_size=8,
)
CALLED = st.sampled_from((0, 0, 1, 2, 3, 4, 5, 6))
SLICES = st.sampled_from((0, 1, 2, 4, 10, 10))
LIMITS = st.dictionaries(ANYONE, st.integers(0, 6), max_size=2)
SHORT, LONG = (0.25, 0.5, 1.0), (0.25, 1.0, 3.0, 5.0, 8.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What may happen: ``allowed`` of `EVERYTHING`, in a group that begins in ``mode``. ``bound_s`` is
    the time in which it must be whole again."""

    allowed: frozenset[str] = EVERYTHING
    mode: Mode | None = None
    bound_s: float = 60.0
    plant: Plant = NO_PLANT
    judged: frozenset[Invariant] = frozenset(Invariant)


def allows(*names: str) -> Any:
    """A rule for a weather that has one of these."""
    return precondition(lambda self: not self.weather.allowed.isdisjoint(names))


class Fence(RuleBasedStateMachine):
    """Three members of ours at the start; every rule ends with a look at who delivers what."""

    weather = Weather()

    @initialize(mode=st.sampled_from(Mode))
    def start(self, mode):
        """A group that consumes."""
        self.world = World(self.weather.plant, self.weather.judged)
        for _ in range(3):
            self.world.join()
        self.world.toggle(self.weather.mode or mode)
        self.world.elapse(2.0)

    def _member(self, who) -> Any:
        members = self.world.members
        return members[who % len(members)] if members else None

    # -- time ------------------------------------------------------------------------------------

    @rule(steps=STEPS)
    def steps(self, steps):
        """Single threads of single members make a few calls, in this order."""
        for who, what, calls in steps:
            member = self._member(who)
            if member is None or not member.running:
                continue
            if what == CALLS:
                member.run(calls)
            elif what == READ:
                member.read()
            elif isinstance(member, OldMember):
                member.hear_of_it()
            else:
                {HEARING: member.wire.turn, GROUP: member.membership.turn, FETCH: member.pump}[what]()
            self.world.look()

    @rule(seconds=st.sampled_from(SHORT), calls=LIMITS)
    def pass_time(self, seconds, calls):
        """Everyone has turns, but some do not get far."""
        self._elapse(seconds, calls)

    @allows("patience")
    @rule(seconds=st.sampled_from(LONG), calls=LIMITS)
    def pass_much_time(self, seconds, calls):
        """Long enough for sessions to end."""
        self.world.judge.faults += bool(calls)
        self._elapse(seconds, calls)

    def _elapse(self, seconds, calls):
        named = {self._member(who).name: limit for who, limit in calls.items()} if self.world.members else {}
        self.world.elapse(seconds, named)

    # -- the group -------------------------------------------------------------------------------

    def _overtake(self, who, calls, slices):
        """The others go on, while one makes just a few calls."""
        if slices and (member := self._member(who)) is not None:
            self.world.elapse(slices * SLICE_S, {member.name: calls})

    @allows("toggle")
    @rule(mode=st.sampled_from(Mode), who=ANYONE, calls=CALLED, slices=SLICES)
    def toggle(self, mode, who, calls, slices):
        """The tool; someone falls behind."""
        self.world.toggle(mode)
        self._overtake(who, calls, slices)

    @allows("rebalance")
    @rule(who=ANYONE, calls=CALLED, slices=SLICES)
    def rebalance(self, who, calls, slices):
        """The Kafka group begins a new generation; someone falls behind."""
        self.world.coordinator.rebalance()
        self._overtake(who, calls, slices)

    @allows("join")
    @rule(calls=CALLED, slices=SLICES)
    def join(self, calls, slices):
        """One more of ours, as far as it gets."""
        if len(self.world.members) < CROWD:
            self.world.join()
            self._overtake(len(self.world.members) - 1, calls, slices)

    @allows("old")
    @rule(who=ANYONE, calls=CALLED, slices=SLICES)
    def join_old(self, who, calls, slices):
        """An old member; someone falls behind."""
        if len(self.world.members) < CROWD:
            self.world.judge.faults += 1
            self.world.join(aware=False)
            self._overtake(who, calls, slices)

    @allows("leave")
    @rule(who=ANYONE, calls=CALLED, slices=SLICES)
    def leave(self, who, calls, slices):
        """In good order, as far as it gets."""
        if (member := self._member(who)) is not None and member.running and not member.leaving:
            member.leave()
            self._overtake(who, calls, slices)

    # -- faults ----------------------------------------------------------------------------------

    @allows("crash")
    @rule(who=ANYONE)
    def crash(self, who):
        """Kill -9."""
        if (member := self._member(who)) is not None:
            self.world.judge.faults += 1
            member.crash()
            self.world.look()

    @allows("stall")
    @rule(who=ANYONE)
    def stall(self, who):
        """SIGSTOP."""
        if (member := self._member(who)) is not None:
            self.world.judge.faults += 1
            member.stalled = True

    @allows("zookeeper")
    @rule(who=ANYONE)
    def cut_zookeeper(self, who):
        """No packet to ZooKeeper and back."""
        if (member := self._member(who)) is not None:
            self.world.judge.faults += 1
            if isinstance(member, AwareMember):
                member.wire.cut()
            else:
                member.cut = True

    @allows("kafka")
    @rule(who=ANYONE)
    def cut_kafka(self, who):
        """No packet to the group coordinator and back."""
        if isinstance(member := self._member(who), AwareMember):
            self.world.judge.faults += 1
            member.membership.up = False

    @allows("lose")
    @rule(who=ANYONE)
    def lose_reply(self, who):
        """The connection to ZooKeeper breaks right after the next change."""
        if isinstance(member := self._member(who), AwareMember):
            self.world.judge.faults += 1
            member.wire.lose = True

    @allows("late")
    @rule(who=ANYONE)
    def delay_watches(self, who):
        """Watches of one member come late, until it recovers."""
        if isinstance(member := self._member(who), AwareMember):
            member.wire.late = True

    @allows("outage")
    @rule(who=ANYONE, seconds=st.sampled_from((3.0, 5.0, 8.0)), other=ANYONE, calls=CALLED, slices=SLICES)
    def outage(self, who, seconds, other, calls, slices):
        """A link to ZooKeeper is silent for a while; when it is back, someone else falls behind."""
        self.cut_zookeeper(who)
        member = self._member(who)
        self.world.elapse(seconds)
        if member is not None:
            self.world.recover(member)
        self._overtake(other, calls, slices)

    @allows("stall", "zookeeper", "kafka", "late")
    @rule(who=ANYONE)
    def recover(self, who):
        """Whatever one member had, it is over."""
        if (member := self._member(who)) is not None:
            self.world.recover(member)

    def teardown(self):
        """The faults stop: the group must be whole again."""
        if hasattr(self, "world"):
            self.world.settle(self.weather.bound_s)
