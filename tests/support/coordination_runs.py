"""A simulated group whose move from ZooKeeper to Kafka the one engine drives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.canary import CanaryLimits
from groupshift.domain.modes import MemberKind
from groupshift.engine.move import Move
from groupshift.moves.coordination.facts import CoordinationPorts, CoordinationRequest
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.ports.group import CanaryTerms, ZookeeperSide
from groupshift_testing.world import MemoryModeSwitch
from support.simulated_group import make_group
from support.simulated_runs import Processes

CANARY = CanaryTerms(
    CanaryLimits(
        looks=5,
        records=20,
        lag_growth_pct=20,
        commit_rate_pct=70,
        errors=0,
        rebalances=1,
        commit_interval_ms=5000,
        every_s=2,
    )
)
"""The defaults of the settings."""
SHARED = ("clock", "world", "fleet", "evidence", "proof")
"""What a simulated group and the processes of a run share."""


@dataclass(slots=True)
class CoordinationProcesses(Processes):
    """As `Processes`, of a group that ZooKeeper coordinates."""

    move: Move[Any] = field(default_factory=CoordinationMove)
    canary: CanaryTerms = field(default=CANARY)

    def ports(self) -> CoordinationPorts:
        """See `Processes`."""
        side = ZookeeperSide(
            groups=self.world,
            fleets=lambda _driver: self.fleet,
            mode=MemoryModeSwitch(self.world),
            cluster_id=lambda: "c",
        )
        return CoordinationPorts(
            side=side,
            evidence=self.evidence,
            ledger=self.world,
            terms=self.terms,
            clock=self.clock,
            canary=self.canary,
        )

    def request(self, **values: Any) -> CoordinationRequest:
        """See `Processes`."""
        usual = {"group": self.world.group, "soak": 3, "canary_watch": 0}
        return CoordinationRequest(**{**usual, **values})


def make_coordination(kind: MemberKind = MemberKind.ZOOKEEPER, members: int = 3) -> CoordinationProcesses:
    """A healthy group of one kind of members, in zookeeper mode."""
    bench = make_group(kind, members)
    return CoordinationProcesses(**{name: getattr(bench, name) for name in SHARED})
