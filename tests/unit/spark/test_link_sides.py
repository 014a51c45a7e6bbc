"""Both sides of a link at brokers that answer without a socket, and the tail of the offsets topic."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import GONE, OffsetRow
from groupshift.errors import Conflict
from groupshift.links.ports import GroupPartition
from groupshift.links.write_rules import Failure, LogRange
from groupshift.ports.changes import refusal_of
from groupshift.spark.link_sides import LiveCommitTail, LiveSide
from groupshift_testing.clock import ManualClock
from support.batch_encoder import TRANSACTIONAL, Record, batch, marker
from support.fake_brokers import FakeGroup, FakeLog, FakeWorld

ORDERS = TopicPartition("orders", 0)
OFFSETS = "__consumer_offsets"


def side(world: FakeWorld) -> LiveSide:
    """A side whose brokers are given up soon."""
    return LiveSide(world.observer(1.0), ManualClock(), patience_s=0.1)


def test_states_are_those_of_coordinators_and_a_group_that_is_not_answered_hides_no_other() -> None:
    """Groups that are there, that are not, that may not be seen, and one whose coordinator just moved."""
    world = FakeWorld(
        groups={
            "busy": FakeGroup(state="Stable"),
            "idle": FakeGroup(node=2),
            "moved": FakeGroup(),
            "loads": FakeGroup(error=14),
        },
        hidden_groups={"secret"},
        moved={"moved": 2},
    )
    states = side(world).states(["busy", "idle", "moved", "loads", "secret", "none"])
    assert states == {
        "busy": "Stable",
        "idle": "Empty",
        "moved": "Empty",
        "none": GONE,
        "loads": Failure("COORDINATOR_LOAD_IN_PROGRESS (14)"),
        "secret": Failure("GROUP_AUTHORIZATION_FAILED (30)"),
    }


def test_logs_are_told_by_partition_and_what_is_not_told_is_a_failure() -> None:
    """A partition without a leader, a topic that may not be seen, and one that is not there."""
    world = FakeWorld(
        topics={"orders": [1, -1], "hidden": [1]},
        hidden_topics={"hidden"},
        logs={ORDERS: FakeLog(start=3, stable=7, end=9)},
    )
    logs = side(world).logs(["orders", "hidden", "gone"])
    assert isinstance(logs["hidden"], Failure)
    assert "gone" not in logs
    orders = logs["orders"]
    assert not isinstance(orders, Failure)
    assert orders.topic_id is None
    assert orders.logs[0] == LogRange(3, 9)
    unread = orders.logs[1]
    assert isinstance(unread, Failure)
    assert "orders-1" in unread.error


def row(number: int, offset: int, group: str = "g") -> OffsetRow:
    """A commit."""
    return OffsetRow(group=group, topic="orders", partition=number, offset=offset, metadata="m\0")


def test_a_fenced_commit_leaves_out_what_somebody_else_committed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the look and the join; the rest is committed. A group with members is refused as a whole."""
    at = {TopicPartition("orders", number): (10, "") for number in range(2)}
    groups = {"g": FakeGroup(offsets=dict(at)), "busy": FakeGroup()}
    world = FakeWorld(topics={"orders": [1, 1, 1]}, groups=groups)
    target, committed = side(world), list[OffsetRow]()

    def commit(group: str, choose) -> Mapping[str, str]:
        if group == "busy":
            raise Conflict("group 'busy' has other members")
        now = [replace(row(0, 10), metadata=""), row(1, 12)]
        committed.extend(choose({each.at: each for each in now}))
        return {}

    monkeypatch.setattr(target._fenced, "commit", commit)
    wanted = [row(0, 20), row(1, 20), row(2, 20), row(0, 5, "busy")]
    refused = target.commit(wanted, fenced=True)
    assert committed == [row(0, 20), row(2, 20)]
    assert [bool(refusal_of(refused, each)) for each in wanted] == [False, True, False, True]
    assert "has other members" in refused["busy"]


def commits(first: int, *places: tuple[str, int], tombstone: bool = False) -> list[Record]:
    """Commits of groups for partitions of orders; each has the time of its offset."""
    records = []
    for number, (group, partition) in enumerate(places, first):
        key = struct.pack(">hh", 1, len(group)) + group.encode() + struct.pack(">h", 6) + b"orders"
        key += struct.pack(">i", partition)
        value = None if tombstone else b"\0\1"
        records.append(Record(offset=number, timestamp_ms=1_000 + number, key=key, value=value))
    return records


