"""Values of coordinator records of types 2 to 8 as JSON, compiled: what brokers write all day.

A classic group (type 2) comes with what its members subscribed to and were assigned.

The decoder in Python (`groupshift.log.decode`) decides what a record means; this one only knows
the usual record and gives up on all else, so that the other one gets it: unknown versions and tags, early
layouts, anything left over or cut off, text beyond printable ASCII, member bytes that end early. Where it
does not give up, its JSON is that decoder's, byte for byte. Source: docs/reference/group-coordinator.md
§§1.4, 1.5.
"""

# ruff: noqa: PLR2004 - widths, types and versions that the format fixes

from __future__ import annotations

import numpy as np

from groupshift.spark.batches.coordinator_json import (
    AT,
    CLOSE,
    COMMA,
    END,
    NULL,
    OUT,
    USUAL,
    Bytes,
    Ints,
    field,
    hexed,
    inner,
    length,
    name,
    number,
    numbers,
    put,
    show,
    string,
    strings,
    uuid,
    varint,
)

END_OBJECT, CLIENT, HOST = name("}"), name(',"clientId":'), name(',"clientHost":')
RACK, PARTITIONS, ASSIGNED = name(',"rackId":'), name(',"partitions":['), name(',"assignedPartitions":[')
_QUOTE = name('"')
_PROTOCOL_TYPE, _GENERATION = name('{"protocolType":'), name(',"generation":')
_PROTOCOL, _LEADER = name(',"protocol":'), name(',"leader":')
_SINCE, _MEMBERS = name(',"currentStateTimestamp":'), name(',"members":[')
_MEMBER_ID, _INSTANCE_ID = name('{"memberId":'), name(',"groupInstanceId":')
_REBALANCE, _SESSION = name(',"rebalanceTimeout":'), name(',"sessionTimeout":')
_SUBSCRIPTION, _ASSIGNMENT = name(',"subscription":"'), name('","assignment":"')
_EMBEDDED, _AND_ASSIGNMENT = name(',"embedded":{"subscription":'), name(',"assignment":')
_NO_VERSION, _VERSION = name('{"version":null}'), name('{"version":')
_BLOB_TOPICS, _USER_DATA = name(',"topics":['), name(',"userData":')
_OWNED, _BLOB_GENERATION = name(',"ownedPartitions":['), name(',"generationId":')
_TOPIC = name('{"topic":')
_CONSUMER = name("consumer")


@inner
def _owned(data: Bytes, out: Bytes, place: Ints) -> None:
    """Classic array of {topic, partitions} after its name and bracket."""
    for index in range(length(data, place, 0)):
        if place[USUAL] == 0:
            return
        if index:
            put(out, place, COMMA)
        put(out, place, _TOPIC)
        string(data, out, place, 0, 0)
        put(out, place, PARTITIONS)
        numbers(data, out, place, 0)
        put(out, place, END_OBJECT)
    put(out, place, CLOSE)


@inner
def _user_data(data: Bytes, out: Bytes, place: Ints) -> None:
    """The bytes that belong to the assignor, in hex; null where the client wrote null (length -1)."""
    put(out, place, _USER_DATA)
    size = number(data, place, 4)
    if size == -1:
        put(out, place, NULL)
        return
    put(out, place, _QUOTE)
    hexed(data, out, place, size)
    put(out, place, _QUOTE)


@inner
def _blob(data: Bytes, out: Bytes, place: Ints, bounds: Ints, subscribes: int) -> None:
    """A subscription or an assignment that fills ``bounds`` and is of version 0 to 3, or empty."""
    end = place[END]
    place[AT], place[END] = bounds[0], bounds[1]
    if bounds[0] == bounds[1]:
        put(out, place, _NO_VERSION)
    else:
        version = number(data, place, 2)
        if version < 0 or version > 3:
            place[USUAL] = 0
        put(out, place, _VERSION)
        show(out, place, version)
        if subscribes:
            put(out, place, _BLOB_TOPICS)
            strings(data, out, place, 0)
            _user_data(data, out, place)
            if version >= 1:
                put(out, place, _OWNED)
                _owned(data, out, place)
            if version >= 2:
                field(data, out, place, _BLOB_GENERATION, 4)
            if version >= 3:
                put(out, place, RACK)
                string(data, out, place, 0, 1)
        else:
            put(out, place, ASSIGNED)
            _owned(data, out, place)
            _user_data(data, out, place)
        put(out, place, END_OBJECT)
    if place[AT] != place[END]:
        place[USUAL] = 0
    place[END] = end


