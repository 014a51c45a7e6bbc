"""What a log adds up to: winners, families, foreign records, time travel, retention."""

from __future__ import annotations

import random

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.errors import Rejected
from groupshift.log import DecodeStatus, LogRecord, decode
from groupshift.log.group_states import Commit, GroupFamily, materialise, retention_risks
from support.coordinator_story import (
    PARTITIONS,
    classic,
    commit,
    consumer_group,
    current,
    epoch,
    gone,
    log,
    member,
    record,
    to_classic,
)
from support.coordinator_vectors import T, U

HOUR = 3_600_000
HOME = partition_of("g", PARTITIONS)
ELSEWHERE = (HOME + 1) % PARTITIONS


def winner(*records: object, group: str = "g") -> Commit:
    """The only commit of the group."""
    (found,) = materialise(records).groups[group].commits  # type: ignore[arg-type]
    return found


def test_coordinator_10_committed_transactions_win_by_the_offset_of_their_records() -> None:
    """An aborted commit never comes (read_committed); a committed one counts where it was written.

    Offsets 0 plain, 1 in a transaction that aborts, 2 in one whose marker is at 9, 3 plain.
    """
    written = {0: ("plain", 10), 1: ("aborted", 99), 2: ("committed", 20), 3: ("plain", 30)}
    visible = [
        decode(record(commit(offset=value), at), partitions=PARTITIONS)
        for at, (fate, value) in written.items()
        if fate != "aborted"
    ]
    seen_at_its_marker = [visible[0], visible[2], visible[1]]
    assert winner(*visible).offset == winner(*seen_at_its_marker).offset == 30
    assert winner(*visible[:2]).offset == 20
    assert winner(*visible).record_offset == 3


def test_coordinator_11_types_0_and_1_are_one_logical_offset() -> None:
    """The later one wins, whichever type it is."""
    old, new = log(commit(offset=5, kind=0, version=0), commit(offset=6, version=1))
    found = winner(old, new)
    assert (found.offset, found.record_type) == (6, 1)
    back = winner(*log(commit(offset=6), commit(offset=5, kind=0, version=0)))
    assert (back.offset, back.record_type) == (5, 0)


def test_coordinator_12_offset_order_decides_not_timestamps() -> None:
    """A tombstone, then a commit that says it is a day older: the commit stands."""
    found = winner(*log(gone(commit()), commit(offset=7, at=T - 24 * HOUR)))
    assert (found.offset, found.is_tombstone) == (7, False)
    lost = winner(*log(commit(offset=7, at=T + HOUR), gone(commit())))
    assert (lost.offset, lost.live) == (None, False)


def test_any_order_of_arrival_gives_the_same_state() -> None:
    """Offsets decide; Spark hands records over in any order."""
    lines = [*consumer_group(), commit(), commit(offset=2), *to_classic(), gone(commit(partition=1))]
    records = log(*lines)
    shuffled = random.Random(7).sample(records, len(records))
    assert materialise(shuffled).groups == materialise(records).groups


def test_time_travel_takes_what_lies_before_the_position() -> None:
    """End offsets are exclusive, and a partition that is not named gives nothing."""
    records = log(commit(offset=1), commit(offset=2), gone(commit()))
    assert materialise(records, {HOME: 2}).groups["g"].offsets == {("t1", 0): 2}
    assert materialise(records, {HOME: 1}).groups["g"].offsets == {("t1", 0): 1}
    assert materialise(records).groups["g"].offsets == {}
    assert materialise(records, {ELSEWHERE: 9}).groups == {}


@pytest.mark.parametrize(
    ("lines", "family"),
    [
        ([commit()], GroupFamily.SIMPLE),
        ([commit(), classic("g")], GroupFamily.CLASSIC),
        ([classic("g", "m1", protocol_type="connect")], GroupFamily.CLASSIC),
        ([commit(), *consumer_group()], GroupFamily.CONSUMER),
        ([*consumer_group(), *to_classic()], GroupFamily.CLASSIC),
        ([epoch(kind=11)], GroupFamily.SHARE),
        ([epoch(kind=17), commit()], GroupFamily.STREAMS),
        ([classic("g"), *consumer_group()], GroupFamily.ANOMALY),
        ([classic("g"), gone(classic("g")), *consumer_group()], GroupFamily.CONSUMER),
        ([commit(), gone(commit())], GroupFamily.GONE),
    ],
)
def test_the_family_of_a_group(lines: list[object], family: GroupFamily) -> None:
    """Live 3, 11, 17, 2 in this order; two families in one partition: anomaly."""
    assert materialise(log(*lines)).groups["g"].family is family  # type: ignore[arg-type]


def test_a_group_shows_its_members_epoch_subscriptions_and_tombstones() -> None:
    """What the admin API would answer, out of the records alone."""
    native = materialise(log(*consumer_group(), member("g", "m2", topics=["t2"]))).groups["g"]
    assert (native.members, native.epoch, native.protocol_type) == (("m1", "m2"), 5, "consumer")
    assert native.subscribed == {"t1", "t2"}
    after = materialise(log(*consumer_group(), *to_classic())).groups["g"]
    assert (after.members, after.epoch, after.subscribed) == (("m1",), 4, {"t1"})
    assert [one.record_type for one in after.removed] == [3, 4, 5, 6, 7, 8]
    residue = materialise(log(current())).groups["g"]
    assert (residue.family, residue.headless) == (GroupFamily.CONSUMER, True)


