"""The reader of dump texts: every shape of line beside records of ours; a difference is seen."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from groupshift.log import Decoded, LogRecord, decode
from groupshift_testing.log_encoder import encode_key, encode_value
from support.equal_maps import differences
from support.release_dump import Line, Shape, fields, lines, shape_of

COMMIT = {"offset": 42, "leaderEpoch": 7, "metadata": "a:b,c payload: d", "commitTimestamp": 9}
MEMBER = {
    "memberId": "x,y=1",
    "groupInstanceId": None,
    "clientId": "c",
    "clientHost": "/127.0.0.1",
    "rebalanceTimeout": 3,
    "sessionTimeout": 2,
    "subscription": "00000000000100027431ffffffff",
    "assignment": "00000000000100027431000000020000000000000001ffffffff",
}
GROUP: dict[str, Any] = {
    "protocolType": "consumer",
    "generation": 5,
    "protocol": "range",
    "leader": "x,y=1",
    "currentStateTimestamp": 4,
    "members": [MEMBER],
}
FOLDER = "Dumping copy/__consumer_offsets-2/00000000000000000000.log\nStarting offset: 0\n"
SIZES = "CreateTime: 8 keysize: 1 valuesize: 2"
ASSIGNED = "{x,y=1=[t1-0, t1-1]}"
TOLD = '{"protocolType":"consumer","protocol":"range","generationId":5,"assignment":"' + ASSIGNED + '"}'
EQUALS_KEY = "offset_commit::group=g,partition=t-1"
JSON_KEY = json.dumps({"type": "1", "data": {"group": "g", "topic": "t", "partition": 1}})
GROUP_KEY = json.dumps({"type": "2", "data": {"group": "g"}})
SPELLED = {
    **MEMBER,
    "subscription": {"topics": ["t1"], "userData": None},
    "assignment": {"assignedPartitions": [{"topic": "t1", "partitions": [0, 1]}], "userData": None},
}


def value(data: dict[str, Any]) -> str:
    """A value as tools since 3.9 print it."""
    return json.dumps({"version": "3", "data": data})


TEXTS = {
    Shape.PLAIN: (
        f"offset: 3 {SIZES} key: offset::g:t:1 payload: 42:a:b,c payload: d",
        f"offset: 4 {SIZES} key: metadata::g payload: consumer:range:5:{ASSIGNED}",
        "offset: 5 CreateTime: 8 payloadsize: -1 keysize: 1",
    ),
    Shape.COLONS: (
        f"offset: 3 {SIZES} key: offset::g:t:1 payload: 42:a:b,c payload: d",
        f'offset: 4 {SIZES} key: {{"metadata":"g"}} payload: {TOLD}',
        "offset: 5 CreateTime: 8 keysize: 1 valuesize: -1 headerKeys: []",
    ),
    Shape.EQUALS: (
        f"| offset: 3 {SIZES} key: {EQUALS_KEY} payload: offset=42,metadata=a:b,c payload: d",
        f"| offset: 4 {SIZES} key: group_metadata::group=g payload: {TOLD}",
        f"| offset: 5 {SIZES} key: {EQUALS_KEY} payload: <DELETE>",
    ),
    Shape.JSON: (
        f"| offset: 3 {SIZES} key: {JSON_KEY} payload: {value(COMMIT)}",
        f"| offset: 4 {SIZES} key: {GROUP_KEY} payload: {value({**GROUP, 'members': [SPELLED]})}",
        f"| offset: 5 {SIZES} key: {JSON_KEY} payload: <DELETE>",
    ),
}


def record(number: int, key: dict[str, Any], value: dict[str, Any] | None) -> Decoded:
    """A record as a broker of version 3 of the values writes it."""
    return decode(
        LogRecord(
            partition=2,
            offset=3,
            timestamp_ms=8,
            key=encode_key(number, key),
            value=None if value is None else encode_value(number, 3, value),
        ),
        partitions=None,
    )


RECORDS = (
    record(1, {"group": "g", "topic": "t", "partition": 1}, COMMIT),
    record(2, {"group": "g"}, GROUP),
    record(1, {"group": "g", "topic": "t", "partition": 1}, None),
)


def read(shape: Shape) -> list[Line]:
    """The three lines of a shape."""
    return list(lines(FOLDER + "\n".join(TEXTS[shape]) + "\n", shape))


@pytest.mark.parametrize("shape", Shape)
def test_each_shape_of_text_is_read_into_the_fields_of_a_record(shape: Shape) -> None:
    """A commit, a group, a tombstone; separators inside metadata and ids."""
    found = read(shape)
    assert [(each.partition, each.offset, each.timestamp_ms) for each in found] == [
        (2, 3, 8),
        (2, 4, 8),
        (2, 5, 8),
    ]
    assert [each.fields for each in found] == [fields(each, shape) for each in RECORDS]


def test_a_marker_of_a_transaction_is_no_record() -> None:
    """It has an offset of its own."""
    (found,) = lines(f"{FOLDER}| offset: 7 {SIZES} endTxnMarker: ABORT coordinatorEpoch: 0\n", Shape.JSON)
    assert (found.offset, found.marker, found.fields) == (7, "ABORT", None)


def test_releases_have_their_shape() -> None:
    """The four that were seen."""
    releases = ((0, 10, 2, 2), (1, 1, 1), (2, 4, 1), (3, 4, 0), (3, 9, 2), (4, 4, 0))
    assert [shape_of(each).value for each in releases] == [
        "plain",
        "colons",
        "equals",
        "equals",
        "json",
        "json",
    ]


def test_one_other_byte_is_seen() -> None:
    """The comparison of a whole log names one field of one record, and a record that one side lacks."""
    ours = {n: fields(each, Shape.JSON) for n, each in enumerate(RECORDS)}
    theirs = {n: each.fields for n, each in enumerate(read(Shape.JSON))}
    assert differences(ours, theirs) == []
    other = record(1, {"group": "g", "topic": "t", "partition": 1}, {**COMMIT, "leaderEpoch": 8})
    (said,) = differences({**ours, 0: fields(other, Shape.JSON)}, theirs)
    assert re.match(r"0: we have .*'leaderEpoch': 8.* they have .*'leaderEpoch': 7", said)
    (said,) = differences({n: each for n, each in ours.items() if n}, theirs)
    assert said.startswith("0: we have nothing, they have {")
    assert differences({"a": None}, {}) == ["a: we have None, they have nothing"]
