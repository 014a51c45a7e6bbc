"""Random replications with few different contents, against the exact position by its definition.

Unlike `groupshift_testing.replication.play`, logs are compacted by keys, others write what copies have, and
syncs are a random part of the true pairs. At rest every translation, in mid-replay every proven one, is at or
below exact(c).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from groupshift.links.alignment import CopyTraits
from groupshift.links.partition_translation import TranslationRules, translate_partition
from groupshift.links.position_search import OffsetHeader, SearchLimits
from groupshift.links.record_reads import FingerprintRule
from groupshift.links.sync_history import Sync, SyncHistory
from groupshift.links.translation import Certainty
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Record, SimulatedLog

SEEDS = 250


def compact(log: SimulatedLog, dirty: int) -> None:
    """As the cleaner does: below ``dirty``, the newest record of each key stays."""
    newest = {record.key: record.offset for record in log.records if record.offset < dirty}
    log.compact(*(each.offset for each in log.records if each.offset < newest.get(each.key, -1)))


class World:
    """Both logs, the copies, and the syncs, by chances that the seed draws."""

    def __init__(self, random: Random, *, with_headers: bool) -> None:
        def chance(often: float, *values: float) -> float:
            return random.choice(values) if random.random() < often else 0

        self.random, self.with_headers = random, with_headers
        self.source, self.target = SimulatedLog(), SimulatedLog()
        self.position = self.committed = 0
        self.copies: dict[int, int] = {}
        """Target offset → source offset."""
        self.syncs: list[tuple[int, int]] = []
        self.contents, self.keys = random.choice((1, 2, 5, 1_000)), random.choice((0, 2, 20))
        self.hole, self.drop = chance(0.5, 0.05, 0.3), chance(0.4, 0.05, 0.3)
        self.foreign, self.marker = chance(0.3, 0.03, 0.2), chance(0.3, 0.05, 0.3)
        self.crash, self.commit = chance(0.7, 0.02, 0.15), random.choice((0.02, 0.1, 0.5))
        self.sync, self.first_sync = random.choice((0.02, 0.2, 1)), random.choice((1, 1, 0.3))
        self.is_first = True
        self.dropped: set[int] = set()

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def record(self, time: int) -> Record:
        key = b"k%d" % self.random.randrange(self.keys) if self.keys else None
        value = b"%d" % self.random.randrange(self.contents)
        return Record(offset=-1, timestamp_ms=time, key=key, value=value)

    def write_foreign(self) -> None:
        """Something new, or what a source record has, but for its time."""
        record = self.record(1_000 + self.target.end)
        if self.source.records and self.happens(0.5):
            known = self.random.choice(self.source.records)
            record = replace(record, key=known.key, value=known.value)
        self.target.append(record)

    def copy(self, records: int) -> None:
        for each in self.source.read(self.position, records):
            self.position = each.offset + 1
            if each.offset in self.dropped:
                continue
            if self.happens(self.foreign):
                self.write_foreign()
            self.target.skip(self.happens(self.marker))
            headers = (("src", b"%d" % each.offset),) if self.with_headers else ()
            view: Any = {"timestamp_ms": each.timestamp_ms, "key": each.key, "value": each.value}
            at = self.target.append(Record(offset=-1, headers=headers, **view))
            self.copies[at] = each.offset
            if self.happens(self.first_sync if self.is_first else self.sync):
                self.syncs.append((each.offset, at))
            self.is_first = False

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.source.skip(self.random.randint(1, 3) if self.happens(self.hole) else 0)
            at = self.source.append(self.record(self.source.end // 3))
            if self.happens(self.drop):
                self.dropped.add(at)
            self.copy(self.random.randint(0, 2))
            if self.happens(self.commit):
                self.committed = self.position
            if self.happens(self.crash):
                self.position, self.is_first = self.committed, True
            if self.keys and self.happens(0.05):
                # what a replay would copy again is not compacted: its old copy would seem to be lost
                compact(self.source, self.random.randint(0, self.committed))
            if self.keys and self.happens(0.05):
                compact(self.target, self.random.randint(0, self.target.end))
            if self.happens(0.01):
                self.source.delete_before(self.random.randint(0, self.position))
            if self.happens(0.01):
                self.target.delete_before(self.random.randint(0, self.target.end))
        there = {record.offset for record in self.target.records}
        self.copies = {target: source for target, source in self.copies.items() if target in there}

    def exact(self, committed: int) -> int:
        """By its definition."""
        last = {source: target for target, source in self.copies.items()}
        return min((at for source, at in last.items() if source >= committed), default=self.target.end)

    @property
    def is_at_rest(self) -> bool:
        return self.position > max(self.copies.values(), default=-1)

    def rules(self) -> TranslationRules:
        """What a person declares; timestamps of three records are equal."""
        if self.with_headers:
            return TranslationRules(fingerprint=None, offset_header=OffsetHeader(name="src"))
        scan = self.random.choice((20, 100_000))
        return TranslationRules(
            fingerprint=FingerprintRule(timestamps=self.happens(0.5)),
            traits=CopyTraits(drops_records=self.drop > 0, foreign_writers=self.foreign > 0),
            limits=SearchLimits(scan=scan),
        )

    def check(self) -> int:
        """Translate every offset; returns how many are proven."""
        history = SyncHistory()
        for at, (upstream, downstream) in enumerate(self.syncs):
            history.append(Sync(upstream=upstream, downstream=downstream, log_offset=at, log_time_ms=at))
        found = translate_partition(
            range(self.source.end + 1),
            target=SimulatedReader(self.target),
            source=SimulatedReader(self.source),
            syncs=None if self.with_headers else history,
            rules=self.rules(),
        )
        proven = 0
        for each in found:
            is_proven = each.certainty is Certainty.EXACT_PROVEN
            proven += is_proven
            if each.x is not None and (is_proven or self.is_at_rest):
                assert each.x <= self.exact(each.committed), each
        return proven


@pytest.mark.parametrize("with_headers", [False, True], ids=["by content", "by header"])
def test_cluster_03_nothing_is_above_the_exact_position(with_headers: bool) -> None:  # noqa: FBT001
    """Three looks at each of many small replications."""
    proven = 0
    for seed in range(SEEDS):
        random = Random(seed)
        world = World(random, with_headers=with_headers)
        for look in range(3):
            world.play(random.randint(1, 30))
            if look == 2:
                world.copy(1_000)
            try:
                proven += world.check()
            except AssertionError as wrong:
                raise AssertionError(f"seed {seed}, look {look}: {wrong}") from None
    assert proven > 8_000
