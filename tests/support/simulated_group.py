"""A simulated group with its fleet, its evidence and what compares it, all in memory."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.modes import MemberKind
from groupshift_testing.clock import ManualClock
from groupshift_testing.evidence import MemoryEvidence, MemoryProof
from groupshift_testing.world import MemoryFleet, World


@dataclass(slots=True)
class SimulatedGroup:
    """Everything outside the journal that a run of one group touches."""

    clock: ManualClock
    world: World
    fleet: MemoryFleet
    evidence: MemoryEvidence
    proof: MemoryProof


def make_group(kind: MemberKind = MemberKind.ZOOKEEPER, members: int = 3) -> SimulatedGroup:
    """A healthy group whose members consume a little whenever somebody sleeps."""
    clock = ManualClock()
    return group_of_world(clock, World.of(clock, kind, members))


def group_of_world(clock: ManualClock, world: World) -> SimulatedGroup:
    """The group of this world, in which a little happens whenever somebody sleeps."""
    clock.on_sleep.append(lambda _seconds: world.tick(1))
    evidence = MemoryEvidence()
    return SimulatedGroup(
        clock=clock, world=world, fleet=MemoryFleet(world), evidence=evidence, proof=MemoryProof(evidence)
    )