def test_foreign_records_are_reported_and_never_merged() -> None:
    """Residue of an expansion: a higher log offset elsewhere changes nothing, its time is compared."""
    home = log(commit(offset=10, at=T), start=5)
    older = log(commit(offset=99, at=T - 1), classic("g"), start=50, partition=ELSEWHERE)
    state = materialise([*home, *older])
    assert state.groups["g"].offsets == {("t1", 0): 10}
    assert state.groups["g"].family is GroupFamily.SIMPLE
    (foreign,) = state.foreign_commits
    assert (foreign.commit.offset, foreign.expected_partition, foreign.newer) == (99, HOME, False)
    assert foreign.home is not None
    assert foreign.home.offset == 10
    assert [one.record_type for one in state.foreign_records] == [2]
    (newer,) = materialise([*home, *log(commit(at=T + 1), partition=ELSEWHERE)]).foreign_commits
    assert newer.newer
    (alone,) = materialise(log(commit(), partition=ELSEWHERE)).foreign_commits
    assert (alone.home, alone.newer) == (None, None)


def test_defaults_of_older_versions_and_damaged_winners() -> None:
    """Version 0 has no leader epoch; a damaged record still wins over an older good one."""
    old = winner(*log(commit(version=0, kind=0)))
    assert (old.leader_epoch, old.expire_timestamp, old.topic_id) == (-1, -1, "")
    assert winner(*log(commit(version=1))).expire_timestamp == T + 24 * HOUR
    assert winner(*log(commit(version=4))).topic_id == U
    good = record(commit(offset=1), 0)
    bad = LogRecord(partition=HOME, offset=1, timestamp_ms=T, key=good.key, value=b"\0\3\0")
    found = winner(*(decode(one, partitions=PARTITIONS) for one in (good, bad)))
    assert (found.status, found.offset, found.live) == (DecodeStatus.ERROR, None, True)


def test_unknown_and_unreadable_records_are_kept_apart() -> None:
    """A type of the future and a key without a type change no group and are not lost."""
    raw = [(b"\0\x63\0\1g", b"\0\0"), (b"\0", b"x"), (None, None)]
    rows = [
        decode(LogRecord(partition=0, offset=i, timestamp_ms=T, key=k, value=v), partitions=PARTITIONS)
        for i, (k, v) in enumerate(raw)
    ]
    state = materialise([*rows, *log(commit(), start=9)])
    assert [one.record_type for one in state.unknown] == [0x63]
    assert [one.src_offset for one in state.unreadable] == [1, 2]
    assert list(state.groups) == ["g"]


def test_records_decoded_without_a_partition_count_are_refused() -> None:
    """Without it foreign records would be merged unseen."""
    with pytest.raises(Rejected, match="without a partition count"):
        materialise([decode(record(commit(), 0), partitions=None)])


WEEK = 7 * 24 * HOUR


@pytest.mark.parametrize(
    ("lines", "rule", "expires", "overdue"),
    [
        ([commit(version=1), classic("g", "m1")], "T1", T + 24 * HOUR, False),
        ([commit(at=T - WEEK), classic("g", since=T)], "T2", T + WEEK, False),
        ([commit(at=T - WEEK), classic("g", since=-1)], "T2", T, True),
        ([commit(at=T - WEEK), classic("g", "m1")], "T3", None, False),
        (
            [commit(topic="other", at=T - WEEK), classic("g", "m1", protocol_type="connect")],
            "T3",
            None,
            False,
        ),
        ([commit(topic="other", at=T - WEEK), classic("g", "m1")], "T4", T, True),
        ([commit(at=T - WEEK), *consumer_group()], "T5", None, False),
        ([commit(at=T - WEEK), epoch()], "T6", T, True),
        ([commit(topic="other"), *consumer_group()], "T6", T + WEEK, False),
        ([commit(at=T - WEEK)], "T7", T, True),
        ([commit(at=T), classic("g", protocol_type="")], "T7", T + WEEK, False),
    ],
)
def test_retention_follows_the_kind_of_group(
    lines: list[object], rule: str, expires: int | None, *, overdue: bool
) -> None:
    """Each rule with its clock; an emptied consumer group's old offsets are overdue at once."""
    group = materialise(log(*lines)).groups["g"]  # type: ignore[arg-type]
    (risk,) = retention_risks(group, retention_ms=WEEK, now_ms=T)
    assert (risk.rule, risk.expires_at_ms, risk.overdue) == (rule, expires, overdue)
    assert risk.reason


def test_what_happens_when_the_group_empties_is_told_beforehand() -> None:
    """A classic group's clock starts then; a consumer group's started at the commit."""
    lines = [commit(at=T - WEEK)]
    native = materialise(log(*lines, *consumer_group())).groups["g"]
    (risk,) = retention_risks(native, retention_ms=WEEK, now_ms=T)
    assert risk.when_emptied_ms == T
    old = materialise(log(*lines, classic("g", "m1"))).groups["g"]
    (kept,) = retention_risks(old, retention_ms=WEEK, now_ms=T)
    assert kept.when_emptied_ms == T + WEEK
