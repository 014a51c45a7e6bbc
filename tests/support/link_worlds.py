"""A link in memory with its journal, and cycles over it."""

from __future__ import annotations

from typing import Any

from groupshift.links.link import Link, LinkKind
from groupshift.links.sync import SyncPlanner
from groupshift.links.sync_apply import apply_plan, lease, lease_of, positions_of
from groupshift.links.sync_plan import SyncPlan, SyncRequest, SyncRow
from groupshift.ports.runs import Entry
from groupshift_testing.link_sides import Fuse, LinkWorld
from support.memory_runs import MemoryRuns


def link(**changes: Any) -> Link:
    """MirrorMaker from ``primary`` to ``backup``, unless ``changes`` say otherwise."""
    usual = {"name": "dr", "kind": LinkKind.MM2_DEFAULT, "source_alias": "primary", "target_alias": "backup"}
    return Link(**{**usual, **changes})


def request(**changes: Any) -> SyncRequest:
    """The defaults, but for ``changes``."""
    return SyncRequest(**{"link": "dr", **changes})


class FusedRuns(MemoryRuns):
    """A journal whose entries burn the fuse of a world, too."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self._fuse = fuse

    def append(self, entry: Entry) -> None:
        """See the port."""
        self._fuse.burn()
        super().append(entry)


class Cycles:
    """A world, its journal, and processes that plan and apply, each with a name of its own."""

    def __init__(self, world: LinkWorld | None = None) -> None:
        self.world = world or LinkWorld(link())
        self.runs = FusedRuns(self.world.fuse)
        self._processes = 0

    def plan(self, **asked: Any) -> SyncPlan:
        """What a new process plans."""
        at = self.world.opened
        return SyncPlanner(at, request(**asked)).plan(positions=positions_of(at, self.runs))

    def apply(
        self, plan: SyncPlan, *, take_over: bool = False, groups_at_once: int = 100, crash: Any = None
    ) -> SyncPlan:
        """What a new process makes of a plan."""
        self._processes += 1
        at, name = self.world.open(crash), f"process-{self._processes}"
        with lease(at, self.runs, name, take_over=take_over) as held:
            return apply_plan(at, plan, held, groups_at_once=groups_at_once)

    @property
    def holder(self) -> str:
        """Who holds the link."""
        return lease_of(self.world.opened, self.runs)

    def cycle(self, **asked: Any) -> SyncPlan:
        """Plan and apply."""
        return self.apply(self.plan(**asked))


def only(plan: SyncPlan) -> SyncRow:
    """Its one row."""
    (row,) = plan.rows
    return row


def brief(row: SyncRow) -> tuple[str, int | None, str]:
    """Action, offset and reason."""
    return row.action.value, row.x, row.reason.value


def filled(records: int = 400, **options: Any) -> Cycles:
    """One partition, copied, with a sync each 100 records."""
    world = LinkWorld(link(), **options)
    world.fill(records)
    return Cycles(world)
