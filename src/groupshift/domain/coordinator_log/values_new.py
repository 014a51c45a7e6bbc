"""Layouts of the values of share groups (types 9-15) and streams groups (types 17-23).

Both kept version 0 while their layout changed; the older ones are marked early access. Read off the
generated classes of releases 3.9.2 to 4.4.0; type 18 was gone before any of them and follows §1.3.
"""

from __future__ import annotations

from groupshift.domain.coordinator_log.fields import (
    Field,
    Kind,
    Layout,
    int8,
    int16,
    int32,
    int64,
    structs,
    text,
    text_or_null,
    texts,
    uuid,
)
from groupshift.domain.coordinator_log.values import (
    ASSIGNMENT_EPOCHS,
    TOPIC_PARTITIONS,
    flexible,
)

_EARLY = Layout.EARLY_ACCESS
_PARTITIONS = Field(name="partitions", kind=Kind.INT32, array=True)

SHARE_MEMBER = flexible(
    text_or_null("rackId"), text("clientId"), text("clientHost"), texts("subscribedTopicNames")
)
SHARE_EPOCH = flexible(int32("epoch"), int64("metadataHash"))
SHARE_EPOCH_EARLY = flexible(int32("epoch"), layout=_EARLY)
SHARE_CURRENT = flexible(
    int32("memberEpoch"),
    int32("previousMemberEpoch"),
    int8("state"),
    structs("assignedPartitions", *TOPIC_PARTITIONS),
)

_INITIALIZED = (uuid("topicId"), text("topicName"), _PARTITIONS)
_DELETING = structs("deletingTopics", uuid("topicId"), text("topicName"))
SHARE_STATE = flexible(
    structs("initializingTopics", *_INITIALIZED), structs("initializedTopics", *_INITIALIZED), _DELETING
)
SHARE_STATE_EARLY = flexible(structs("initializedTopics", *_INITIALIZED), _DELETING, layout=_EARLY)

_KEY_VALUE = (text("key"), text("value"))
STREAMS_EPOCH = flexible(
    int32("epoch"),
    int64("metadataHash"),
    int32("validatedTopologyEpoch", tag=0),
    Field(
        name="lastAssignmentConfigs",
        kind=Kind.STRUCT,
        array=True,
        nullable=True,
        tag=1,
        fields=_KEY_VALUE,
    ),
    int32("storedDescriptionTopologyEpoch", tag=2),
    int32("failedDescriptionTopologyEpoch", tag=3),
)
STREAMS_MEMBER = flexible(
    text_or_null("instanceId"),
    text_or_null("rackId"),
    text("clientId"),
    text("clientHost"),
    int32("rebalanceTimeoutMs"),
    int32("topologyEpoch"),
    text("processId"),
    Field(
        name="userEndpoint",
        kind=Kind.STRUCT,
        nullable=True,
        fields=(text("host"), Field(name="port", kind=Kind.UINT16)),
    ),
    structs("clientTags", *_KEY_VALUE),
)

_TASKS = (text("subtopologyId"), _PARTITIONS)
_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
STREAMS_TARGET = flexible(*(structs(role, *_TASKS) for role in _ROLES))
STREAMS_CURRENT = flexible(
    int32("memberEpoch"),
    int32("previousMemberEpoch"),
    int8("state"),
    *(structs(role, *_TASKS, ASSIGNMENT_EPOCHS) for role in _ROLES),
    *(structs(f"{role}PendingRevocation", *_TASKS, ASSIGNMENT_EPOCHS) for role in _ROLES),
)

_TOPIC_INFO = (
    text("name"),
    int32("partitions"),
    int16("replicationFactor"),
    structs("topicConfigs", *_KEY_VALUE),
)
_INDEXES = tuple(
    Field(name=name, kind=Kind.INT16, array=True)
    for name in ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics")
)
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
        structs("copartitionGroups", *_INDEXES),
    ),
)
