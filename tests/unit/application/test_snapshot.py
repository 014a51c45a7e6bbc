"""A snapshot and the ledgers of members, which are written by somebody else than who commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from groupshift.bootstrap import App
from groupshift.domain.evidence import Moment
from groupshift.domain.ownership_history import Tenure
from groupshift.domain.partitions import TopicPartition
from groupshift_testing.world import World
from support.simulated_move import Bench

BEHIND = 40
COMMITTED = 90
"""What the world's members have committed of each partition; they were delivered 100."""


@dataclass
class Behind:
    """The world's ledgers, forty records behind for so many reads; of what was committed they never have more
    than up to ``gap``, where there is one: it was passed over."""

    world: World
    reads: int
    gap: int | None = None

    def last_delivered(self, group: str) -> Mapping[TopicPartition, int]:
        """See the port."""
        self.reads -= 1
        behind = BEHIND if self.reads >= 0 else 0
        return {at: offset - behind for at, offset in self.world.last_delivered(group).items()}

    def delivered_below(
        self, group: str, bounds: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """See the port."""
        assert set(bounds.values()) == {COMMITTED}
        found = self.last_delivered(group)
        most = COMMITTED - 1 if self.gap is None else self.gap
        return {at: min(found[at], most) for at in bounds}

    def delivered(self, group: str, from_ms: int, to_ms: int) -> None:
        """Not asked here."""

    def tenures(self, group: str, from_ms: int, to_ms: int) -> Sequence[Tenure]:
        """See the port."""
        return self.world.tenures(group, from_ms, to_ms)


@pytest.mark.parametrize(
    ("reads", "gap", "said", "waited_s"),
    [(0, None, 99, 0), (8, None, 89, 4), (1_000, None, 109 - BEHIND, 5), (3, 85, 85, 5)],
)
def test_a_ledger_that_is_behind_is_waited_for_within_bounds(
    bench: Bench, reads: int, gap: int | None, said: int, waited_s: int
) -> None:
    """It catches up: the snapshot has what was committed as delivered. It does not, or what was committed had
    passed over records, although later ones are delivered meanwhile: the snapshot says so, after no more than
    the patience."""
    migration = bench.plan()
    assert {each.offset for each in bench.world.read(bench.world.group).zookeeper_offsets} == {COMMITTED}
    app = App(replace(bench.environment(), ledger=Behind(bench.world, reads, gap)))
    begun = bench.clock.now_ms()
    app.snapshot(migration, "canary", "before")
    assert waited_s <= (bench.clock.now_ms() - begun) / 1000 < waited_s + 1
    rows = bench.evidence.read(migration, "canary", Moment.BEFORE)["ledger"]
    assert {row["last_delivered"] for row in rows} == {said}
