"""Every record type of ``__consumer_offsets``: its name, its key and the layouts of its value.

Keys are classic-encoded in every release, and their leading int16 is the type.
Source: specs/group-coordinator.md §§1.3 and 1.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.coordinator_log import values as v
from groupshift.domain.coordinator_log import values_new as n
from groupshift.domain.coordinator_log.fields import Schema, int32, text


class Family(StrEnum):
    """Which kind of group a record type belongs to."""

    OFFSETS = "offsets"
    """Any kind but share: committed offsets."""
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """One type. ``values`` are tried in order, the current layout first; none: never seen on a server.

    ``head`` is what every layout of an unstable type begins with, also one that we do not know.
    """

    number: int
    name: str
    family: Family
    key: Schema
    values: tuple[Schema, ...] = ()
    head: Schema | None = None


_GROUP, _GROUP_ID, _MEMBER_ID = text("group"), text("groupId"), text("memberId")
_COMMIT_KEY = Schema(fields=(_GROUP, text("topic"), int32("partition")))
_OF_GROUP = Schema(fields=(_GROUP_ID,))
_OF_MEMBER = Schema(fields=(_GROUP_ID, _MEMBER_ID))
_OF_EXPRESSION = Schema(fields=(_GROUP_ID, text("regularExpression")))

_TABLE: tuple[tuple[int, str, Family, Schema, tuple[Schema, ...]], ...] = (
    (0, "OffsetCommit", Family.OFFSETS, _COMMIT_KEY, (v.OFFSET_COMMIT,)),
    (1, "OffsetCommit", Family.OFFSETS, _COMMIT_KEY, (v.OFFSET_COMMIT,)),
    (2, "GroupMetadata", Family.CLASSIC, Schema(fields=(_GROUP,)), (v.GROUP_METADATA,)),
    (3, "ConsumerGroupMetadata", Family.CONSUMER, _OF_GROUP, (v.GROUP_EPOCH,)),
    (4, "ConsumerGroupPartitionMetadata", Family.CONSUMER, _OF_GROUP,
     (v.PARTITION_METADATA, v.PARTITION_METADATA_EARLY)),
    (5, "ConsumerGroupMemberMetadata", Family.CONSUMER, _OF_MEMBER, (v.MEMBER, v.MEMBER_EARLY)),
    (6, "ConsumerGroupTargetAssignmentMetadata", Family.CONSUMER, _OF_GROUP, (v.TARGET_EPOCH,)),
    (7, "ConsumerGroupTargetAssignmentMember", Family.CONSUMER, _OF_MEMBER, (v.TARGET, v.TARGET_EARLY)),
    (8, "ConsumerGroupCurrentMemberAssignment", Family.CONSUMER, _OF_MEMBER, (v.CURRENT, v.CURRENT_EARLY)),
    (9, "ShareGroupPartitionMetadata", Family.SHARE, _OF_GROUP,
     (v.PARTITION_METADATA, n.SHARE_STATE_EARLY)),
    (10, "ShareGroupMemberMetadata", Family.SHARE, _OF_MEMBER, (n.SHARE_MEMBER,)),
    (11, "ShareGroupMetadata", Family.SHARE, _OF_GROUP, (n.SHARE_EPOCH, n.SHARE_EPOCH_EARLY)),
    (12, "ShareGroupTargetAssignmentMetadata", Family.SHARE, _OF_GROUP, (v.TARGET_EPOCH,)),
    (13, "ShareGroupTargetAssignmentMember", Family.SHARE, _OF_MEMBER, (v.TARGET,)),
    (14, "ShareGroupCurrentMemberAssignment", Family.SHARE, _OF_MEMBER, (n.SHARE_CURRENT,)),
    (15, "ShareGroupStatePartitionMetadata", Family.SHARE, _OF_GROUP,
     (n.SHARE_STATE, n.SHARE_STATE_EARLY)),
    (16, "ConsumerGroupRegularExpression", Family.CONSUMER, _OF_EXPRESSION, (v.REGULAR_EXPRESSION,)),
    (17, "StreamsGroupMetadata", Family.STREAMS, _OF_GROUP, (n.STREAMS_EPOCH,)),
    (18, "StreamsGroupPartitionMetadata", Family.STREAMS, _OF_GROUP, (v.PARTITION_METADATA,)),
    (19, "StreamsGroupMemberMetadata", Family.STREAMS, _OF_MEMBER, (n.STREAMS_MEMBER,)),
    (20, "StreamsGroupTargetAssignmentMetadata", Family.STREAMS, _OF_GROUP, (v.TARGET_EPOCH,)),
    (21, "StreamsGroupTargetAssignmentMember", Family.STREAMS, _OF_MEMBER, (n.STREAMS_TARGET,)),
    (22, "StreamsGroupCurrentMemberAssignment", Family.STREAMS, _OF_MEMBER, (n.STREAMS_CURRENT,)),
    (23, "StreamsGroupTopology", Family.STREAMS, _OF_GROUP, (n.STREAMS_TOPOLOGY,)),
    (24, "StreamsGroupTargetAssignmentResolvedTopicIds", Family.STREAMS, _OF_GROUP, ()),
)  # fmt: skip

_EPOCH_FIRST = frozenset({11, 12, 14, 17, 20, 22, 23})
"""Unstable types whose first field is an epoch in every layout: all an audit needs of them."""


def _head(number: int, values: tuple[Schema, ...]) -> Schema | None:
    return Schema(fields=values[0].fields[:1]) if number in _EPOCH_FIRST else None


TYPES = {
    number: RecordType(
        number=number, name=name, family=family, key=key, values=values, head=_head(number, values)
    )
    for number, name, family, key, values in _TABLE
}
"""Type number → type."""
