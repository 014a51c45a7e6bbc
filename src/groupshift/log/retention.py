"""When a coordinator may forget a committed offset: rules as data, each with its reason.

The clock differs by the kind of group, and an emptied consumer group can lose week-old offsets at the
next check. Source: docs/reference/group-coordinator.md §1.7 (seen on 4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from groupshift.log.decode import CONSUMER
from groupshift.log.state import Commit, GroupFamily, GroupState

_Applies = Callable[[GroupState, Commit], bool]
_Since = Callable[[GroupState, Commit], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """One line: for which commits it speaks, and from when on the retention counts.

    ``since`` gives epoch ms, or None: not while the group is as it is; ``absolute``: that time is the
    end already, whatever the broker's retention.
    """

    number: str
    applies: _Applies
    since: _Since
    reason: str
    absolute: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRisk:
    """One live commit: ``expires_at_ms`` (epoch ms, None: not as it is), and the same for the case that
    the group empties now. ``overdue``: a broker may forget it at its next check."""

    group_id: str
    topic: str
    partition: int
    rule: str
    reason: str
    expires_at_ms: int | None
    when_emptied_ms: int | None
    overdue: bool


def _subscribed(group: GroupState, commit: Commit) -> bool:
    return group.subscribed is None or commit.topic in group.subscribed


def _committed(_: GroupState, commit: Commit) -> int:
    return commit.commit_timestamp


def _emptied(group: GroupState, commit: Commit) -> int:
    return group.state_timestamp if group.state_timestamp >= 0 else commit.commit_timestamp


def _classic(group: GroupState) -> bool:
    return group.family is GroupFamily.CLASSIC and group.protocol_type != ""


def _newer(group: GroupState) -> bool:
    return group.family in {GroupFamily.CONSUMER, GroupFamily.STREAMS}


RULES = (
    RetentionRule(
        number="T1", applies=lambda _, commit: commit.expire_timestamp >= 0, absolute=True,
        since=lambda _, commit: commit.expire_timestamp,
        reason="the commit carries its own expire timestamp (value version 1), which overrides the broker's",
    ),
    RetentionRule(
        number="T2", applies=lambda group, _: _classic(group) and not group.members, since=_emptied,
        reason="an empty classic group's offsets count from when it became empty",
    ),
    RetentionRule(
        number="T3", since=lambda *_: None,
        applies=lambda group, commit: _classic(group)
        and (group.protocol_type != CONSUMER or _subscribed(group, commit)),
        reason="a member of the classic group wants this topic (or the group's protocol does not say which)",
    ),
    RetentionRule(
        number="T4", applies=lambda group, _: _classic(group), since=_committed,
        reason="no member of the classic group is subscribed to this topic: counts from the commit",
    ),
    RetentionRule(
        number="T5", applies=lambda group, commit: _newer(group) and _subscribed(group, commit),
        since=lambda *_: None, reason="a member of the group is subscribed to this topic",
    ),
    RetentionRule(
        number="T6", applies=lambda group, _: _newer(group), since=_committed,
        reason="nobody is subscribed to this topic: counts from the commit, not from when the group emptied",
    ),
    RetentionRule(
        number="T7", applies=lambda *_: True, since=_committed,
        reason="a group of offsets only: counts from the commit",
    ),
)  # fmt: skip
"""First match speaks."""


def retention_risks(group: GroupState, *, retention_ms: int, now_ms: int) -> tuple[RetentionRisk, ...]:
    """Every live commit of the group with the rule that decides about it.

    ``retention_ms`` is ``offsets.retention.minutes`` in ms, ``now_ms`` the brokers' clock.
    """
    return tuple(_risk(group, one, retention_ms, now_ms) for one in group.commits if one.live)


def _risk(group: GroupState, commit: Commit, retention_ms: int, now_ms: int) -> RetentionRisk:
    rule = _first(RULES, group, commit)
    since = rule.since(group, commit)
    ends = since if since is None or rule.absolute else since + retention_ms
    emptied = ends if ends is not None else now_ms + retention_ms
    if ends is None and _newer(group):
        emptied = commit.commit_timestamp + retention_ms
    return RetentionRisk(
        group_id=group.group_id,
        topic=commit.topic,
        partition=commit.partition,
        rule=rule.number,
        reason=rule.reason,
        expires_at_ms=ends,
        when_emptied_ms=emptied,
        overdue=ends is not None and ends <= now_ms,
    )


def _first(rules: Iterable[RetentionRule], group: GroupState, commit: Commit) -> RetentionRule:
    return next(rule for rule in rules if rule.applies(group, commit))
