"""Syncing on commit: what is collected, what is written when, and how stale a group is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.domain.partitions import TopicPartition
from groupshift.links.ports import GroupPartition, TailBatch
from groupshift.links.sync_apply import lease, positions_of
from groupshift.links.sync_follow import CommitQueue, Follower, FollowRules
from groupshift.links.write_rules import RewindPolicy
from groupshift_testing.link_sides import LinkWorld, MemorySide
from support.link_worlds import Cycles, link, request

ORDERS = TopicPartition("orders", 0)


class Following:
    """A follower over a world; ``said`` are its sentences."""

    def __init__(self, follower: Follower, cycles: Cycles, said: list[str]) -> None:
        self.follower, self.cycles, self.world, self.said = follower, cycles, cycles.world, said

    def steps(self, seconds: float, *, each: float = 0.05) -> int:
        """Let time pass in steps; returns how many offsets were written."""
        before = self.follower.writes
        for _ in range(round(seconds / each)):
            self.world.clock.sleep(each)
            self.follower.step()
        return self.follower.writes - before


@contextmanager
def following(*, partitions: int = 1, **asked: Any) -> Iterator[Following]:
    """A follower that has made its first cycle over 300 copied records."""
    world = LinkWorld(link(), partitions=partitions)
    world.fill(300)
    cycles, said = Cycles(world), list[str]()
    at = world.opened
    with lease(at, cycles.runs, "follower") as held:
        follower = Follower(at, request(**asked), held, world.tail, tell=said.append)
        assert not follower.is_fresh([], at_most_ms=1_000_000), "nothing is known before the first cycle"
        follower.step()
        yield Following(follower, cycles, said)


def test_a_commit_is_on_the_target_within_a_moment() -> None:
    """Translated, and exact."""
    with following() as of:
        of.world.commit("billing", 0, 150)
        of.steps(0.05)
        assert of.follower.stale_ms("billing") > 0
        assert of.steps(0.3) == 1
        assert of.world.offset("billing") == 150
        assert of.follower.stale_ms("billing") == 0
        assert of.follower.is_fresh(["billing"], at_most_ms=0)


def test_commits_of_one_group_are_collected_and_written_once() -> None:
    """All that came within 200 ms; not those of another group that came later."""
    with following() as of:
        for offset in range(100, 110):
            of.world.commit("billing", 0, offset)
            of.steps(0.01, each=0.01)
        assert of.world.target.written == []
        of.world.commit("late", 0, 100)
        of.steps(0.15)
        assert [(row.group, row.offset) for row in of.world.target.written] == [("billing", 109)]
        of.steps(0.3)
        assert {row.group for row in of.world.target.written} == {"billing", "late"}


def test_groups_that_are_due_together_are_synced_together() -> None:
    """One plan for all of them, and for no other group."""
    with following() as of:
        for group in ("a", "b", "c"):
            of.world.commit(group, 0, 150)
        plans = []
        for _ in range(10):
            of.world.clock.sleep(0.05)
            if groups := of.follower.step().plain.groups:
                plans.append(groups)
        assert plans == [{"a", "b", "c"}]


def test_a_live_group_is_left_alone_and_tried_again_when_it_is_empty() -> None:
    """Without a new commit on the source."""
    with following() as of:
        of.world.target.join("billing")
        of.world.commit("billing", 0, 150)
        assert of.steps(3) == 0
        assert of.follower.stale_ms("billing") >= 2_900
        assert list(of.follower.stale()) == ["billing"]
        of.world.target.leave("billing")
        assert of.steps(10) == 1
        assert of.world.offset("billing") == 150


@pytest.mark.parametrize("first", [40, None])
def test_a_consumer_that_joins_no_group_is_never_written_over(first: int | None) -> None:
    """It commits every 100 ms, from the first look on or later; when it ends, its group is synced again."""
    with following() as of:
        at, own = of.world.at_target(0), itertools.count(first or 40)

        def commit(_seconds: float) -> None:
            of.world.target.commit_as_client("billing", at, next(own))

        if first is None:
            of.world.commit("billing", 0, 20)
            of.steps(1)
            assert of.world.offset("billing") == 20
            of.world.target.written.clear()
        of.world.clock.on_sleep.append(commit)
        for offset in range(150, 190):
            of.world.commit("billing", 0, offset)
            of.steps(0.5, each=0.1)
        assert of.world.target.written == []
        of.world.clock.on_sleep.clear()
        of.world.commit("billing", 0, 299)
        of.steps(60, each=0.5)
        assert of.world.offset("billing") == 299


def test_an_offset_whose_copies_are_not_there_yet_is_made_exact_when_they_are() -> None:
    """The group commits once, and then nothing."""
    with following() as of:
        replication = of.world.replications[0]
        for number in range(50):
            replication.produce(b"new %d" % number)
        of.world.commit("billing", 0, 330)
        of.steps(0.5)
        assert of.world.offset("billing") == 300
        assert of.follower.stale_ms("billing") > 0, "its records are not copied yet"
        of.world.settle()
        of.steps(10)
        assert of.world.offset("billing") == 330
        assert of.follower.stale_ms("billing") == 0


def test_a_tail_that_is_behind_makes_cycles_and_says_so() -> None:
    """What was committed where the tail is not yet is synced all the same."""
    with following() as of:
        of.world.tail.behind_ms = 60_000
        of.world.commit("billing", 0, 150)
        of.world.tail.commits.clear()
        of.steps(1)
        assert (
            "the tail of the source's commits is 60 s behind: all groups are synced every 30 s" in of.said[0]
        )
        assert not of.follower.is_fresh(["billing"], at_most_ms=60_000)
        of.steps(35, each=0.5)
        assert of.world.offset("billing") == 150
        of.world.tail.behind_ms = 0
        of.steps(1)
        assert of.said[1:] == ["the tail has caught up: groups are synced on commit again"]
        assert of.follower.is_fresh(["billing"], at_most_ms=0)


def test_groups_that_the_filters_leave_out_are_not_followed() -> None:
    """Their commits cost nothing."""
    with following(groups_exclude=("secret",)) as of:
        of.world.commit("secret", 0, 150)
        assert of.steps(1) == 0
        assert of.follower.stale_ms("secret") == 0


def test_positions_are_written_every_few_seconds_and_at_the_end() -> None:
    """Not with each batch: a fail-over goes on that much earlier."""
    with following() as of:
        of.world.commit("billing", 0, 150)
        of.steps(1)
        assert of.world.positions.writes == 0
        of.steps(5)
        assert of.world.positions.writes == 1
        of.world.commit("billing", 0, 160)
        of.steps(0.5)
        of.follower.close()
        assert of.world.positions.writes == 2
        (position,) = positions_of(of.world.opened, of.cycles.runs).values()
        assert (position.committed, position.written) == (160, 160)


def test_a_rewind_of_the_source_is_known_from_what_was_written_a_moment_ago() -> None:
    """Before the positions are in the journal."""
    with following(rewind_policy=RewindPolicy.FOLLOW_SOURCE) as of:
        of.world.commit("billing", 0, 150)
        of.steps(0.5)
        of.world.commit("billing", 0, 90)
        of.steps(0.5)
        assert of.world.offset("billing") == 90


def test_a_group_that_is_not_read_in_full_is_not_taken_for_in_step() -> None:
    """What was read of it is written; it is tried again for the rest."""
    with following(partitions=2) as of:
        of.world.source.unread["billing"] = "some of its offsets are not given"
        for partition in (0, 1):
            of.world.commit("billing", partition, 150)
        of.steps(3)
        assert (of.world.offset("billing", 0), of.world.offset("billing", 1)) == (150, None)
        assert of.follower.stale_ms("billing") > 0
        of.world.source.unread.clear()
        of.steps(10)
        assert of.world.offset("billing", 1) == 150
        assert of.follower.stale_ms("billing") == 0


def test_a_leader_that_does_not_answer_holds_up_no_other_partition() -> None:
    """Groups of the others are synced on commit all the same."""
    with following(partitions=2) as of:
        of.world.target.down.add("open primary.orders-1")
        of.world.commit("billing", 0, 150)
        of.world.commit("fraud", 1, 150)
        of.steps(1)
        assert (of.world.offset("billing", 0), of.world.offset("fraud", 1)) == (150, None)
        assert of.follower.stale_ms("fraud") > 0
        of.world.target.down.clear()
        of.steps(5)
        assert of.world.offset("fraud", 1) == 150


def test_somebody_who_commits_right_after_a_write_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another offset is read back: the group is not in step, and nothing is kept of it."""
    with following() as of:
        target, commit = of.world.target, of.world.target.commit

        def committed(self: Any, rows: Any, *, fenced: bool = False) -> Any:
            refused = commit(rows, fenced=fenced)
            target.commit_as_client("billing", of.world.at_target(0), 20)
            return refused

        monkeypatch.setattr(MemorySide, "commit", committed)
        of.world.commit("billing", 0, 150)
        of.steps(2)
        assert of.follower.stale_ms("billing") > 1_000
        of.follower.close()
        assert of.world.positions.writes == 0


