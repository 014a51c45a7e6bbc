"""One group in one simulated machine: servers, members, faults, and time that passes for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.domain.modes import Mode, effective_mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import parse_awareness
from groupshift_testing.coordination import MemoryZookeeper
from properties import fence_time
from properties.fence_judge import Invariant, Judge
from properties.fence_kafka import Coordinator
from properties.fence_members import AwareMember, OldMember
from properties.fence_time import LONG
from properties.fence_wire import SESSION_S
from properties.plants import NO_PLANT, Plant

PARTITIONS = {"t": tuple(range(7))}
SLICE_S = 0.25
CALM_S = 1.0


class World:
    """``judged`` are the invariants that stop a run; ``plant`` is the defect the members have."""

    spin = Invariant.NO_SPIN

    def __init__(self, plant: Plant = NO_PLANT, judged: frozenset[Invariant] = frozenset(Invariant)) -> None:
        self.machine = fence_time.new_machine()
        self.plant = plant
        self.judge = Judge(judged)
        self.zookeeper = MemoryZookeeper(partitions=PARTITIONS)
        self.coordinator = Coordinator(PARTITIONS, self.judge)
        self.ends = {TopicPartition("t", number): 2 for number in PARTITIONS["t"]}
        self.sessions: dict[int, float] = {}
        self.members: list[AwareMember | OldMember] = []
        self._olds: set[str] = set()
        self._joined = self._slices = 0

    # -- sessions --------------------------------------------------------------------------------

    def opened(self, session: int | None) -> None:
        """A session begins."""
        assert session is not None
        self.sessions[session] = self.machine.now

    def end_session(self, session: int | None) -> None:
        """It ends: by its client, or by its silence."""
        if session is not None and self.sessions.pop(session, None) is not None:
            self.zookeeper.expire(session)

    def rob(self, partition: TopicPartition, session: int) -> None:
        """An old member has deleted the node of this session."""
        for member in self.members:
            if self._session(member) == session:
                self.judge.robbed(partition, member.name)

    @staticmethod
    def _session(member: AwareMember | OldMember) -> int | None:
        return member.wire.session if isinstance(member, AwareMember) else member.session

    def _tick(self) -> None:
        """The servers' own timers."""
        now = self.machine.now
        for member in self.members:
            session = self._session(member)
            if member.linked and session in self.sessions:
                self.sessions[session] = now
        for session, heard in list(self.sessions.items()):
            if now - heard >= SESSION_S:
                self.end_session(session)
        self.coordinator.tick()

    # -- time ------------------------------------------------------------------------------------

    def elapse(self, seconds: float, calls: Mapping[str, int] | None = None) -> None:
        """Time passes and everyone gets turns; but members named in ``calls`` may make only so many calls
        in all: their links stay alive while they fall behind, perhaps in the middle of something."""
        limits = dict(calls or {})
        for _ in range(round(seconds / SLICE_S)):
            self._slice(limits)
            limits = dict.fromkeys(limits, 0)

    def _slice(self, limits: Mapping[str, int] | None = None) -> None:
        limits = limits or {}
        self.machine.now += SLICE_S
        self._slices += 1
        self._tick()
        self.produce(TopicPartition("t", self._slices % len(self.ends)), 1)
        for member in list(self.members):
            if (calls := limits.get(member.name, LONG)) > 0:
                member.turn(calls)
        self.look()

    def look(self) -> None:
        """Judge this instant; forget who is gone."""
        self.judge.one_deliverer(self.members)
        self.members = [member for member in self.members if member.alive]

    def produce(self, partition: TopicPartition, records: int) -> None:
        """The log grows."""
        self.ends[partition] += records

    # -- what happens to the group ---------------------------------------------------------------

    def join(self, *, aware: bool = True) -> None:
        """One more member. Streams are unequal, so that a toggle moves partitions (N6); old members sort
        between the others, so that their share is what one of ours reads and another one holds (D2)."""
        self._joined += 1
        streams = 2 if self._joined % 2 else 1
        if aware:
            self.members.append(AwareMember(self, f"g_m{self._joined}", streams))
        else:
            self.members.append(OldMember(self, f"g_m1x{self._joined}", streams))
            self._olds.add(self.members[-1].name)

    def toggle(self, mode: Mode) -> None:
        """The tool writes the mode node, unless it says so already (N7)."""
        if self.zookeeper.mode.data != mode.value.encode():
            self.zookeeper.toggle(mode)
            self.judge.mode_written(self.zookeeper.mode, all_aware=self._olds.isdisjoint(self.zookeeper.ids))

    def wake(self) -> None:
        """F9: a dummy id comes and goes in one transaction; only the listings' zxids differ after it."""
        self.judge.flaws["old member woken"] += 1
        self.zookeeper.tick()
        for member in self.members:
            if isinstance(member, OldMember):
                member.fire()
        self.zookeeper.tell()

    # -- the end ---------------------------------------------------------------------------------

    @staticmethod
    def recover(member: AwareMember | OldMember) -> None:
        """Its faults stop."""
        member.stalled = member.late = False
        if isinstance(member, AwareMember):
            member.wire.heal()
            member.wire.late = member.wire.lose = False
            member.membership.up = True
        else:
            member.cut = False

    def settle(self, bound_s: float) -> None:
        """Left alone, the group must be whole again within ``bound_s``, and stay so for a while."""
        for member in self.members:
            self.recover(member)
        if not any(isinstance(member, AwareMember) and not member.leaving for member in self.members):
            self.join()
        goal, calm, passed = dict(self.ends), 0.0, 0.0
        while calm < CALM_S:
            troubles = self.troubles(goal)
            if troubles and passed >= bound_s:
                invariant, story = troubles[0]
                self.judge.broken(invariant, f"{story} after {bound_s:g} s")
                return
            self._slice()
            passed += SLICE_S
            calm = 0.0 if troubles else calm + SLICE_S

    def troubles(self, goal: dict[TopicPartition, int]) -> list[tuple[Invariant, str]]:
        """What is not as it should be in the end; ``goal`` are log ends that must be reached."""
        found = []
        delivering = {each for member in self.members for each in member.may_deliver()}
        if idle := set(self.ends) - (delivering & set(self.zookeeper.owners)):
            found.append((Invariant.OWNED, f"{', '.join(map(str, sorted(idle)))} are delivered by nobody"))
        node = self.zookeeper.mode
        mode = effective_mode(node, self.zookeeper.ids, self.zookeeper.migration_ids)
        for member in self.members:
            if isinstance(member, AwareMember) and not member.leaving:
                said = self._published(member.name)
                if (member.reconciler.mode, *said) != (mode, mode, node.identity):
                    story = f"{member.name} is in {member.reconciler.mode} and says {said}, {mode} is right"
                    found.append((Invariant.LAST_MODE, story))
        if missing := self.judge.missing(goal):
            found.append((Invariant.NO_LOSS, f"undelivered: {missing}"))
        return found

    def _published(self, name: str) -> tuple[Any, Any]:
        _, data = self.zookeeper.migration_ids.get(name, (0, b"{}"))
        said = parse_awareness(data)
        return said.mode, said.acting_on
