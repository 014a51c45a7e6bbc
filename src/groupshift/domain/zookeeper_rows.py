"""Groups that ZooKeeper coordinates, as rows of the one schema of cluster snapshots.

Source: specs/zookeeper-coordination.md §§1.2, 1.4, 3, 6. ZooKeeper knows no group type, protocol, generation,
leader epoch or metadata; what it does not know is null.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from groupshift.domain.cluster_rows import (
    GONE,
    AssignmentRow,
    GroupRow,
    MemberRow,
    OffsetRow,
    ProblemRow,
    SubscriptionRow,
)
from groupshift.domain.coordination import Mode, effective_mode
from groupshift.domain.observation import ZookeeperSide
from groupshift.domain.registration import Pattern, Registration
from groupshift.errors import Rejected

ZOOKEEPER = "zookeeper"
"""The type of a group that ZooKeeper coordinates."""


@dataclass(slots=True, kw_only=True)
class ZookeeperRows:
    """Rows by table; see `groupshift.domain.cluster_rows`."""

    groups: list[GroupRow] = field(default_factory=list)
    members: list[MemberRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    assignments: list[AssignmentRow] = field(default_factory=list)
    offsets: list[OffsetRow] = field(default_factory=list)
    problems: list[ProblemRow] = field(default_factory=list)

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that a group commits, owns or subscribes to."""
        return frozenset(
            row.topic for rows in (self.subscriptions, self.assignments, self.offsets) for row in rows
        )

    @property
    def unread(self) -> frozenset[str]:
        """Those of them that no member subscribes to or owns."""
        read = {row.topic for rows in (self.subscriptions, self.assignments) for row in rows}
        return self.topics - read


def coordinated_by_zookeeper(side: ZookeeperSide) -> bool:
    """Whether ZooKeeper knows the group and decides who owns what in it now (§8.3)."""
    mode = effective_mode(side.mode, side.ids, side.migration_ids)
    return side.exists and mode is Mode.ZOOKEEPER


def zookeeper_rows(sides: Mapping[str, ZookeeperSide], known: Collection[str]) -> ZookeeperRows:
    """The rows of these groups, in the order of their keys; an absent one is a group that is `GONE`.

    ``known`` are the topics of the cluster, over which a wildcard subscription is expanded."""
    rows = ZookeeperRows()
    for group, side in sorted(sides.items()):
        state = ("Stable" if side.members else "Empty") if side.exists else GONE
        rows.groups.append(GroupRow(group=group, type=ZOOKEEPER, state=state))
        _members(rows, group, side, known)
        rows.assignments += sorted(
            (
                AssignmentRow(
                    group=group,
                    member_id=owner.member_id,
                    topic=owner.partition.topic,
                    partition=owner.partition.partition,
                )
                for owner in side.owners
            ),
            key=lambda row: (row.member_id, row.topic, row.partition),
        )
        rows.offsets += [
            OffsetRow(
                group=group, topic=at.partition.topic, partition=at.partition.partition, offset=at.offset
            )
            for at in sorted(side.offsets, key=lambda at: at.partition)
        ]
        rows.problems += [ProblemRow(group=group, problem=text) for text in side.every_problem]
    return rows


def _members(rows: ZookeeperRows, group: str, side: ZookeeperSide, known: Collection[str]) -> None:
    for member in sorted(side.members, key=lambda member: member.member_id):
        rows.members.append(
            MemberRow(
                group=group,
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.host,
                member_type=member.kind.value,
            )
        )
        registration = Registration(subscription=member.subscription, pattern=Pattern(member.pattern))
        try:
            topics = sorted(registration.topics(known))
        except Rejected as wrong:
            text = (
                f"member {member.member_id} of group {group!r} subscribes by a pattern that cannot be "
                f"evaluated ({wrong}): which topics it wants is unknown; restart it with another one"
            )
            rows.problems.append(ProblemRow(group=group, problem=text))
            continue
        rows.subscriptions += [
            SubscriptionRow(group=group, member_id=member.member_id, topic=topic) for topic in topics
        ]
