"""Assessing and waiting for a protocol move, over looks that were seen before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from groupshift.application.protocol import ProtocolRequest, assess_protocol, await_settled
from groupshift.domain.group_protocol import Kind, Protocol, ProtocolGroup, ProtocolView
from groupshift.domain.protocol.settled import Wanted
from groupshift.domain.rows import ClusterState, ProblemRow
from groupshift.domain.verdict import Verdict
from groupshift.errors import Transient
from groupshift.ports.cluster import Progress
from groupshift_testing.clock import ManualClock
from groupshift_testing.offset_brokers import MemoryProtocolViews
from support.protocol_groups import broker, classic, consumer, view

UP = Protocol.CONSUMER
NATIVE = replace(consumer(2), epoch=3, assignment_epoch=3)


@dataclass
class Snapshots:
    """Gives one state and notes what was asked."""

    state: ClusterState = field(default_factory=lambda: ClusterState(cluster_id="c", taken_at_ms=1))
    asked: list[Collection[str] | None] = field(default_factory=list)

    def take(
        self,
        groups: Collection[str] | None = None,
        *,
        progress: Progress | None = None,  # noqa: ARG002 - the port's
    ) -> ClusterState:
        self.asked.append(groups)
        return self.state

    def cluster_id(self) -> str:
        return self.state.cluster_id

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Silent(MemoryProtocolViews):
    """The first looks meet a broker that is not there."""

    silent: int = 0

    def look(self, group: str) -> ProtocolView:
        if self.silent:
            self.silent -= 1
            raise Transient("broker 2 does not answer")
        return MemoryProtocolViews.look(self, group)


def test_an_assessment_has_the_answers_and_every_finding() -> None:
    """The group is looked at once, its offsets once; ready without a failure."""
    views, snapshots = MemoryProtocolViews([view(classic(3), broker(metadata=30))]), Snapshots()
    found = assess_protocol(views, snapshots, ProtocolRequest(group="g", to=UP))
    assert (views.asked, snapshots.asked) == (["g"], [["g"]])
    assert [answer.number for answer in found.answers] == ["PN14"]
    assert (found.ready, found.judgement.verdict) == (True, Verdict.INCONCLUSIVE)
    rules = [finding.rule for finding in found.judgement.findings]
    assert {"P01", "P19", "H00", "H12"} <= set(rules)
    spoilt = Snapshots(ClusterState(cluster_id="c", taken_at_ms=1, problems=[ProblemRow(problem="unread")]))
    again = assess_protocol(views, spoilt, ProtocolRequest(group="g", to=UP))
    assert (again.ready, again.judgement.verdict) == (False, Verdict.ERROR)


def test_nothing_more_is_read_of_what_is_no_group_of_consumers() -> None:
    """Neither offsets nor answers."""
    snapshots = Snapshots()
    share = MemoryProtocolViews([view(ProtocolGroup(group="g", kind=Kind.SHARE, state="Stable"))])
    found = assess_protocol(share, snapshots, ProtocolRequest(group="g", to=UP))
    assert (snapshots.asked, found.answers, found.ready) == ([], (), False)


def test_settling_is_waited_for_as_long_as_allowed() -> None:
    """The first look that passes ends it; at the deadline the last look is judged."""
    on_the_way = view(replace(NATIVE, state="Assigning"))
    views = MemoryProtocolViews([on_the_way, on_the_way, view(NATIVE)])
    found = await_settled(views, ManualClock(), "g", Wanted(protocol=UP), within_s=60)
    assert (found.looks, found.judgement.verdict) == (3, Verdict.PASS)
    never = await_settled(
        MemoryProtocolViews([on_the_way]), ManualClock(), "g", Wanted(protocol=UP), within_s=2
    )
    assert (never.looks > 2, never.judgement.verdict) == (True, Verdict.FAIL)
    once = await_settled(MemoryProtocolViews([on_the_way]), ManualClock(), "g", Wanted(protocol=UP))
    assert (once.looks, once.judgement.verdict) == (1, Verdict.FAIL)


def test_a_broker_that_is_restarted_is_waited_for_too() -> None:
    """Until the deadline; then the look's own error is told."""
    found = await_settled(
        Silent([view(NATIVE)], silent=2), ManualClock(), "g", Wanted(protocol=UP), within_s=60
    )
    assert (found.looks, found.judgement.verdict) == (3, Verdict.PASS)
    with pytest.raises(Transient, match="broker 2"):
        await_settled(
            Silent([view(NATIVE)], silent=10**6), ManualClock(), "g", Wanted(protocol=UP), within_s=2
        )
