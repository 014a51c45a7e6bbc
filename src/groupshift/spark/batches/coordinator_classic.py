"""JSON of a classic group's value (type 2) with what its members subscribed to and were assigned, compiled.

As `coordinator_values`: what is unusual is left to the decoder in Python. Source: specs/group-coordinator.md,
sections 1.4 and 1.5.
"""

# ruff: noqa: PLR2004 - versions that the format fixes

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
