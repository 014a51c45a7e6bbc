"""Layouts of the values of offsets, classic groups and consumer groups (types 0-8 and 16).

Names are those of Kafka's schemas. Read off the generated classes of releases 3.7.2, 3.9.2, 4.0.2, 4.1.2,
4.2.1, 4.3.1 and 4.4.0; source: specs/group-coordinator.md §1.4.
"""

from __future__ import annotations

from groupshift.domain.coordinator_log.fields import (
    Field,
    Kind,
    Layout,
    Schema,
    blob,
    int8,
    int16,
    int32,
    int64,
    numbers,
    structs,
    text,
    text_or_null,
    texts,
    uuid,
)


def flexible(*fields: Field, layout: Layout = Layout.CURRENT) -> Schema:
    """A message whose only version, 0, is flexible: every type from 3 on."""
    return Schema(fields=fields, flexible=0, layout=layout)


TOPIC_PARTITIONS = (uuid("topicId"), numbers("partitions"))
"""``{topicId, partitions[]}``, the element of most assignments."""

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
            text("clientId"),
            text("clientHost"),
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
PARTITION_METADATA_EARLY = flexible(int32("epoch"), _TOPICS, layout=Layout.EARLY_ACCESS)

_MEMBER = (
    text_or_null("instanceId"),
    text_or_null("rackId"),
    text("clientId"),
    text("clientHost"),
    texts("subscribedTopicNames"),
    text_or_null("subscribedTopicRegex"),
    int32("rebalanceTimeoutMs"),
    text_or_null("serverAssignor"),
)
_CLASSIC_MEMBER = Field(
    name="classicMemberMetadata",
    kind=Kind.STRUCT,
    nullable=True,
    tag=0,
    fields=(int32("sessionTimeoutMs"), structs("supportedProtocols", text("name"), blob("metadata"))),
)
MEMBER = flexible(*_MEMBER, _CLASSIC_MEMBER)
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
    layout=Layout.EARLY_ACCESS,
)

TARGET_EPOCH = flexible(int32("assignmentEpoch"), int64("assignmentTimestamp", tag=0))

TARGET = flexible(structs("topicPartitions", *TOPIC_PARTITIONS))
TARGET_EARLY = flexible(
    int8("error"),
    structs("topicPartitions", *TOPIC_PARTITIONS),
    int16("metadataVersion"),
    blob("metadataBytes"),
    layout=Layout.EARLY_ACCESS,
)

ASSIGNMENT_EPOCHS = Field(name="assignmentEpochs", kind=Kind.INT32, array=True, nullable=True, tag=0)
"""KIP-1251: at which epoch each partition was assigned."""

CURRENT = flexible(
    int32("memberEpoch"),
    int32("previousMemberEpoch"),
    int8("state"),
    structs("assignedPartitions", *TOPIC_PARTITIONS, ASSIGNMENT_EPOCHS),
    structs("partitionsPendingRevocation", *TOPIC_PARTITIONS, ASSIGNMENT_EPOCHS),
)
CURRENT_EARLY = flexible(
    int32("memberEpoch"),
    int32("previousMemberEpoch"),
    int32("targetMemberEpoch"),
    structs("assignedPartitions", *TOPIC_PARTITIONS),
    structs("partitionsPendingRevocation", *TOPIC_PARTITIONS),
    structs("partitionsPendingAssignment", *TOPIC_PARTITIONS),
    int8("error"),
    int16("metadataVersion"),
    blob("metadataBytes"),
    layout=Layout.EARLY_ACCESS,
)

REGULAR_EXPRESSION = flexible(texts("topics"), int64("version"), int64("timestamp"))