# -- the queue -----------------------------------------------------------------------------------------------

KEY = GroupPartition("billing", ORDERS)


def test_a_commit_during_a_sync_stays_due() -> None:
    """It may have come after the look at the source."""
    queue = CommitQueue(FollowRules())
    queue.add(TailBatch(commits=[(KEY, 1_000)]), 1_000)
    queue.add(TailBatch(commits=[(KEY, 1_250)]), 1_260)
    queue.settle("billing", looked_ms=1_200)
    assert queue.stale_ms("billing", 1_300) == 50
    assert queue.due(1_400) == ["billing"]
    queue.settle("billing", looked_ms=1_250)
    assert len(queue) == 0


@pytest.mark.parametrize(
    ("tries", "wait_ms"), [(0, 1_000), (1, 2_000), (4, 16_000), (5, 30_000), (99, 30_000)]
)
def test_a_group_that_is_not_in_step_is_tried_less_and_less_often(tries: int, wait_ms: int) -> None:
    """Up to the interval of cycles."""
    queue = CommitQueue(FollowRules())
    for _ in range(tries + 1):
        queue.put_off("billing", 0)
    assert queue.due(wait_ms - 1) == []
    assert queue.due(wait_ms) == ["billing"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=200))
def test_a_group_is_stale_since_its_oldest_commit_however_many_come(gaps: list[int]) -> None:
    """And its memory is bounded."""
    queue, now = CommitQueue(FollowRules()), 0
    for gap in gaps:
        now += gap
        queue.add(TailBatch(commits=[(KEY, now)]), now)
    first = gaps[0] if gaps else now
    assert queue.stale_ms("billing", now) == now - first
    queue.settle("billing", looked_ms=now)
    assert queue.stale_ms("billing", now + 5) == 0
