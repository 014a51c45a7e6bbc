"""A snapshot and the ledgers of members, which are written by somebody else than who commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from groupshift.adapters.memory.world import World
from groupshift.bootstrap import App
from groupshift.domain.chronicle import Tenure
from groupshift.domain.evidence import Moment
from groupshift.domain.partitions import TopicPartition
from simulated_move import Bench


@dataclass
class Behind:
    """The world's ledgers, twenty records behind for so many reads, more than what is not committed yet."""

    world: World
    reads: int

    def last_delivered(self, group: str) -> Mapping[TopicPartition, int]:
        """See the port."""
        self.reads -= 1
        behind = 20 if self.reads >= 0 else 0
        return {at: offset - behind for at, offset in self.world.last_delivered(group).items()}

    def tenures(self, group: str, from_ms: int, to_ms: int) -> Sequence[Tenure]:
        """See the port."""
        return self.world.tenures(group, from_ms, to_ms)


@pytest.mark.parametrize(("reads", "behind"), [(0, 0), (8, 0), (1_000, 20)])
def test_a_ledger_that_is_behind_is_waited_for_within_bounds(bench: Bench, reads: int, behind: int) -> None:
    """It catches up: the snapshot has what was committed as delivered. It does not: the snapshot says so,
    after no more than the patience."""
    migration = bench.plan()
    ledger = Behind(bench.world, reads)
    app = App(replace(bench.environment(), ledger=ledger))
    begun = bench.clock.now_ms()
    app.snapshot(migration, "canary", "before")
    assert bench.clock.now_ms() - begun <= 6_000
    rows = bench.evidence.read(migration, "canary", Moment.BEFORE)["ledger"]
    there = bench.world.last_delivered(bench.world.group)
    assert {row["partition"]: row["last_delivered"] for row in rows} == {
        at.partition: offset - behind for at, offset in there.items()
    }
