"""Many simulated groups with a real journal and a real history of scans, for tests of the use cases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.domain.canary import CanaryLimits
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.run import Target
from groupshift.engine.move import Tools
from groupshift.moves.coordination.facts import CoordinationPorts
from groupshift.moves.coordination.move import ModeAlone
from groupshift.ports.clock import NoStepCrash, StepCrashPoints
from groupshift.ports.cluster import GroupReader
from groupshift.ports.group import CanaryTerms, GroupTerms, ZookeeperSide
from groupshift.ports.runs import RunRecord
from groupshift.scan.group_state import GroupState
from groupshift.scan.scan import FleetScans
from groupshift.scan.toggles import Toggles
from groupshift_testing.clock import ManualClock
from groupshift_testing.ensemble import (
    MemoryBrake,
    MemoryEnsemble,
    MemoryGroups,
)
from groupshift_testing.evidence import MemoryEvidence
from groupshift_testing.world import MemoryFleet, MemoryModeSwitch, World
from support.memory_runs import MemoryRuns

CLUSTER = "c"
NO_CANARY = CanaryTerms(
    CanaryLimits(
        looks=1,
        records=1,
        lag_growth_pct=1,
        commit_rate_pct=1,
        errors=1,
        rebalances=1,
        commit_interval_ms=1000,
    )
)
"""A scan watches none."""


def target_of(group: str) -> Target:
    """A group of this world's cluster."""
    return Target(kind="group", name=group, within=CLUSTER)


@dataclass(slots=True)
class Fleet:
    """The outside world of a scan; ``scans()`` is what a fresh process would have over it."""

    clock: ManualClock
    ensemble: MemoryEnsemble
    runs: MemoryRuns
    history: SqlScans
    brake: MemoryBrake
    evidence: MemoryEvidence

    def add(self, group: str, kind: MemberKind = MemberKind.AWARE, members: int = 2) -> World:
        """A healthy group of one kind."""
        world = World.of(self.clock, kind, members)
        world.group = group
        self.ensemble.worlds[group] = world
        return world

    def scans(self, crash: StepCrashPoints | None = None, groups: GroupReader | None = None) -> FleetScans:
        """All use cases over this world; ``groups`` reads one group for the rules."""
        return FleetScans(
            clock=self.clock,
            reader=self.ensemble,
            scans=self.history,
            brake=self.brake,
            toggles=Toggles(
                moves={each: ModeAlone(each) for each in Mode},
                tools=Tools(runs=self.runs, clock=self.clock, crash=crash or NoStepCrash()),
                ports=self.ports(groups),
            ),
        )

    def ports(self, groups: GroupReader | None = None) -> CoordinationPorts:
        """What a run of one group works with."""
        idle = MemoryFleet(World(clock=self.clock, group="nobody"))
        side = ZookeeperSide(
            groups=groups or MemoryGroups(self.ensemble),
            fleets=lambda _driver: idle,
            mode=MemoryModeSwitch(idle.world, self.ensemble.worlds),
            cluster_id=lambda: CLUSTER,
        )
        return CoordinationPorts(
            side=side,
            evidence=self.evidence,
            ledger=World(clock=self.clock),
            terms=GroupTerms(patience_s=2, settle_s=5),
            clock=self.clock,
            canary=NO_CANARY,
        )

    def run_of(self, group: str) -> RunRecord:
        """The latest run of a group."""
        return self.runs.of_target(target_of(group))[0]

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
        runs=MemoryRuns(),
        history=SqlScans(f"sqlite:///{folder / 'journal.db'}"),
        brake=MemoryBrake(),
        evidence=MemoryEvidence(),
    )


class Deaf:
    """A reader that shows members of some groups as if they acted on another mode than the one that is
    set."""

    def __init__(self, fleet: Fleet, groups: set[str], mode: Mode = Mode.ZOOKEEPER) -> None:
        self._fleet, self._groups, self._mode = fleet, groups, mode

    def read(self, group: str) -> GroupView:
        """See the port."""
        view = self._fleet.ensemble.read_one(group)
        if group not in self._groups:
            return view
        return replace(view, members=tuple(replace(m, mode=self._mode) for m in view.members))
