"""Many simulated groups with a real journal and a real history of scans, for tests of the use cases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.application.environment import Environment
from groupshift.domain.modes import MemberKind
from groupshift.ports.clock import CrashPoints, NoCrash
from groupshift.scan.scan import FleetScans
from groupshift.scan.state import GroupState
from groupshift.settings import Thresholds
from groupshift_testing.clock import ManualClock
from groupshift_testing.ensemble import (
    MemoryBrake,
    MemoryEnsemble,
    MemoryEnsembleReader,
    MemoryGroups,
    MemoryModes,
)
from groupshift_testing.evidence import MemoryEvidence, MemoryProof
from groupshift_testing.journal import MemoryJournal
from groupshift_testing.world import MemoryFleet, World


@dataclass(slots=True)
class Fleet:
    """The outside world of a scan; ``scans()`` is what a fresh process would have over it."""

    clock: ManualClock
    ensemble: MemoryEnsemble
    journal: MemoryJournal
    history: SqlScans
    brake: MemoryBrake

    def add(self, group: str, kind: MemberKind = MemberKind.AWARE, members: int = 2) -> World:
        """A healthy group of one kind."""
        world = World.of(self.clock, kind, members)
        world.group = group
        self.ensemble.worlds[group] = world
        return world

    def scans(self, crash: CrashPoints | None = None) -> FleetScans:
        """All use cases over this world."""
        evidence = MemoryEvidence()
        idle = MemoryFleet(World(clock=self.clock, group="nobody"))
        environment = Environment(
            groups=MemoryGroups(self.ensemble),
            mode=MemoryModes(self.ensemble),
            fleets=lambda _driver: idle,
            evidence=evidence,
            ledger=World(clock=self.clock),
            journal=self.journal,
            proof=MemoryProof(evidence),
            clock=self.clock,
            job="validate.py",
            thresholds=Thresholds(patience_s=2, settle_s=5),
            crash=crash or NoCrash(),
        )
        return FleetScans(
            env=environment,
            reader=MemoryEnsembleReader(self.ensemble),
            scans=self.history,
            brake=self.brake,
        )

    def scan(self) -> dict[str, GroupState]:
        """One scan; states by group."""
        scans = self.scans()
        scans.scan(lambda _done, _total: None)
        return {state.group: state for state in scans.states()}


def make_fleet(folder: Path) -> Fleet:
    """No group yet."""
    clock = ManualClock()
    return Fleet(
        clock=clock,
        ensemble=MemoryEnsemble(clock),
        journal=MemoryJournal(),
        history=SqlScans(f"sqlite:///{folder / 'journal.db'}"),
        brake=MemoryBrake(),
    )
