"""Offsets that nobody was given: what the proof asks the log, and what its answer means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift.domain.partitions import TopicPartition

AT = TopicPartition("orders", 0)


def snapshot(offset: int, delivered: int | None, kind: str = "aware", **more: Any) -> dict[str, list]:
    """One partition of one member."""
    at = {"topic": "orders", "partition": 0}
    return {
        "members": [{"member_id": "m", "kind": kind}],
        "owners": [{**at, "member_id": "m"}],
        "offsets": [{**at, "store": "kafka", "offset": offset}],
        "log_ends": [{**at, "log_start": more.get("log_start", 0), "log_end": 100}],
        "ledger": [] if delivered is None else [{**at, "last_delivered": delivered}],
    }


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [
        (snapshot(3, 2), snapshot(6, 4), [(5, 6)]),
        (snapshot(3, 2), snapshot(5, 4), []),
        (snapshot(6, 4), snapshot(6, 4), []),
        (snapshot(3, 2), snapshot(6, None), []),
        (snapshot(3, 2, log_start=10), snapshot(10, 2), []),
        (snapshot(3, 2, log_start=10), snapshot(12, 2), [(10, 12)]),
        (snapshot(20, 2), snapshot(22, 2), [(20, 22)]),
    ],
    ids=["last + 2", "last + 1", "stands still", "no ledger", "deleted before", "in part", "from the commit"],
)
def test_f02_only_what_is_in_doubt_is_asked_of_the_log(
    before: dict, after: dict, asked: list[tuple[int, int]]
) -> None:
    """Beyond the last record delivered and the commit before; what was deleted before is in no doubt."""
    from groupshift.domain.log_gaps import Isolation, gaps

    found = gaps(before, after, Isolation.READ_COMMITTED)
    assert [(gap.start, gap.end) for gap in found] == asked


@pytest.mark.parametrize(
    ("then", "now", "of_kafka", "level"),
    [
        ("old", "old", "read_committed", "read_uncommitted"),
        ("old", "aware", "read_committed", "read_committed"),
        ("aware", "aware", "read_committed", "read_committed"),
        ("aware", "plain", "read_uncommitted", "read_uncommitted"),
    ],
)
def test_f02_the_reader_decides_at_which_level_the_log_is_asked(
    then: str, now: str, of_kafka: str, level: str
) -> None:
    """Old members are given aborted records; Kafka members what their isolation level gives."""
    from groupshift.domain.log_gaps import Isolation, gaps

    (gap,) = gaps(snapshot(3, 2, then), snapshot(6, 4, now), Isolation(of_kafka))
    assert gap.isolation == level


@pytest.mark.parametrize(
    ("read", "answer", "says"),
    [
        ({"decided": 6}, "nothing", "no record at offsets 5 to 5"),
        ({"decided": 9}, "nothing", "no record"),
        ({"decided": 6, "records": 1}, "lost", "holds 1 records"),
        ({"decided": 6, "log_start": 6}, "not proven", "begins at 6"),
        ({"decided": 5}, "not proven", "a transaction is open"),
        ({"problem": "timed out"}, "not proven", "timed out"),
        ({"problem": "timed out", "records": 2}, "lost", "holds 2 records"),
    ],
)
def test_f02_what_the_log_does_not_hold_is_not_lost(read: dict, answer: str, says: str) -> None:
    """A record is a loss; a range that is gone, undecided or unreadable is not proven."""
    from groupshift.domain.log_gaps import Gap, GapRead

    found = GapRead(gap=Gap(partition=AT, start=5, end=6), **read)
    assert (found.answer, says in found.reason) == (answer, True), found.reason


_RANGES = st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda each: (each[0], each[0] + each[1]))


@given(
    ranges=st.lists(_RANGES, max_size=8),
    given_records=st.sets(st.integers(0, 60)),
    log_start=st.integers(0, 20),
    log_end=st.integers(20, 60),
)
def test_f02_one_pass_counts_what_each_gap_alone_would(
    ranges: list[tuple[int, int]], given_records: set[int], log_start: int, log_end: int
) -> None:
    """Gaps overlap, touch, lie outside the log; the answers are those of a look at each by itself."""
    from groupshift.domain.log_gaps import Gap, GapPass, LogAnswer

    held = sorted(offset for offset in given_records if log_start <= offset < log_end)
    asked = [Gap(partition=AT, start=start, end=end) for start, end in ranges]
    counted, position = GapPass(asked, log_start, log_end), 0
    while (wanted := counted.wanted(position)) is not None:
        assert wanted >= position
        at = next((offset for offset in held if offset >= wanted), None)
        if at is None:
            counted.ended(log_end)
        else:
            counted.record(at)
            position = at + 1
    for gap, read in zip(asked, counted.reads, strict=True):
        records = sum(gap.start <= offset < gap.end for offset in held)
        known = log_start <= gap.start and log_end >= gap.end
        assert (read.gap, read.records) == (gap, records)
        assert read.answer is (
            LogAnswer.LOST if records else LogAnswer.NOTHING if known else LogAnswer.NOT_PROVEN
        )


def test_f02_what_lies_between_far_gaps_is_not_wanted() -> None:
    """Behind the last record of a gap, the next offset that is needed is the next gap's first."""
    from groupshift.domain.log_gaps import Gap, GapPass

    counted = GapPass(
        [Gap(partition=AT, start=5, end=7), Gap(partition=AT, start=1_000_000, end=1_000_001)], 0, 2_000_000
    )
    assert counted.wanted(0) == 5
    counted.record(6)
    assert counted.wanted(7) == 1_000_000
    counted.ended(None, "no answer")
    assert counted.wanted(7) is None
    assert [(each.records, each.problem) for each in counted.reads] == [(1, ""), (0, "no answer")]


def test_f02_a_gap_full_of_records_is_not_read_to_its_end() -> None:
    """Ten thousand lost records are enough to say so."""
    from groupshift.domain.log_gaps import ENOUGH, Gap, GapPass, LogAnswer

    counted = GapPass([Gap(partition=AT, start=0, end=10**9)], 0, 10**9)
    for offset in range(ENOUGH):
        assert counted.wanted(offset) == offset
        counted.record(offset)
    assert counted.wanted(ENOUGH) is None
    (read,) = counted.reads
    assert (read.records, read.answer) == (ENOUGH, LogAnswer.LOST)
