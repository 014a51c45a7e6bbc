"""The other ports over a simulated group: mode switch, fleet driver, evidence, proof, crash points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from groupshift.domain.coordination import MemberKind, Mode, ModeNode
from groupshift.domain.holder import Holder
from groupshift.domain.moves import StageName
from groupshift.errors import Conflict, Rejected
from groupshift.ports.crash import CrashPoint
from groupshift.ports.fleet import Change, ChangeStatus, Pending, Slot, SlotState, Started, settled
from groupshift_testing.world import World


@dataclass(slots=True)
class MemoryModeSwitch:
    """`groupshift.ports.mode.ModeSwitch` of a simulated group."""

    world: World

    def read(self, group: str) -> ModeNode:
        """See the port."""
        return self.world.read(group).mode

    def take(self, group: str, holder: Holder) -> None:
        """See the port."""
        known = self.world.holder
        if known and known.fences(holder):
            raise Conflict(f"{holder} may not change the mode of {group} any more: {known} does")
        self.world.holder = holder

    def compare_and_set(
        self, group: str, expected: ModeNode, to: Mode, *, holder: Holder | None = None
    ) -> ModeNode:
        """See the port."""
        self._demand_holder(group, holder)
        node = self._demand(group, expected)
        wanted = to.value.encode()
        return node if node.data == wanted else self.world.write_mode(wanted)

    def delete(self, group: str, expected: ModeNode, *, holder: Holder | None = None) -> None:
        """See the port."""
        if self.world.mode.data is not None:
            self._demand_holder(group, holder)
            self._demand(group, expected)
            self.world.write_mode(None)

    def _demand_holder(self, group: str, holder: Holder | None) -> None:
        if holder is not None and holder != self.world.holder:
            raise Conflict(f"{holder} may not change the mode of {group} any more: {self.world.holder} does")

    def _demand(self, group: str, expected: ModeNode) -> ModeNode:
        node = self.read(group)
        if (node.identity, node.version) != (expected.identity, expected.version):
            raise Conflict(f"the mode node of {group} is no longer version {expected.version}")
        return node


@dataclass(slots=True)
class MemoryFleet:
    """`groupshift.ports.fleet.FleetDriver`: applies a change at once, except in held places.

    ``pending`` makes it a driver that only instructs people; ``knows`` False one that knows no slots."""

    world: World
    applied: dict[str, int] = field(default_factory=dict)
    pending: bool = False
    fences: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, tuple[tuple[str, ...], MemberKind]] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)

    def slots(self, group: str) -> tuple[Slot, ...]:
        """See the port."""
        if self.pending or group != self.world.group:
            return ()
        return tuple(
            Slot(
                name=name,
                kind=occupant.kind,
                state=SlotState.RUNNING if occupant.running else SlotState.DOWN,
                member_id=self.world.identity(name),
                change_id=self.placed.get(name),
            )
            for name, occupant in sorted(self.world.places.items())
        )

    def start(self, change: Change) -> Started | Pending:
        """See the port."""
        if change.token < self.fences.get(change.fence, 0):
            raise Conflict(f"token {change.token} of {change.fence} is void: a newer run was here since")
        unknown = [name for name in change.slots if name not in self.world.places]
        if unknown and not self.pending:
            raise Rejected(f"slot {unknown[0]} is unknown")
        if self.pending:
            text = f"deploy {change.to} members on {', '.join(change.slots)}"
            return Pending(change_id=change.change_id, instruction=text)
        if self.accepted.setdefault(change.change_id, (change.slots, change.to)) != (change.slots, change.to):
            raise Rejected(f"change {change.change_id} was accepted before for something else")
        self.fences[change.fence] = change.token
        if change.change_id not in self.applied:
            self.applied[change.change_id] = 0
            self.placed |= dict.fromkeys(change.slots, change.change_id)
            self.deploy(
                [name for name in change.slots if self.world.places[name].kind != change.to], change.to
            )
        self.applied[change.change_id] += 1
        return Started(change_id=change.change_id)

    def deploy(self, slots: Sequence[str], to: MemberKind) -> None:
        """What the driver does, or a person in its place."""
        for name in slots:
            occupant = self.world.places[name]
            if not occupant.held:
                occupant.kind, occupant.running = to, to is not MemberKind.VACANT
                occupant.incarnation += 1
        self.world.tick()

    def took_up(self, change: Change) -> bool:
        """See the port."""
        return change.change_id in self.accepted

    def observe(self, change: Change) -> ChangeStatus:
        """See the port."""
        if self.pending:
            return ChangeStatus(change_id=change.change_id, done=False, detail="waiting for a person")
        return settled(self.slots(change.group), change, "the simulated fleet")


class Killed(BaseException):
    """Stands for SIGKILL in tests: no handler of the code under test may catch it."""


@dataclass(slots=True)
class CrashOnce:
    """`groupshift.ports.crash.CrashPoints` that raises `Killed` the first time a point is reached."""

    stage: StageName
    point: CrashPoint
    reached_points: list[tuple[StageName, CrashPoint]] = field(default_factory=list)

    def reached(self, stage: StageName, point: CrashPoint) -> None:
        """Die, once."""
        first = (stage, point) not in self.reached_points
        self.reached_points.append((stage, point))
        if first and (stage, point) == (self.stage, self.point):
            raise Killed(f"{stage}.{point}")
