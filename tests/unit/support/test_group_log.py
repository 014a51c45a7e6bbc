"""The lines of an old member that its recorder read late: which of them are no overlap."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.audit.ownership import Ended, History, Interval, OffsetWrite
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.ledger import Delivery
from support.group_log import GroupLog

AT = TopicPartition("orders", 0)
OLD, NEW = "g_m1", "g_m2"


def _line(member: str, offset: int, at_ms: int) -> Delivery:
    return Delivery(member=member, partition=AT, offset=offset, at_ms=at_ms)


LINES = [_line(OLD, 7, 90), _line(OLD, 8, 130), _line(NEW, 9, 120), _line(NEW, 10, 140)]
"""The old member had the partition until 100, the new one from 110; offset 8 is stamped after that."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> GroupLog:
    """A group whose old member had committed so far, and let go of the partition in this way."""
    committed, ended = request.param
    first = Interval(
        partition=AT,
        thread_id=f"{OLD}-0",
        session=1,
        start_zxid=1,
        start_ms=10,
        end_zxid=3,
        end_ms=100,
        ended=ended,
    )
    then = Interval(partition=AT, thread_id=f"{NEW}-0", session=2, start_zxid=4, start_ms=110)
    writes = [(committed, 1, 2, 95), (11, 2, 5, 150)]
    known = History(
        intervals=(first, then),
        offset_writes=tuple(
            OffsetWrite(partition=AT, offset=offset, session=session, zxid=zxid, at_ms=at_ms)
            for offset, session, zxid, at_ms in writes
        ),
        mode_writes=(),
        kinds={},
        problems=(),
    )
    monkeypatch.setattr(GroupLog, "history", lambda _: known)
    return GroupLog(Path("unused"), "g")


@pytest.mark.parametrize("log", [(9, Ended.RELEASED), (8, Ended.RELEASED), (5, Ended.SESSION)], indirect=True)
def test_what_was_committed_or_printed_before_its_end_is_no_overlap(log: GroupLog) -> None:
    """The record that it was handling while it committed counts too."""
    log.assert_no_overlap(LINES, old=[OLD])


@pytest.mark.parametrize("log", [(7, Ended.RELEASED)], indirect=True)
def test_what_a_living_member_had_not_committed_is_one(log: GroupLog) -> None:
    """It may have been delivered after the partition was given up, whatever others commit."""
    with pytest.raises(AssertionError, match="2 overlaps"):
        log.assert_no_overlap(LINES, old=[OLD])


@pytest.mark.parametrize("log", [(9, Ended.RELEASED)], indirect=True)
def test_lines_of_ours_are_never_left_out(log: GroupLog) -> None:
    """Only a recorder of an old member reads late."""
    with pytest.raises(AssertionError, match="2 overlaps"):
        log.assert_no_overlap(LINES, old=[])
