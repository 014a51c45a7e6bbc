"""Watching the members of a group: a look again and again, and what the rules say after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from groupshift.domain.group_protocol import Kind, ProtocolView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Rejected, Transient
from groupshift.moves.protocol.liveness_rules import UNANSWERED, MemberLook, MemberWatch
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import GroupSnapshots, ProtocolViews

_READ = frozenset({Kind.CLASSIC, Kind.CONSUMER})
_WATCHABLE = _READ | {Kind.ABSENT, Kind.UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Which group, for how many seconds and how often; ``expected`` are names of members (client id, instance
    id or member id), a name twice for two members; the bounds are `MemberWatch`'s."""

    group: str
    for_s: float
    every_s: float = 1.0
    expected: tuple[str, ...] = ()
    gone_s: float = 5.0
    still_s: float = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One look: the group, None when nobody answered, and every finding after it."""

    at_ms: int
    view: ProtocolView | None
    findings: tuple[Finding, ...]

    @property
    def noticed(self) -> tuple[Finding, ...]:
        """The findings that did not pass."""
        return tuple(each for each in self.findings if each.verdict is not Verdict.PASS)


def watch_members(
    views: ProtocolViews, snapshots: GroupSnapshots, clock: Clock, asked: WatchRequest
) -> Iterator[Watched]:
    """Look until the time is over, at least once. A look that is not answered is a finding, not an error.

    Raises `Rejected` for a group that cannot be watched, else as `ProtocolViews.look`."""
    watch = MemberWatch(expected=Counter(asked.expected), gone_s=asked.gone_s, still_s=asked.still_s)
    deadline = clock.now_ms() + asked.for_s * 1000
    while True:
        try:
            look = _look(views, snapshots, asked.group)
        except Transient as why:
            silent = Finding(rule=UNANSWERED, verdict=Verdict.ERROR, reason=str(why))
            yield Watched(at_ms=clock.now_ms(), view=None, findings=(silent,))
        else:
            _refuse(look, asked, first=watch.latest is None)
            watch = watch.after(look)
            yield Watched(at_ms=look.at_ms, view=look.view, findings=watch.findings())
        left = deadline - clock.now_ms()
        if left <= 0:
            return
        clock.sleep(min(asked.every_s, left / 1000))


def _look(views: ProtocolViews, snapshots: GroupSnapshots, group: str) -> MemberLook:
    """Members first, then offsets, then log ends: an offset is never ahead of its log."""
    view = views.look(group)
    if view.group.kind not in _READ or not MemberLook(view=view).told:
        return MemberLook(view=view)
    state = snapshots.take([group])
    unread = [problem.problem for problem in state.problems if problem.group == group]
    if unread:
        return MemberLook(view=view, unread=unread[0])
    return MemberLook(
        view=view,
        committed={TopicPartition(row.topic, row.partition): row.offset for row in state.offsets},
        ends={TopicPartition(row.topic, row.partition): row.log_end for row in state.log_ends},
    )


def _refuse(look: MemberLook, asked: WatchRequest, *, first: bool) -> None:
    kind = look.view.group.kind
    if kind not in _WATCHABLE:
        raise Rejected(f"group {asked.group!r} is a {kind} group: its members are not read; watch another")
    if first and kind is Kind.ABSENT and not asked.expected:
        raise Rejected(
            f"group {asked.group!r}: no broker knows it, and nobody is expected; name a group that has "
            "members, or its members-to-be with --expect"
        )
