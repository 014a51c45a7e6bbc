"""MirrorMaker's store of 64 syncs, its translation and its filter of checkpoints, by published numbers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.domain.partitions import TopicPartition
from groupshift.links.mirrormaker import (
    BEFORE_FIRST_SYNC,
    CheckpointFilter,
    CheckpointOffsets,
    MirrorMakerStore,
)
from groupshift.links.sync_history import Sync

AT = TopicPartition("primary.orders", 3)
BITS = 1 << 64
TOP = (1 << 63) - 1


def running(upstreams: Iterable[int]) -> MirrorMakerStore:
    """A store that was loaded before, with syncs of equal offsets on both sides."""
    store = MirrorMakerStore()
    store.finish_loading()
    for upstream in upstreams:
        store.insert(upstream, upstream)
    return store


def kept(store: MirrorMakerStore) -> list[int]:
    """The source offsets of the syncs that the store still has."""
    return [upstream for upstream, _ in store.syncs]


def test_cluster_02_slot_store_keeps_what_the_model_kept() -> None:
    """One sync per 100 offsets up to 100 000."""
    store = running(range(0, 100_001, 100))
    assert kept(store) == [100000, 99900, 99800, 99600, 99200, 97600, 96000, 89600, 76800, 51200, 0]


@pytest.mark.parametrize(
    ("last_only", "expected"),
    [
        (True, [10000, 9990, 9970, 9940, 9880, 9640, 9160, 8680, 6760, 4840, 1000]),
        (False, [10000, 9990, 9960, 9900, 9840, 9600, 9120, 8640, 7680, 3840, 0]),
    ],
)
def test_cluster_02_slot_store_loads_fully_or_the_last_only(*, last_only: bool, expected: list[int]) -> None:
    """A sync each 10 offsets: up to 1 000 while loading, then up to 10 000."""
    loading = [Sync(upstream=u, downstream=u, log_offset=u, log_time_ms=0) for u in range(0, 1001, 10)]
    store = MirrorMakerStore.load(loading, last_only=last_only)
    for upstream in range(1010, 10_001, 10):
        store.insert(upstream, upstream)
    assert kept(store) == expected
    assert store.translate(999) == (BEFORE_FIRST_SYNC if last_only else 1)


def test_cluster_02_slot_store_translates_lagging_groups_as_measured() -> None:
    """1 000 000 records: what is read again grows to almost twice the distance from the newest sync."""
    store = running(range(0, 1_000_001, 100))
    again = {c: c - (store.translate(c) or 0) for c in (950_000, 750_000, 300_000)}
    assert again == {950_000: 28_399, 750_000: 135_599, 300_000: 299_999}
    ratios = [(c - (store.translate(c) or 0)) / (1_000_000 - c) for c in range(0, 999_900, 7)]
    assert 1.9 < max(ratios) <= 1.998
    assert max(c - (store.translate(c) or 0) for c in range(999_900, 1_000_001)) <= 100


def test_cluster_02_slot_store_translates_each_case_of_the_table() -> None:
    """On a sync, between two, at the end of the log, before the first and beyond the end."""
    store = MirrorMakerStore()
    assert store.translate(1000) is None, "no sync: an unknown partition"
    store.insert(1000, 900)
    store.insert(1100, 950)
    assert store.translate(1000) is None, "not loaded yet"
    store.finish_loading()
    assert [store.translate(c) for c in (999, 1000, 1001, 1099, 1100, 1101, 5000)] == [
        BEFORE_FIRST_SYNC,
        900,
        901,
        901,
        950,
        951,
        951,
    ]
    empty = MirrorMakerStore()
    empty.finish_loading()
    assert empty.translate(0) is None


def test_cluster_02_slot_store_forgets_everything_when_the_source_goes_back() -> None:
    """A lower source offset clears all slots; an equal one does not."""
    store = running([0, 500, 1000])
    store.insert(1000, 1200)
    assert store.syncs == ((1000, 1200), (1000, 1000), (500, 500), (0, 0))
    store.insert(999, 1300)
    assert store.syncs == ((999, 1300),)


def test_cluster_02_slot_store_forgets_for_a_fixed_offset() -> None:
    """Over time the translation of one committed offset falls back."""
    store = running([])
    over_time = []
    for upstream in range(0, 20_001, 100):
        store.insert(upstream, upstream)
        if upstream >= 10_000:
            over_time.append(store.translate(9_950))
    assert over_time[0] == 9_901
    assert over_time == sorted(over_time, reverse=True)
    assert over_time[-1] == 1, "the whole log again"


def signed(number: int) -> int:
    """The signed 64-bit number that Java computes."""
    return (number + (1 << 63)) % BITS - (1 << 63)


class JavaArithmetic:
    """The same store over plain pairs, with bounds that overflow as Java's do."""

    def __init__(self) -> None:
        self.slots: list[list[int]] = []

    def near(self, x: list[int], y: list[int], i: int, j: int) -> bool:
        bound = signed(signed(y[0] + signed(1 << j)) - signed(1 << i))
        return x is y or bound < 0 or x[0] <= bound

    def far(self, x: list[int], y: list[int], i: int) -> bool:
        bound = signed(y[0] + signed(1 << max(i - 2, 0)))
        return x is y or (bound >= 0 and x[0] >= bound)

    def insert(self, upstream: int) -> None:
        new = [upstream]
        if not self.slots or upstream < self.slots[0][0]:
            self.slots = [new] * 64
            return
        old, slots, keep, q = list(self.slots), self.slots, new, 0
        slots[0] = new
        for k in range(1, 64):
            again = True
            while again:
                x, before = old[q], slots[k - 1]
                far = self.far(before, x, k - 1)
                usable = self.near(before, x, k - 1, k) and far
                usable = usable and (k == 63 or self.far(x, slots[k + 1], k))
                discard = (q < 63 and x is old[q + 1]) or not far
                keep = x if usable else keep
                q += usable or discard
                again = q < k and discard
            if self.near(slots[k - 1], slots[k], k - 1, k):
                return
            slots[k] = keep


