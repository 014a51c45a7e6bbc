"""The full history of syncs: epochs, runs and look-ups, against plain definitions over a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.errors import Rejected
from groupshift.links.sync_history import (
    BeforeFirstSync,
    Epoch,
    EpochEnd,
    PartitionPair,
    Sync,
    SyncEffect,
    SyncHistory,
    SyncOffset,
)

PAIR = PartitionPair(source_id="s1", target_id="t1", source_start=0, target_end=10_000, sync_log_end=50)


def syncs(*pairs: tuple[int, int], at: int = 0) -> list[Sync]:
    """Syncs in the order of their log, one a second."""
    return [
        Sync(upstream=u, downstream=d, log_offset=at + i, log_time_ms=1000 * (at + i))
        for i, (u, d) in enumerate(pairs)
    ]


def history_of(each: Iterable[Sync], epoch: Epoch | None = None) -> SyncHistory:
    """A history of these syncs, in the order of their log."""
    history = SyncHistory(epoch)
    for sync in each:
        history.append(sync)
    return history


def offset(answer: SyncOffset | None) -> int | None:
    """The offset alone."""
    return answer.offset if answer else None


def test_each_sync_tells_what_it_did_to_the_history() -> None:
    """Rising is a run, going back on the source a new run, going back on the target a new epoch."""
    history = SyncHistory()
    effects = [
        history.append(sync)
        for sync in syncs((10, 10), (20, 20), (20, 20), (20, 25), (15, 30), (16, 31), (17, 31), (18, 5))
    ]
    assert effects == [
        SyncEffect.EPOCH,
        SyncEffect.CONTINUED,
        SyncEffect.DUPLICATE,
        SyncEffect.RUN,
        SyncEffect.RUN,
        SyncEffect.CONTINUED,
        SyncEffect.EPOCH,
        SyncEffect.EPOCH,
    ]
    assert (len(history), history.runs, history.epoch.number) == (1, 1, 2)
    assert history.epoch.cause is EpochEnd.TARGET_WENT_BACK
    assert history.first == history.newest == syncs((18, 5), at=7)[0]


def test_an_epoch_forgets_what_stood_in_the_one_before() -> None:
    """No sync of an earlier epoch translates: the target offset would lie beyond the log (H2)."""
    history = history_of(syncs((0, 0), (500, 500), (600, 3)))
    assert history.conservative(550) is None
    assert offset(history.conservative(700)) == 4
    assert history.inverse(2) is None


@pytest.mark.parametrize(
    ("pair", "cause"),
    [
        (PAIR, None),
        (replace(PAIR, source_id=None, target_id=None), None),
        (replace(PAIR, source_id="s2"), EpochEnd.SOURCE_TOPIC_ID),
        (replace(PAIR, target_id="t2"), EpochEnd.TARGET_TOPIC_ID),
        (replace(PAIR, target_end=201), None),
        (replace(PAIR, target_end=200), EpochEnd.TARGET_END),
        (replace(PAIR, target_end=0), EpochEnd.TARGET_END),
    ],
)
def test_a_look_at_both_sides_ends_the_epoch(pair: PartitionPair, cause: EpochEnd | None) -> None:
    """By another topic id, or by a target that no longer has the newest sync's record."""
    history = SyncHistory()
    assert history.observe(PAIR) is None
    for sync in syncs((0, 100), (100, 200)):
        history.append(sync)
    assert history.observe(replace(pair, sync_log_end=9)) is cause
    assert len(history) == (0 if cause else 2)
    if cause:
        assert (history.epoch.number, history.epoch.cause, history.epoch.first_log_offset) == (1, cause, 9)
        assert (history.epoch.source_id, history.epoch.target_id) == (pair.source_id, pair.target_id)
        old, new = syncs((100, 0), (101, 1), at=8)
        assert history.append(old) is SyncEffect.BEFORE_EPOCH
        assert history.conservative(100) is None
        assert history.append(new) is SyncEffect.EPOCH
        assert history.epoch.number == 1
    else:
        assert (history.epoch.source_id, history.epoch.target_id) == ("s1", "t1")


