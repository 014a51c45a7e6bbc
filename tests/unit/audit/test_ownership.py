"""Owner intervals and offset writes from transactions."""

from __future__ import annotations

import pytest

from groupshift.audit.ownership import Ended, Interval, ModeWrite, OffsetWrite, history
from groupshift.audit.txnlog import Change, Created, DataSet, Deleted, SessionClosed, Transaction
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition

P0 = TopicPartition("orders", 0)
OWNER = "/consumers/g/owners/orders/0"
OFFSET = "/consumers/g/offsets/orders/0"


def at(zxid: int, *changes: Change, session: int = 7) -> Transaction:
    """A transaction at ten times its zxid in milliseconds."""
    return Transaction(zxid=zxid, time_ms=zxid * 10, session=session, changes=changes)


def owned(path: str = OWNER, thread: str = "g_m1-1-0") -> Created:
    """The creation of an owner node."""
    return Created(path=path, data=thread.encode())


def test_an_interval_lasts_from_creation_to_deletion() -> None:
    """Zxids and times of both ends are those of the two transactions."""
    (one,) = history([at(3, owned()), at(9, Deleted(path=OWNER))], "g").intervals
    assert one == Interval(
        partition=P0, thread_id="g_m1-1-0", session=7, start_zxid=3, start_ms=30, end_zxid=9, end_ms=90,
        ended=Ended.RELEASED,
    )  # fmt: skip
    assert one.member_id == "g_m1-1"


def test_the_end_of_a_session_ends_its_intervals() -> None:
    """Listed by the server or not, the nodes of the session are gone; those of others stay."""
    other = "/consumers/g/owners/orders/1"
    for listed in ((), (OWNER,)):
        log = [at(1, owned()), at(2, owned(other, "g_m2-1-0"), session=8), at(5, SessionClosed(paths=listed))]
        first, second = history(log, "g").intervals
        assert (first.end_zxid, first.ended) == (5, Ended.SESSION)
        assert (second.end_zxid, second.end_ms, second.ended) == (None, None, Ended.HELD)


def test_a_hand_over_makes_two_intervals() -> None:
    """The node of the successor is another interval, and the time between is what nobody owned."""
    log = [at(1, owned()), at(4, Deleted(path=OWNER)), at(6, owned(thread="g_m2-1-0"), session=8)]
    found = history(log, "g").intervals
    assert [one.member_id for one in found] == ["g_m1-1", "g_m2-1"]
    assert (found[0].end_ms, found[1].start_ms) == (40, 60)


def test_an_overwritten_node_changes_hands_within_its_session() -> None:
    """Another thread id in the same node ends one interval and begins another; the same one does not."""
    log = [
        at(1, owned()),
        at(2, DataSet(path=OWNER, data=b"g_m1-1-0")),
        at(3, DataSet(path=OWNER, data=b"g_m2-1-0"), session=8),
        at(4, SessionClosed(paths=()), session=7),
    ]
    first, second = history(log, "g").intervals
    assert (first.start_zxid, first.end_zxid, first.ended) == (1, 3, Ended.REPLACED)
    assert (second.thread_id, second.session, second.end_zxid) == ("g_m2-1-0", 7, 4)


def test_offsets_are_every_write_in_order() -> None:
    """The first write creates the node, later ones set it."""
    log = [
        at(1, Created(path=OFFSET, data=b"5")),
        at(2, DataSet(path=OFFSET, data=b"9"), session=8),
    ]
    assert history(log, "g").offset_writes == (
        OffsetWrite(partition=P0, offset=5, session=7, zxid=1, at_ms=10),
        OffsetWrite(partition=P0, offset=9, session=8, zxid=2, at_ms=20),
    )


def test_members_are_aware_when_they_ever_registered_so() -> None:
    """Both registrations make an aware member, in whichever order; ``ids`` alone an old one."""
    registered = {
        (1, "ids/g_m2-1"): b"{}",
        (2, "migration/ids/g_m2-1"): b"{}",
        (3, "ids/g_m1-1"): b"{}",
        (4, "ids/g_m2-1"): b"{}",
    }
    log = [
        at(zxid, Created(path=f"/consumers/g/{where}", data=data))
        for (zxid, where), data in registered.items()
    ]
    assert history(log, "g").kinds == {"g_m1-1": MemberKind.ZOOKEEPER, "g_m2-1": MemberKind.AWARE}


def test_writes_of_the_mode_node_are_kept() -> None:
    """Creation, change and deletion of the mode node, with their times."""
    mode = "/consumers/g/migration/mode"
    log = [
        at(1, Created(path=mode, data=b"kafka")),
        at(2, DataSet(path=mode, data=b"zookeeper")),
        at(3, Deleted(path=mode)),
    ]
    texts = [(one.text, one.zxid) for one in history(log, "g").mode_writes]
    assert texts == [("kafka", 1), ("zookeeper", 2), (None, 3)]
    assert history(log, "g").mode_writes[0] == ModeWrite(text="kafka", zxid=1, at_ms=10)


def test_other_groups_and_parents_do_not_count() -> None:
    """Nodes of another group, of a group with a longer name, and parent nodes are passed over."""
    others = ("/consumers/h/owners/orders/0", "/consumers/g2/owners/orders/0", "/consumers/g/owners/orders")
    found = history([at(1, *(owned(path) for path in others))], "g")
    assert (found.intervals, found.problems) == ((), ())


def test_a_chroot_is_part_of_every_path() -> None:
    """With a chroot only nodes below it belong to the group."""
    log = [at(1, owned(), owned("/kafka" + OWNER, "g_m2-1-0"))]
    assert [one.member_id for one in history(log, "g", "/kafka").intervals] == ["g_m2-1"]


@pytest.mark.parametrize("data", [b"", b"many"])
def test_f01_a_node_without_an_offset_of_what_nobody_reads_is_no_problem(data: bytes) -> None:
    """Nobody owned the partition or committed to it; where somebody did, before or after, it is one."""
    blank = Created(path=OFFSET, data=data)
    assert history([at(1, blank)], "g").problems == ()
    other = owned("/consumers/g/owners/orders/7")
    assert history([at(1, blank), at(2, other)], "g").problems == ()
    committed = DataSet(path=OFFSET, data=b"12")
    for log in (
        [at(1, owned()), at(2, blank)],
        [at(1, blank), at(2, owned())],
        [at(1, blank), at(2, committed)],
    ):
        assert history(log, "g").problems == (f"{OFFSET} was set to {data!r}, which is no offset",)


def test_what_is_not_understood_is_said() -> None:
    """A node older than the log, an offset that is none, and a partition that is none are problems."""
    log = [
        at(1, Deleted(path=OWNER)),
        at(2, Created(path=OFFSET, data=b"many")),
        at(3, owned("/consumers/g/owners/orders/x1")),
    ]
    assert history(log, "g").problems == (
        f"{OWNER} was deleted, but its creation is older than the log",
        f"{OFFSET} was set to b'many', which is no offset",
        "/consumers/g/owners/orders/x1 is no partition",
    )