def tail_of(logs: Iterable[FakeLog], leaders: list[int]) -> tuple[FakeWorld, LiveCommitTail, ManualClock]:
    """A tail over an offsets topic of these partitions, which has begun."""
    by_partition = {TopicPartition(OFFSETS, number): log for number, log in enumerate(logs)}
    world, clock = FakeWorld(topics={OFFSETS: leaders}, logs=by_partition), ManualClock()
    tail = LiveCommitTail(world.observer(1.0), clock)
    assert tail.poll(0.01).commits == ()
    return world, tail, clock


def add(log: FakeLog, records: list[Record], *, stable: bool = True, **more: int) -> None:
    """Append a batch."""
    last = records[-1].offset
    log.batches.append((records[0].offset, last, batch(records, **more)))
    log.end = last + 1
    log.stable = log.end if stable else log.stable


def place(group: str, partition: int) -> GroupPartition:
    """Whose commit it is."""
    return GroupPartition(group, TopicPartition("orders", partition))


def test_the_tail_gives_commits_from_its_first_poll_on_of_all_leaders() -> None:
    """Tombstones and records of other kinds are none; of many commits of a group the first and the last."""
    old = commits(0, ("old", 0))
    logs = [FakeLog(batches=[(0, 0, batch(old))], stable=1, end=1), FakeLog()]
    _, tail, _ = tail_of(logs, [1, 2])
    add(logs[0], commits(1, ("a", 0), ("a", 1), ("b", 0), ("a", 2)))
    add(logs[0], [Record(offset=5, timestamp_ms=1, key=struct.pack(">hh", 2, 1) + b"a", value=b"x")])
    add(logs[1], commits(0, ("c", 3), tombstone=True))
    add(logs[1], commits(1, ("c", 4)))
    batch_ = tail.poll(0.01)
    assert set(batch_.commits) == {
        (place("a", 0), 1_001),
        (place("a", 2), 1_004),
        (place("b", 0), 1_003),
        (place("c", 4), 1_001),
    }
    assert batch_.behind_ms == 0
    assert tail.poll(0.01).commits == ()


def test_commits_of_transactions_count_when_they_are_decided() -> None:
    """An aborted one never, an open one not yet."""
    log = FakeLog()
    _, tail, _ = tail_of([log], [1])
    add(log, commits(0, ("aborted", 0)), attributes=TRANSACTIONAL, producer=3)
    log.batches.append((1, 1, marker(1, 3, commit=False)))
    log.aborted.append((3, 0, 1))
    log.end = log.stable = 2
    add(log, commits(2, ("open", 0)), stable=False, attributes=TRANSACTIONAL, producer=3)
    assert tail.poll(0.01).commits == ()
    log.batches.append((3, 3, marker(3, 3, commit=True)))
    log.end = log.stable = 4
    assert tail.poll(0.01).commits == ((place("open", 0), 1_002),)


def test_a_leader_that_moved_is_looked_up_at_the_next_poll() -> None:
    """Nothing is lost and nothing given twice."""
    log = FakeLog()
    world, tail, _ = tail_of([log], [1])
    add(log, commits(0, ("a", 0)))
    world.topics[OFFSETS] = [2]
    assert tail.poll(0.01).commits == ()
    assert tail.poll(0.01).commits == ((place("a", 0), 1_000),)
    assert tail.poll(0.01).commits == ()


def test_a_tail_that_lost_its_place_is_behind_until_it_goes_on_at_the_end() -> None:
    """Its position was deleted: whoever follows has to look at all groups."""
    log = FakeLog()
    _, tail, clock = tail_of([log], [1])
    clock.sleep(100.0)
    add(log, commits(0, ("a", 0), ("b", 0)))
    log.start = 1
    assert tail.poll(0.01).behind_ms > 10_000
    assert tail.poll(0.01).behind_ms == 0
    add(log, commits(2, ("c", 0)))
    assert tail.poll(0.01).commits == ((place("c", 0), 1_002),)


def test_a_tail_says_how_far_behind_it_is() -> None:
    """It was given a part of what there is."""
    log = FakeLog()
    _, tail, clock = tail_of([log], [1])
    add(log, commits(0, ("a", 0)))
    log.stable = log.end = 50
    assert abs(tail.poll(0.01).behind_ms - (clock.now_ms() - 1_000)) < 10