def test_the_target_id_is_taken_anew_after_the_target_went_back() -> None:
    """A sync shows first that the target was made anew; the next look learns its id and keeps the sync."""
    history = SyncHistory()
    history.observe(PAIR)
    for sync in syncs((0, 0), (100, 100), (200, 7)):
        history.append(sync)
    assert history.observe(replace(PAIR, target_id="t2", target_end=9)) is None
    assert offset(history.conservative(200)) == 7
    assert history.observe(replace(PAIR, target_id="t3", target_end=9)) is EpochEnd.TARGET_TOPIC_ID


@pytest.mark.parametrize(
    "bad",
    [
        Sync(upstream=-1, downstream=0, log_offset=9, log_time_ms=0),
        Sync(upstream=0, downstream=-1, log_offset=9, log_time_ms=0),
        Sync(upstream=30, downstream=30, log_offset=1, log_time_ms=0),
        Sync(upstream=30, downstream=30, log_offset=0, log_time_ms=0),
    ],
)
def test_a_sync_out_of_order_is_refused_and_changes_nothing(bad: Sync) -> None:
    """Negative offsets, and a sync that was appended before or stands before one that was."""
    history = history_of(syncs((10, 10), (20, 20)))
    with pytest.raises(Rejected, match=r"give"):
        history.append(bad)
    assert (len(history), history.epoch.number) == (2, 0)
    assert history.append(syncs((30, 30), at=2)[0]) is SyncEffect.CONTINUED


def test_a_restarted_history_goes_on_as_the_one_before() -> None:
    """The epoch and its syncs, appended again, give the same answers."""
    whole = history_of(syncs((0, 0), (500, 500), (600, 3), (601, 4), (590, 20)))
    again = history_of(syncs((600, 3), (601, 4), (590, 20), at=2), whole.epoch)
    assert again.epoch == whole.epoch
    assert [again.conservative(c) for c in range(580, 610)] == [
        whole.conservative(c) for c in range(580, 610)
    ]


def test_an_unfinished_replay_does_not_translate() -> None:
    """What was copied to 100 is copied again from 50: until 100 is reached, the older copies count."""
    history = history_of(syncs((0, 0), (40, 40), (60, 60), (100, 100), (50, 120), (70, 140)))
    assert history.is_replaying
    assert [offset(history.conservative(c)) for c in (45, 60, 75, 100, 130)] == [41, 60, 61, 100, 101]
    assert history.anchor(75) == syncs((70, 140), at=5)[0]
    history.append(syncs((100, 170), at=6)[0])
    assert not history.is_replaying
    assert [offset(history.conservative(c)) for c in (45, 60, 75, 100, 130)] == [41, 121, 141, 170, 171]


def test_the_next_sync_follows_the_anchor() -> None:
    """It is the anchor itself where that is exact; without an anchor, the first sync."""
    each = syncs((10, 10), (20, 20), (30, 30), (15, 50), (25, 60))
    history = history_of(each)
    expected = {5: (None, 0), 10: (0, 0), 12: (0, 1), 15: (3, 3), 17: (3, 4), 25: (4, 4), 26: (4, None)}
    for committed, (anchor, after) in expected.items():
        assert history.anchor(committed) == (None if anchor is None else each[anchor])
        assert history.next_sync(committed) == (None if after is None else each[after])


def test_an_offset_before_the_first_sync_follows_the_policy() -> None:
    """Skip, the log start of the target, or a sentence; an epoch without syncs has no offset at all."""
    history = SyncHistory()
    assert history.before_first_sync(3, target_start=7, policy=BeforeFirstSync.FAIL) is None
    history.append(syncs((10, 12))[0])
    assert history.conservative(9) is None
    assert history.before_first_sync(9, target_start=7) is None
    assert history.before_first_sync(9, target_start=7, policy=BeforeFirstSync.SKIP) is None
    assert history.before_first_sync(9, target_start=7, policy=BeforeFirstSync.EARLIEST) == 7
    with pytest.raises(Rejected, match=r"committed offset 9 lies before the first offset sync \(10\)"):
        history.before_first_sync(9, target_start=7, policy=BeforeFirstSync.FAIL)