OFFSETS = st.one_of(
    st.integers(0, 3_000),
    st.integers(0, TOP),
    st.integers(TOP - 3_000, TOP),
    st.integers(0, 62).map(lambda bit: 1 << bit),
)


@settings(max_examples=150, deadline=None)
@given(offsets=st.lists(OFFSETS, max_size=60), is_rising=st.booleans())
def test_cluster_02_slot_store_overflows_as_java_does(*, offsets: list[int], is_rising: bool) -> None:
    """Plain numbers keep the same syncs as signed 64-bit numbers, up to the largest offset there is."""
    java, store = JavaArithmetic(), running([])
    for upstream in sorted(offsets) if is_rising else offsets:
        java.insert(upstream)
        store.insert(upstream, 7)
        expected = [
            slot[0] for at, slot in enumerate(java.slots) if at == 0 or slot is not java.slots[at - 1]
        ]
        assert kept(store) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 400)), min_size=1, max_size=80))
def test_a_store_at_rest_translates_monotonically(steps: list[tuple[int, int]]) -> None:
    """A higher committed offset never translates lower."""
    store, upstream, downstream = running([]), 0, 0
    for up, down in steps:
        upstream, downstream = upstream + up, downstream + down
        store.insert(upstream, downstream)
    translated = [store.translate(c) for c in range(0, upstream + 3, 7)]
    assert translated == sorted(translated, key=lambda x: -2 if x is None else x)


@pytest.mark.parametrize(
    ("committed", "translated", "is_emitted"),
    [
        (10, 8, False),
        (11, 8, False),
        (11, 7, False),
        (10, 7, False),
        (11, 9, True),
        (10, 9, True),
        (9, 8, True),
        (9, 3, True),
        (9, BEFORE_FIRST_SYNC, False),
        (11, None, False),
    ],
)
def test_a_checkpoint_follows_a_rewind_or_a_higher_translation(
    *, committed: int, translated: int | None, is_emitted: bool
) -> None:
    """The first is emitted; then only a lower commit or a higher translation is, and remembered."""
    checkpoints = CheckpointFilter()
    assert checkpoints.checkpoint("g", AT) is None
    assert checkpoints.offer("g", AT, 10, 8)
    assert checkpoints.offer("g", AT, committed, translated) is is_emitted
    after = CheckpointOffsets(committed, translated or 0) if is_emitted else CheckpointOffsets(10, 8)
    assert checkpoints.checkpoint("g", AT) == after
    assert checkpoints.offer("other", AT, 1, 1), "each group and partition has its own last checkpoint"
