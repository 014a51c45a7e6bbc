"""Watching members over looks that were seen before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from groupshift.application.protocol_watch import Watched, WatchRequest, watch_members
from groupshift.domain.group_protocol import Kind, Protocol, ProtocolGroup, ProtocolView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState, LogEndRow, OffsetRow, ProblemRow
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.ports.cluster import Progress
from groupshift_testing.clock import ManualClock
from groupshift_testing.offset_brokers import MemoryProtocolViews
from support.protocol_groups import broker, consumer, member, view


@dataclass
class Growing:
    """A log that is one record longer at each look; nothing is ever committed beyond 5."""

    problems: tuple[ProblemRow, ...] = ()
    asked: list[Collection[str] | None] = field(default_factory=list)

    def take(
        self,
        groups: Collection[str] | None = None,
        *,
        progress: Progress | None = None,  # noqa: ARG002 - the port's
    ) -> ClusterState:
        self.asked.append(groups)
        return ClusterState(
            cluster_id="c",
            taken_at_ms=1,
            offsets=(OffsetRow(group="g", topic="t", partition=0, offset=5),),
            log_ends=(LogEndRow(topic="t", partition=0, log_start=0, log_end=9 + len(self.asked)),),
            problems=self.problems,
        )

    def cluster_id(self) -> str:
        return "c"

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Timed(MemoryProtocolViews):
    """Looks are dated by the clock; the first ones may meet a broker that is not there."""

    clock: ManualClock = field(default_factory=ManualClock)
    silent: int = 0

    def look(self, group: str) -> ProtocolView:
        if self.silent:
            self.silent -= 1
            raise Transient("broker 2 does not answer")
        return replace(MemoryProtocolViews.look(self, group), taken_at_ms=self.clock.now_ms())


def run(views: Timed, snapshots: Growing, **asked: object) -> list[Watched]:
    """Every look of a watch of ten seconds."""
    request = WatchRequest(group="g", **{"for_s": 10.0, **asked})
    return list(watch_members(views, snapshots, views.clock, request))


def rules(look: Watched) -> list[str]:
    """The rules that did not pass."""
    return [finding.rule for finding in look.noticed]


def test_a_member_that_never_comes_is_noticed_within_the_bound_and_one_look() -> None:
    """Eleven looks in ten seconds, the first five of them without a finding."""
    looks = run(Timed([view(consumer(2))]), Growing(), expected=("c0", "c9"))
    assert len(looks) == 11
    assert [rules(look) for look in looks[:5]] == [[]] * 5
    assert all(rules(look) == ["PM01"] for look in looks[5:])


def test_offsets_and_log_ends_of_the_group_are_read_at_each_look() -> None:
    """The member that holds the partition is named once it stood for eight seconds."""
    holder = member(Protocol.CONSUMER, 1, epoch=3, assigned=frozenset({TopicPartition("t", 0)}))
    snapshots = Growing()
    looks = run(Timed([view(consumer(0, members=(holder,)))]), snapshots)
    assert snapshots.asked == [["g"]] * len(looks)
    assert (rules(looks[7]), rules(looks[-1])) == ([], ["PM04"])


def test_a_problem_of_the_group_is_said_and_one_of_another_is_not() -> None:
    """Offsets of a group with an open transaction are not complete."""
    problems = (ProblemRow(group="h", problem="x"), ProblemRow(group="g", problem="a transaction is open"))
    (look,) = run(Timed([view(consumer(1))]), Growing(problems), for_s=0.0)
    assert [finding.reason for finding in look.noticed] == [
        "committed offsets cannot be read: a transaction is open"
    ]


def test_nothing_but_members_is_asked_where_the_coordinator_describes_nobody() -> None:
    """With the feature off the finding does not wait for offsets that cannot be had."""
    off = view(consumer(0, state="Stable"), broker(features={"group.version": 0}))
    snapshots = Growing()
    (look,) = run(Timed([off]), snapshots, for_s=0.0)
    assert (rules(look), snapshots.asked) == (["PM03"], [])


def test_a_look_without_an_answer_is_a_finding_and_the_watch_goes_on() -> None:
    """Two silent looks, then what the group says."""
    looks = run(Timed([view(consumer(1))], silent=2), Growing(), for_s=2.5)
    assert [rules(look) for look in looks] == [["PM06"], ["PM06"], [], []]
    assert looks[0].view is None
    assert (looks[0].noticed[0].verdict, looks[0].noticed[0].reason) == (
        Verdict.ERROR,
        "broker 2 does not answer",
    )


def test_a_group_that_cannot_be_watched_is_refused() -> None:
    """One of another kind, and one that nobody knows unless somebody is expected in it."""
    share = ProtocolGroup(group="g", kind=Kind.SHARE, state="Stable")
    absent = ProtocolGroup(group="g", kind=Kind.ABSENT)
    with pytest.raises(Rejected, match="'g' is a share group"):
        run(Timed([view(share)]), Growing())
    with pytest.raises(Rejected, match="nobody is expected"):
        run(Timed([view(absent)]), Growing())
    looks = run(Timed([view(absent)]), Growing(), expected=("c1",))
    assert rules(looks[-1]) == ["PM01"]