@pytest.mark.parametrize(
    ("before", "after", "policy"),
    [(10, 10, "earliest"), (10, 90, "earliest"), (9, 10, "skip"), (None, 10, "skip")],
)
def test_the_default_policy_asks_where_the_source_began_before_the_first_sync(
    before: int | None, after: int, policy: str
) -> None:
    """Nothing older was replicated if the first sync is of the log start of that time, not of a later one."""
    history = SyncHistory()
    if before is not None:
        history.observe(replace(PAIR, source_start=before))
    history.append(syncs((10, 12), at=60)[0])
    history.observe(replace(PAIR, source_start=after))
    assert history.default_before_first == policy
    assert history.before_first_sync(9, target_start=7) == (7 if policy == "earliest" else None)


def test_the_inverse_translates_to_the_source() -> None:
    """The newest sync at or below: exact on it, one more behind it, nothing before the first."""
    history = history_of(syncs((10, 100), (20, 110), (25, 130)))
    assert [offset(history.inverse(d)) for d in (99, 100, 101, 110, 129, 130, 999)] == [
        None,
        10,
        11,
        20,
        21,
        25,
        26,
    ]


def test_cluster_16_the_inverse_is_not_above_where_a_later_run_begins() -> None:
    """Without topic ids a source that was made anew looks like a replay: its offsets are other records."""
    history = history_of(syncs((10, 100), (500, 110), (15, 130), (30, 140), (0, 150)))
    assert [offset(history.inverse(d)) for d in (101, 110, 129, 130, 141, 150, 151)] == [0] * 6 + [1]
    known = history_of(syncs((10, 100), (500, 110), (15, 130), (30, 140)))
    assert [offset(known.inverse(d)) for d in (101, 110, 129, 130, 141)] == [11, 15, 15, 15, 31]


def test_a_replay_sign_is_looked_for_by_records_and_by_time() -> None:
    """A run boundary, or a target that grew by more than the source; within the guard, the oldest one."""
    each = syncs((0, 0), (10, 10), (20, 25), (30, 30), (25, 40), (40, 55), (50, 60))
    history = history_of(each)

    def sign(records: int, ms: int) -> tuple[Sync, Sync] | None:
        answer = history.replay_sign(target_end=61, now_ms=6000, records=records, ms=ms)
        return answer and (answer.before, answer.after)

    assert sign(0, 0) is None
    assert sign(20, 0) is None
    assert sign(21, 0) == (each[3], each[4])
    assert sign(35, 0) == (each[3], each[4])
    assert sign(36, 0) == (each[1], each[2])
    assert sign(0, 1999) is None
    assert sign(0, 2000) == (each[3], each[4])
    assert sign(0, 4000) == (each[1], each[2])
    assert sign(21, 4000) == (each[1], each[2])


def test_a_replay_sign_is_kept_while_times_go_back() -> None:
    """A later time before it keeps a sign inside the guard: a clock that went back hides nothing."""
    times = [9000, 100, 200]
    pairs = [(0, 0), (10, 20), (20, 30)]
    each = [replace(sync, log_time_ms=ms) for sync, ms in zip(syncs(*pairs), times, strict=True)]
    answer = history_of(each).replay_sign(target_end=10_000, now_ms=10_000, records=0, ms=1000)
    assert answer is not None
    assert (answer.before, answer.after) == (each[0], each[1])


# -- against plain definitions -------------------------------------------------------------------------


def runs_of_last_epoch(each: Sequence[Sync]) -> list[list[Sync]]:
    """The runs of the last epoch, by the words of the page."""
    runs: list[list[Sync]] = []
    for sync in each:
        last = runs[-1][-1] if runs else None
        if last and (sync.upstream, sync.downstream) == (last.upstream, last.downstream):
            continue
        if last and sync.downstream <= last.downstream:
            runs = []
        if not runs or sync.upstream <= runs[-1][-1].upstream:
            runs.append([])
        runs[-1].append(sync)
    return runs


def by_words(runs: list[list[Sync]], committed: int) -> int | None:
    """The newest run with a sync <= c, older ones while none reached the highest offset, the minimum."""
    highest = max((run[-1].upstream for run in runs), default=-1)
    reached, candidates = False, []
    for run in reversed(runs):
        reached = reached or run[-1].upstream == highest
        low = [sync for sync in run if sync.upstream <= committed]
        if low:
            candidates.append(low[-1].downstream + (committed > low[-1].upstream))
        if candidates and reached:
            break
    return min(candidates, default=None)