@inner
def _bytes(data: Bytes, out: Bytes, place: Ints, bounds: Ints) -> None:
    """Bytes in hex; ``bounds`` are where they lie."""
    size = number(data, place, 4)
    bounds[0], bounds[1] = place[AT], place[AT] + max(size, 0)
    hexed(data, out, place, size)


@inner
def _classic_member(data: Bytes, out: Bytes, place: Ints, version: int, consumer: int) -> None:
    """One member of a classic group. What it subscribed to and was assigned is shown twice in a group of
    consumers: in hex, and taken apart as ``embedded``."""
    subscription, assignment = np.zeros(2, np.int64), np.zeros(2, np.int64)
    put(out, place, _MEMBER_ID)
    string(data, out, place, 0, 0)
    if version >= 3:
        put(out, place, _INSTANCE_ID)
        string(data, out, place, 0, 1)
    put(out, place, CLIENT)
    string(data, out, place, 0, 0)
    put(out, place, HOST)
    string(data, out, place, 0, 0)
    if version >= 1:
        field(data, out, place, _REBALANCE, 4)
    field(data, out, place, _SESSION, 4)
    put(out, place, _SUBSCRIPTION)
    _bytes(data, out, place, subscription)
    put(out, place, _ASSIGNMENT)
    _bytes(data, out, place, assignment)
    put(out, place, _QUOTE)
    if consumer and place[USUAL]:
        at = place[AT]
        put(out, place, _EMBEDDED)
        _blob(data, out, place, subscription, 1)
        put(out, place, _AND_ASSIGNMENT)
        _blob(data, out, place, assignment, 0)
        put(out, place, END_OBJECT)
        place[AT] = at
    put(out, place, END_OBJECT)


@inner
def write_classic(data: Bytes, out: Bytes, place: Ints, version: int) -> None:
    """Type 2, versions 0 to 3."""
    put(out, place, _PROTOCOL_TYPE)
    begin = place[OUT] + 1
    string(data, out, place, 0, 0)
    consumer = 1 if place[OUT] - begin == len(_CONSUMER) + 1 else 0
    if consumer:
        for index in range(len(_CONSUMER)):
            if out[begin + index] != _CONSUMER[index]:
                consumer = 0
    field(data, out, place, _GENERATION, 4)
    put(out, place, _PROTOCOL)
    string(data, out, place, 0, 1)
    put(out, place, _LEADER)
    string(data, out, place, 0, 1)
    if version >= 2:
        field(data, out, place, _SINCE, 8)
    put(out, place, _MEMBERS)
    for index in range(length(data, place, 0)):
        if place[USUAL] == 0:
            return
        if index:
            put(out, place, COMMA)
        _classic_member(data, out, place, version, consumer)
    put(out, place, CLOSE)


_NOTHING = name("")
_EPOCH, _HASH, _CREATED = name('{"epoch":'), name(',"metadataHash":'), name(',"creationTimeMs":')
_TARGET_EPOCH, _TARGET_TIME = name('{"assignmentEpoch":'), name(',"assignmentTimestamp":')
_TOPICS, _ID, _TOPIC_NAME = name('{"topics":['), name('{"topicId":'), name(',"topicName":')
_COUNT, _METADATA = name(',"numPartitions":'), name(',"partitionMetadata":[')
_PARTITION, _RACKS = name('{"partition":'), name(',"racks":[')
_INSTANCE = name('{"instanceId":')
_SUBSCRIBED, _REGEX = name(',"subscribedTopicNames":['), name(',"subscribedTopicRegex":')
_REBALANCE_MS, _ASSIGNOR = name(',"rebalanceTimeoutMs":'), name(',"serverAssignor":')
_NATIVE = name(',"classicMemberMetadata":null')
_TARGETS = name('{"topicPartitions":[')
_MEMBER_EPOCH, _PREVIOUS = name('{"memberEpoch":'), name(',"previousMemberEpoch":')
_STATE = name(',"state":')
_REVOKED = name(',"partitionsPendingRevocation":[')


@inner
def _no_tags(data: Bytes, place: Ints) -> None:
    """A tag section that has to be empty: an unknown tag is for the decoder in Python."""
    if varint(data, place) != 0:
        place[USUAL] = 0


