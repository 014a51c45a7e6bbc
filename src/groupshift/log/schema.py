"""Schemas of the records of ``__consumer_offsets``: each type's name, its key and the layouts of its value.

A layout has fields with their versions, tags and nesting. It is all that `groupshift.log.codec` knows
about a record. Keys are classic-encoded in every release, and their leading int16 is the type. Names are
those of Kafka's schemas.

Layouts of offsets, classic groups and consumer groups (types 0-8 and 16) are read off the generated classes
of releases 3.7.2, 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0. Those of share groups (types 9-15) and streams
groups (types 17-23) are read off releases 3.9.2 to 4.4.0; type 18 was gone before any of them and follows
§1.3. Share and streams groups kept version 0 while their layout changed; the older layouts are marked early
access.

Source: docs/reference/group-coordinator.md §§1.2, 1.3 and 1.4.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Any


class Kind(StrEnum):
    """What one element of a field is."""

    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    STRING = "string"
    BYTES = "bytes"
    UUID = "uuid"
    STRUCT = "struct"


class Layout(StrEnum):
    """Two layouts can carry one version number: early-access releases wrote 0 as well."""

    CURRENT = "current"
    EARLY_ACCESS = "early-access"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``since`` and ``until`` are the first and last value version that carry it.

    ``tag`` makes it a tagged field, which may be absent; ``fields`` are those of a struct; ``nullable``
    speaks of the array where ``array`` is set.
    """

    name: str
    kind: Kind
    _: KW_ONLY
    since: int = 0
    until: int | None = None
    array: bool = False
    nullable: bool = False
    tag: int | None = None
    fields: tuple[Field, ...] = ()

    def in_version(self, version: int) -> bool:
        """Whether a value of this version carries the field."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """The fields of one message in the versions ``oldest`` to ``newest``; equal to itself only.

    From ``flexible`` on lengths are compact and every struct ends with a tag section; None: never.
    """

    fields: tuple[Field, ...]
    oldest: int = 0
    newest: int = 0
    flexible: int | None = None
    layout: Layout = Layout.CURRENT

    def is_flexible(self, version: int) -> bool:
        """Whether this version uses compact lengths and tags."""
        return self.flexible is not None and version >= self.flexible


int8 = partial(Field, kind=Kind.INT8)
int16 = partial(Field, kind=Kind.INT16)
int32 = partial(Field, kind=Kind.INT32)
int64 = partial(Field, kind=Kind.INT64)
uuid = partial(Field, kind=Kind.UUID)
text = partial(Field, kind=Kind.STRING)
text_or_null = partial(text, nullable=True)
blob = partial(Field, kind=Kind.BYTES)
numbers = partial(int32, array=True)
texts = partial(text, array=True)
"""One field each by its name, in the way of `Field`; the last two are arrays."""


def structs(name: str, *fields: Field, **more: Any) -> Field:
    """An array of structs; ``more`` is what else a `Field` has."""
    return Field(name, Kind.STRUCT, array=True, fields=fields, **more)


def flexible(*fields: Field, layout: Layout = Layout.CURRENT) -> Schema:
    """A message whose only version, 0, is flexible: every type from 3 on."""
    return Schema(fields=fields, flexible=0, layout=layout)


# What several messages have in common.
_TOPIC_PARTITIONS = (uuid("topicId"), numbers("partitions"))
_ASSIGNMENT_EPOCHS = numbers("assignmentEpochs", nullable=True, tag=0)
"""KIP-1251: at which epoch each partition was assigned."""
_CLIENT = (text("clientId"), text("clientHost"))
_EPOCHS = (int32("memberEpoch"), int32("previousMemberEpoch"))
_ASSIGNOR_DATA = (int16("metadataVersion"), blob("metadataBytes"))
_KEY_VALUE = (text("key"), text("value"))
_EARLY = Layout.EARLY_ACCESS

OFFSET_COMMIT = Schema(
    fields=(
        int64("offset"),
        int32("leaderEpoch", since=3),
        text("metadata"),
        int64("commitTimestamp"),
        int64("expireTimestamp", since=1, until=1),
        uuid("topicId", tag=0, since=4),
    ),
    newest=4,
    flexible=4,
)

GROUP_METADATA = Schema(
    fields=(
        text("protocolType"),
        int32("generation"),
        text_or_null("protocol"),
        text_or_null("leader"),
        int64("currentStateTimestamp", since=2),
        structs(
            "members",
            text("memberId"),
            text_or_null("groupInstanceId", since=3),
            *_CLIENT,
            int32("rebalanceTimeout", since=1),
            int32("sessionTimeout"),
            blob("subscription"),
            blob("assignment"),
        ),
    ),
    newest=4,
    flexible=4,
)

GROUP_EPOCH = flexible(int32("epoch"), int64("metadataHash", tag=0), int64("creationTimeMs", tag=1))

_TOPICS = structs(
    "topics",
    uuid("topicId"),
    text("topicName"),
    int32("numPartitions"),
    structs("partitionMetadata", int32("partition"), texts("racks")),
)
PARTITION_METADATA = flexible(_TOPICS)
PARTITION_METADATA_EARLY = flexible(int32("epoch"), _TOPICS, layout=_EARLY)

_MEMBER = (
    text_or_null("instanceId"),
    text_or_null("rackId"),
    *_CLIENT,
    texts("subscribedTopicNames"),
    text_or_null("subscribedTopicRegex"),
    int32("rebalanceTimeoutMs"),
    text_or_null("serverAssignor"),
)
_CLASSIC = (int32("sessionTimeoutMs"), structs("supportedProtocols", text("name"), blob("metadata")))
MEMBER = flexible(
    *_MEMBER, Field("classicMemberMetadata", Kind.STRUCT, nullable=True, tag=0, fields=_CLASSIC)
)
MEMBER_EARLY = flexible(
    *_MEMBER,
    structs(
        "assignors",
        text("name"),
        int16("minimumVersion"),
        int16("maximumVersion"),
        int8("reason"),
        int16("version"),
        blob("metadata"),
    ),
    layout=_EARLY,
)

TARGET_EPOCH = flexible(int32("assignmentEpoch"), int64("assignmentTimestamp", tag=0))
_TARGET = structs("topicPartitions", *_TOPIC_PARTITIONS)
TARGET = flexible(_TARGET)
TARGET_EARLY = flexible(int8("error"), _TARGET, *_ASSIGNOR_DATA, layout=_EARLY)

CURRENT = flexible(
    *_EPOCHS,
    int8("state"),
    structs("assignedPartitions", *_TOPIC_PARTITIONS, _ASSIGNMENT_EPOCHS),
    structs("partitionsPendingRevocation", *_TOPIC_PARTITIONS, _ASSIGNMENT_EPOCHS),
)
CURRENT_EARLY = flexible(
    *_EPOCHS,
    int32("targetMemberEpoch"),
    structs("assignedPartitions", *_TOPIC_PARTITIONS),
    structs("partitionsPendingRevocation", *_TOPIC_PARTITIONS),
    structs("partitionsPendingAssignment", *_TOPIC_PARTITIONS),
    int8("error"),
    *_ASSIGNOR_DATA,
    layout=_EARLY,
)

REGULAR_EXPRESSION = flexible(texts("topics"), int64("version"), int64("timestamp"))

SHARE_MEMBER = flexible(text_or_null("rackId"), *_CLIENT, texts("subscribedTopicNames"))
SHARE_EPOCH = flexible(int32("epoch"), int64("metadataHash"))
SHARE_EPOCH_EARLY = flexible(int32("epoch"), layout=_EARLY)
SHARE_CURRENT = flexible(*_EPOCHS, int8("state"), structs("assignedPartitions", *_TOPIC_PARTITIONS))

_INITIALIZED = (uuid("topicId"), text("topicName"), numbers("partitions"))
_DELETING = structs("deletingTopics", uuid("topicId"), text("topicName"))
SHARE_STATE = flexible(
    structs("initializingTopics", *_INITIALIZED), structs("initializedTopics", *_INITIALIZED), _DELETING
)
SHARE_STATE_EARLY = flexible(structs("initializedTopics", *_INITIALIZED), _DELETING, layout=_EARLY)

STREAMS_EPOCH = flexible(
    int32("epoch"),
    int64("metadataHash"),
    int32("validatedTopologyEpoch", tag=0),
    structs("lastAssignmentConfigs", *_KEY_VALUE, nullable=True, tag=1),
    int32("storedDescriptionTopologyEpoch", tag=2),
    int32("failedDescriptionTopologyEpoch", tag=3),
)
STREAMS_MEMBER = flexible(
    text_or_null("instanceId"),
    text_or_null("rackId"),
    *_CLIENT,
    int32("rebalanceTimeoutMs"),
    int32("topologyEpoch"),
    text("processId"),
    Field("userEndpoint", Kind.STRUCT, nullable=True, fields=(text("host"), Field("port", Kind.UINT16))),
    structs("clientTags", *_KEY_VALUE),
)

_TASKS = (text("subtopologyId"), numbers("partitions"))
_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
STREAMS_TARGET = flexible(*(structs(role, *_TASKS) for role in _ROLES))
STREAMS_CURRENT = flexible(
    *_EPOCHS,
    int8("state"),
    *(structs(role, *_TASKS, _ASSIGNMENT_EPOCHS) for role in _ROLES),
    *(structs(f"{role}PendingRevocation", *_TASKS, _ASSIGNMENT_EPOCHS) for role in _ROLES),
)

_TOPIC_INFO = (
    text("name"),
    int32("partitions"),
    int16("replicationFactor"),
    structs("topicConfigs", *_KEY_VALUE),
)
_INDEXES = ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics")
STREAMS_TOPOLOGY = flexible(
    int32("epoch"),
    structs(
        "subtopologies",
        text("subtopologyId"),
        texts("sourceTopics"),
        texts("sourceTopicRegex"),
        structs("stateChangelogTopics", *_TOPIC_INFO),
        texts("repartitionSinkTopics"),
        structs("repartitionSourceTopics", *_TOPIC_INFO),
        structs("copartitionGroups", *(int16(name, array=True) for name in _INDEXES)),
    ),
)


class Family(StrEnum):
    """Which kind of group a record type belongs to."""

    OFFSETS = "offsets"
    """Any kind but share: committed offsets."""
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


_EPOCH_FIRST = frozenset({11, 12, 14, 17, 20, 22, 23})


@dataclass(frozen=True)
class RecordType:
    """One type. ``values`` are tried in order, the current layout first; none: never seen on a server."""

    number: int
    name: str
    family: Family
    key: Schema
    values: tuple[Schema, ...] = ()

    @cached_property
    def head(self) -> Schema | None:
        """What every layout of an unstable type begins with, also one that we do not know: an epoch, which is
        all that an audit needs. None for the other types."""
        return Schema(fields=self.values[0].fields[:1]) if self.number in _EPOCH_FIRST else None


_GROUP, _GROUP_ID, _MEMBER_ID = text("group"), text("groupId"), text("memberId")
_COMMIT_KEY = Schema(fields=(_GROUP, text("topic"), int32("partition")))
_OF_GROUP = Schema(fields=(_GROUP_ID,))
_OF_MEMBER = Schema(fields=(_GROUP_ID, _MEMBER_ID))
_OF_EXPRESSION = Schema(fields=(_GROUP_ID, text("regularExpression")))

_TABLE: tuple[tuple[int, str, Family, Schema, tuple[Schema, ...]], ...] = (
    (0, "OffsetCommit", Family.OFFSETS, _COMMIT_KEY, (OFFSET_COMMIT,)),
    (1, "OffsetCommit", Family.OFFSETS, _COMMIT_KEY, (OFFSET_COMMIT,)),
    (2, "GroupMetadata", Family.CLASSIC, Schema(fields=(_GROUP,)), (GROUP_METADATA,)),
    (3, "ConsumerGroupMetadata", Family.CONSUMER, _OF_GROUP, (GROUP_EPOCH,)),
    (4, "ConsumerGroupPartitionMetadata", Family.CONSUMER, _OF_GROUP,
     (PARTITION_METADATA, PARTITION_METADATA_EARLY)),
    (5, "ConsumerGroupMemberMetadata", Family.CONSUMER, _OF_MEMBER, (MEMBER, MEMBER_EARLY)),
    (6, "ConsumerGroupTargetAssignmentMetadata", Family.CONSUMER, _OF_GROUP, (TARGET_EPOCH,)),
    (7, "ConsumerGroupTargetAssignmentMember", Family.CONSUMER, _OF_MEMBER, (TARGET, TARGET_EARLY)),
    (8, "ConsumerGroupCurrentMemberAssignment", Family.CONSUMER, _OF_MEMBER, (CURRENT, CURRENT_EARLY)),
    (9, "ShareGroupPartitionMetadata", Family.SHARE, _OF_GROUP,
     (PARTITION_METADATA, SHARE_STATE_EARLY)),
    (10, "ShareGroupMemberMetadata", Family.SHARE, _OF_MEMBER, (SHARE_MEMBER,)),
    (11, "ShareGroupMetadata", Family.SHARE, _OF_GROUP, (SHARE_EPOCH, SHARE_EPOCH_EARLY)),
    (12, "ShareGroupTargetAssignmentMetadata", Family.SHARE, _OF_GROUP, (TARGET_EPOCH,)),
    (13, "ShareGroupTargetAssignmentMember", Family.SHARE, _OF_MEMBER, (TARGET,)),
    (14, "ShareGroupCurrentMemberAssignment", Family.SHARE, _OF_MEMBER, (SHARE_CURRENT,)),
    (15, "ShareGroupStatePartitionMetadata", Family.SHARE, _OF_GROUP,
     (SHARE_STATE, SHARE_STATE_EARLY)),
    (16, "ConsumerGroupRegularExpression", Family.CONSUMER, _OF_EXPRESSION, (REGULAR_EXPRESSION,)),
    (17, "StreamsGroupMetadata", Family.STREAMS, _OF_GROUP, (STREAMS_EPOCH,)),
    (18, "StreamsGroupPartitionMetadata", Family.STREAMS, _OF_GROUP, (PARTITION_METADATA,)),
    (19, "StreamsGroupMemberMetadata", Family.STREAMS, _OF_MEMBER, (STREAMS_MEMBER,)),
    (20, "StreamsGroupTargetAssignmentMetadata", Family.STREAMS, _OF_GROUP, (TARGET_EPOCH,)),
    (21, "StreamsGroupTargetAssignmentMember", Family.STREAMS, _OF_MEMBER, (STREAMS_TARGET,)),
    (22, "StreamsGroupCurrentMemberAssignment", Family.STREAMS, _OF_MEMBER, (STREAMS_CURRENT,)),
    (23, "StreamsGroupTopology", Family.STREAMS, _OF_GROUP, (STREAMS_TOPOLOGY,)),
    (24, "StreamsGroupTargetAssignmentResolvedTopicIds", Family.STREAMS, _OF_GROUP, ()),
)  # fmt: skip

TYPES = {row[0]: RecordType(*row) for row in _TABLE}
"""Type number → type."""