STEPS = st.lists(
    st.tuples(st.integers(-12, 25), st.sampled_from([0, 1, 1, 2, 3, 5, 9, 30]), st.integers(0, 60)),
    max_size=60,
)


def walk(steps: Iterable[tuple[int, int, int]]) -> list[Sync]:
    """Syncs that go back on the source often, and on the target now and then (a step of 30, halved)."""
    each, upstream, downstream = [], 30, 0
    for at, (up, down, rare) in enumerate(steps):
        upstream = max(0, upstream + up)
        downstream = downstream // 2 if down == 30 and rare < 8 else downstream + down
        each.append(Sync(upstream=upstream, downstream=downstream, log_offset=at, log_time_ms=at * 10))
    return each


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_every_look_up_is_what_a_plain_search_finds(steps: list[tuple[int, int, int]]) -> None:
    """The bisections over arrays agree with searches through the list of runs."""
    each = walk(steps)
    history, runs = history_of(each), runs_of_last_epoch(each)
    everything = runs
    flat = [sync for run in runs for sync in run]
    assert (len(history), history.runs) == (len(flat), len(runs))
    highest = max((sync.upstream for sync in flat), default=-1)
    while runs and runs[-1][-1].upstream < highest:
        runs = runs[:-1]
    complete = [sync for run in runs for sync in run]
    assert history.is_replaying is (len(complete) < len(flat))
    for offset_ in range(highest + 3):
        low = [sync for sync in flat if sync.upstream <= offset_]
        usable = [sync for sync in complete if sync.upstream <= offset_]
        after = [
            sync for sync in flat[len(flat) if not low else flat.index(low[-1]) :] if sync.upstream >= offset_
        ]
        assert history.anchor(offset_) == (low[-1] if low else None)
        expected = usable[-1].downstream + (offset_ > usable[-1].upstream) if usable else None
        assert offset(history.conservative(offset_)) == expected
        if low:
            assert history.next_sync(offset_) == (after[0] if after else None)
    for offset_ in range((flat[-1].downstream if flat else 0) + 3):
        below = [sync for sync in flat if sync.downstream <= offset_]
        back = below[-1].upstream + (offset_ > below[-1].downstream) if below else None
        begins = [run[0].upstream for run in everything if below and run[0].downstream > below[-1].downstream]
        back = None if back is None else min([back, *begins])
        assert offset(history.inverse(offset_)) == back


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_the_conservative_look_up_keeps_what_the_page_says(steps: list[tuple[int, int, int]]) -> None:
    """It never says more than the rule by runs, and the same where no replay is under way."""
    each = walk(steps)
    history, runs = history_of(each), runs_of_last_epoch(each)
    for committed in range(max((run[-1].upstream for run in runs), default=0) + 3):
        ours, words = offset(history.conservative(committed)), by_words(runs, committed)
        if ours is None or words is None:
            assert ours is None
            assert words is None or history.is_replaying
        else:
            assert ours <= words
            assert ours == words or history.is_replaying


@settings(max_examples=200, deadline=None)
@given(STEPS, st.integers(0, 80), st.integers(0, 700))
def test_a_replay_sign_is_the_oldest_within_the_guard(
    steps: list[tuple[int, int, int]], records: int, ms: int
) -> None:
    """Over all neighbours of the epoch, by the words of the guard."""
    each = walk(steps)
    history = history_of(each)
    flat = [sync for run in runs_of_last_epoch(each) for sync in run]
    if not flat:
        return
    end, now = flat[-1].downstream + 1, 10 * len(each)
    signs = [
        (a, b)
        for a, b in pairwise(flat)
        if (b.upstream <= a.upstream or b.downstream - a.downstream > b.upstream - a.upstream)
        and (b.downstream >= end - records or b.log_time_ms >= now - ms)
    ]
    answer = history.replay_sign(target_end=end, now_ms=now, records=records, ms=ms)
    assert (answer and (answer.before, answer.after)) == (signs[0] if signs else None)