@inner
def _times(data: Bytes, out: Bytes, place: Ints, first: Bytes, second: Bytes) -> None:
    """A tag section of int64 fields: tag 0, and tag 1 unless ``second`` is empty."""
    last = -1
    for _ in range(varint(data, place)):
        tag = varint(data, place)
        if tag <= last or tag > (1 if len(second) else 0) or varint(data, place) != 8:
            place[USUAL] = 0
            return
        field(data, out, place, first if tag == 0 else second, 8)
        last = tag


@inner
def _assigned(data: Bytes, out: Bytes, place: Ints) -> None:
    """An array of {topic id, partitions} after its name and bracket."""
    for index in range(length(data, place, 1)):
        if place[USUAL] == 0:
            return
        if index:
            put(out, place, COMMA)
        put(out, place, _ID)
        uuid(data, out, place)
        put(out, place, PARTITIONS)
        numbers(data, out, place, 1)
        _no_tags(data, place)
        put(out, place, END_OBJECT)
    put(out, place, CLOSE)


@inner
def _sizes(data: Bytes, out: Bytes, place: Ints) -> None:
    """Type 4."""
    put(out, place, _TOPICS)
    for index in range(length(data, place, 1)):
        if place[USUAL] == 0:
            return
        if index:
            put(out, place, COMMA)
        put(out, place, _ID)
        uuid(data, out, place)
        put(out, place, _TOPIC_NAME)
        string(data, out, place, 1, 0)
        field(data, out, place, _COUNT, 4)
        put(out, place, _METADATA)
        for each in range(length(data, place, 1)):
            if place[USUAL] == 0:
                return
            if each:
                put(out, place, COMMA)
            field(data, out, place, _PARTITION, 4)
            put(out, place, _RACKS)
            strings(data, out, place, 1)
            _no_tags(data, place)
            put(out, place, END_OBJECT)
        put(out, place, CLOSE)
        _no_tags(data, place)
        put(out, place, END_OBJECT)
    put(out, place, CLOSE)
    _no_tags(data, place)


@inner
def _member(data: Bytes, out: Bytes, place: Ints) -> None:
    """Type 5 of a native member."""
    put(out, place, _INSTANCE)
    string(data, out, place, 1, 1)
    put(out, place, RACK)
    string(data, out, place, 1, 1)
    put(out, place, CLIENT)
    string(data, out, place, 1, 0)
    put(out, place, HOST)
    string(data, out, place, 1, 0)
    put(out, place, _SUBSCRIBED)
    strings(data, out, place, 1)
    put(out, place, _REGEX)
    string(data, out, place, 1, 1)
    field(data, out, place, _REBALANCE_MS, 4)
    put(out, place, _ASSIGNOR)
    string(data, out, place, 1, 1)
    if varint(data, place) != 1 or varint(data, place) != 0 or varint(data, place) != 1:
        place[USUAL] = 0
    if number(data, place, 1) != 0:
        place[USUAL] = 0
    put(out, place, _NATIVE)


@inner
def _current(data: Bytes, out: Bytes, place: Ints) -> None:
    """Type 8."""
    field(data, out, place, _MEMBER_EPOCH, 4)
    field(data, out, place, _PREVIOUS, 4)
    field(data, out, place, _STATE, 1)
    put(out, place, ASSIGNED)
    _assigned(data, out, place)
    put(out, place, _REVOKED)
    _assigned(data, out, place)
    _no_tags(data, place)


@inner
def write_value(data: Bytes, out: Bytes, place: Ints, kind: int) -> None:
    """The value of a record of type ``kind`` at ``place``; see `coordinator_json.AT`."""
    version = number(data, place, 2)
    if kind == 2:
        if version < 0 or version > 3:
            place[USUAL] = 0
            return
        write_classic(data, out, place, version)
    elif version != 0:
        place[USUAL] = 0
        return
    elif kind == 3:
        field(data, out, place, _EPOCH, 4)
        _times(data, out, place, _HASH, _CREATED)
    elif kind == 4:
        _sizes(data, out, place)
    elif kind == 5:
        _member(data, out, place)
    elif kind == 6:
        field(data, out, place, _TARGET_EPOCH, 4)
        _times(data, out, place, _TARGET_TIME, _NOTHING)
    elif kind == 7:
        put(out, place, _TARGETS)
        _assigned(data, out, place)
        _no_tags(data, place)
    elif kind == 8:
        _current(data, out, place)
    else:
        place[USUAL] = 0
    put(out, place, END_OBJECT)
