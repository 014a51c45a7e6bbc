"""Many simulated groups, and a brake: the ports of a whole ensemble without servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from groupshift.domain.group import GroupView
from groupshift.domain.modes import ABSENT_MODE
from groupshift.ports.clock import Clock
from groupshift.scan.group_state import NodeTimes, Observed
from groupshift_testing.world import World


@dataclass(slots=True)
class MemoryEnsemble:
    """`groupshift.scan.ports.EnsembleReader`: one `World` a group, by name; ``windows`` are the sizes of the
    windows that were read.

    ``quiet_s`` is how long before now the nodes of every group say that it changed last."""

    clock: Clock
    worlds: dict[str, World] = field(default_factory=dict)
    name: str = "memory"
    quiet_s: int = 7_200
    windows: list[int] = field(default_factory=list)

    def groups(self) -> tuple[str, ...]:
        """See the port."""
        return tuple(sorted(self.worlds))

    def read(self, groups: Sequence[str]) -> tuple[Observed, ...]:
        """See the port: each group with the time of its last change."""
        self.windows.append(len(groups))
        views = [self.read_one(group) for group in groups]
        changed = [view.taken_at_ms - self.quiet_s * 1000 for view in views]
        return tuple(
            Observed(view=view, times=NodeTimes(changes=(1,), stamps=((1, at_ms),)))
            for view, at_ms in zip(views, changed, strict=True)
        )

    def read_one(self, group: str) -> GroupView:
        """The view of one group; one that is not there does not exist."""
        if group in self.worlds:
            return self.worlds[group].read(group)
        return GroupView(group=group, taken_at_ms=self.clock.now_ms(), exists=False, mode=ABSENT_MODE)


@dataclass(frozen=True, slots=True)
class MemoryGroups:
    """`groupshift.ports.cluster.GroupReader` over the same groups."""

    ensemble: MemoryEnsemble

    def read(self, group: str) -> GroupView:
        """See the port."""
        return self.ensemble.read_one(group)


@dataclass(slots=True)
class MemoryBrake:
    """`groupshift.scan.ports.Brake`."""

    reason: str = ""

    def pulled(self) -> str:
        """See the port."""
        return self.reason

    def pull(self, reason: str) -> None:
        """See the port."""
        self.reason = reason

    def release(self) -> None:
        """See the port."""
        self.reason = ""
