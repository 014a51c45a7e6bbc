"""The hex vectors of `support.coordinator_vectors`, made and real: content and bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupshift.log import Decoded, DecodeStatus, LogRecord, decode
from groupshift.log.decode import read_blob
from groupshift.log.schema import ASSIGNMENT, SUBSCRIPTION, TYPES
from groupshift_testing.log_encoder import encode_key, encode_value, write_message
from support.coordinator_vectors import BLOBS, KEYS, REAL_VALUES, VALUES, T, U

KEY_CONTENT: dict[str, dict[str, Any]] = {
    "K0": {"group": "g1", "topic": "t1", "partition": 3},
    "K1": {"group": "g1", "topic": "t1", "partition": 3},
    "K1u": {"group": "gr\u00fcppe", "topic": "t", "partition": 0},
    "K2": {"group": "g1"},
    "K3": {"groupId": "g1"},
    "K4": {"groupId": "g1"},
    "K5": {"groupId": "g1", "memberId": "m1"},
    "K6": {"groupId": "g1"},
    "K7": {"groupId": "g1", "memberId": "m1"},
    "K8": {"groupId": "g1", "memberId": "m1"},
    "K16": {"groupId": "g1", "regularExpression": "foo.*"},
}

SUB3 = {
    "version": 3,
    "topics": ["t1"],
    "userData": None,
    "ownedPartitions": [],
    "generationId": -1,
    "rackId": None,
}
T1_01 = [{"topic": "t1", "partitions": [0, 1]}]
COMMIT = {"offset": 42, "metadata": "md", "commitTimestamp": T}
MEMBER = {"memberId": "m1", "clientId": "c1", "clientHost": "/127.0.0.1", "sessionTimeout": 45000}
GROUP5 = {"protocolType": "consumer", "generation": 5, "protocol": "range", "leader": "m1"}
NEWER_MEMBER = MEMBER | {
    "groupInstanceId": None,
    "rebalanceTimeout": 300000,
    "subscription": BLOBS["SUB3"],
    "assignment": "0003" + BLOBS["ASG0"][4:],
    "embedded": {
        "subscription": SUB3,
        "assignment": {"version": 3, "assignedPartitions": T1_01, "userData": None},
    },
}
GMV3 = GROUP5 | {"currentStateTimestamp": T, "members": [NEWER_MEMBER]}
NATIVE = {
    "instanceId": None,
    "rackId": None,
    "clientId": "c1",
    "clientHost": "/127.0.0.1",
    "subscribedTopicNames": ["t1"],
    "subscribedTopicRegex": None,
    "rebalanceTimeoutMs": 300000,
    "serverAssignor": "uniform",
    "classicMemberMetadata": None,
}
CLASSIC = {
    "sessionTimeoutMs": 45000,
    "supportedProtocols": [{"name": "range", "metadata": BLOBS["SUB3"], "embedded": {"metadata": SUB3}}],
}
U_01 = [{"topicId": U, "partitions": [0, 1]}]

CONTENT: dict[str, dict[str, Any]] = {
    "OCV0": COMMIT,
    "OCV1": COMMIT | {"expireTimestamp": T + 86_400_000},
    "OCV2": COMMIT,
    "OCV3": COMMIT | {"leaderEpoch": 7},
    "OCV3e": COMMIT | {"leaderEpoch": -1, "metadata": ""},
    "OCV4": COMMIT | {"leaderEpoch": 7},
    "OCV4t": COMMIT | {"leaderEpoch": 7, "topicId": U},
    "GMV0": GROUP5
    | {
        "members": [
            MEMBER
            | {
                "subscription": BLOBS["SUB0"],
                "assignment": BLOBS["ASG0"],
                "embedded": {
                    "subscription": {"version": 0, "topics": ["t1"], "userData": None},
                    "assignment": {"version": 0, "assignedPartitions": T1_01, "userData": None},
                },
            }
        ]
    },
    "GMV3": GMV3,
    "GMV3e": {
        "protocolType": "consumer",
        "generation": 6,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": T,
        "members": [],
    },
    "GMV3n": {
        "protocolType": "",
        "generation": 0,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": -1,
        "members": [],
    },
    "GMV4": GMV3,
    "CG3": {"epoch": 6},
    "CG3h": {"epoch": 6, "metadataHash": 0x1122334455667788},
    "CG4": {"topics": [{"topicId": U, "topicName": "t1", "numPartitions": 4, "partitionMetadata": []}]},
    "CG5": NATIVE,
    "CG5c": NATIVE | {"serverAssignor": None, "classicMemberMetadata": CLASSIC},
    "CG6": {"assignmentEpoch": 6},
    "CG7": {"topicPartitions": U_01},
    "CG8": {
        "memberEpoch": 6,
        "previousMemberEpoch": 5,
        "state": 0,
        "assignedPartitions": U_01,
        "partitionsPendingRevocation": [],
    },
    "CG16": {"topics": ["foo1", "foo2"], "version": 100, "timestamp": T},
    "4.1.2 commit": {"offset": 100, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 1795242844659},
    "4.3.1 commit": {
        "offset": 100,
        "leaderEpoch": 0,
        "metadata": "",
        "commitTimestamp": 1795242882059,
        "topicId": "3bqGPhRHRAqGA6k01pJnGA",
    },
    "4.3.1 native member": NATIVE
    | {
        "clientId": "consumerg",
        "subscribedTopicNames": ["t"],
        "subscribedTopicRegex": "",
        "serverAssignor": None,
    },
    "4.3.1 group": {"epoch": 2, "metadataHash": 0x0916C66647F6B9B5},
}
ALL_VALUES = VALUES | REAL_VALUES
BLOB_CONTENT: dict[str, dict[str, Any]] = {
    "SUB0": {"version": 0, "topics": ["t1"], "userData": None},
    "SUB1": {"version": 1, "topics": ["t1", "t2"], "userData": "", "ownedPartitions": T1_01},
    "SUB2": {
        "version": 2,
        "topics": ["t1"],
        "userData": None,
        "ownedPartitions": [{"topic": "t1", "partitions": [0]}],
        "generationId": 5,
    },
    "SUB3": SUB3,
    "SUB3r": SUB3
    | {"ownedPartitions": [{"topic": "t1", "partitions": [0]}], "generationId": 5, "rackId": "rack-a"},
    "ASG0": {"version": 0, "assignedPartitions": T1_01, "userData": None},
}


def read(key: str, value: str | None, *, partitions: int | None = None) -> Decoded:
    """A record of hex key and value, decoded."""
    record = LogRecord(
        partition=4,
        offset=17,
        timestamp_ms=T,
        key=bytes.fromhex(key),
        value=None if value is None else bytes.fromhex(value),
    )
    return decode(record, partitions=partitions)


def key_of(record_type: int) -> str:
    """A key vector of this type."""
    return next(h for h in KEYS.values() if int(h[:4], 16) == record_type)


@pytest.mark.parametrize("name", KEYS)
def test_coordinator_01_keys(name: str) -> None:
    """Every key vector: its fields, its tombstone, and the same bytes again."""
    row, fields = read(KEYS[name], None), KEY_CONTENT[name]
    group = fields.get("group") or fields.get("groupId")
    assert (row.decode_status, row.problem, row.is_tombstone) == (DecodeStatus.OK, "", True)
    assert (row.group_id, row.topic, row.partition) == (group, fields.get("topic"), fields.get("partition"))
    assert (row.member_id, row.group_guessed) == (fields.get("memberId"), False)
    assert row.record_type == row.key_version == int(KEYS[name][:4], 16)
    assert row.type_name == TYPES[row.record_type].name
    assert (row.src_partition, row.src_offset, row.record_ts) == (4, 17, T)
    assert encode_key(row.record_type, fields).hex() == KEYS[name] == row.raw_key.hex()


@pytest.mark.parametrize("name", [name for name in ALL_VALUES if name != "REAL"])
def test_coordinator_01_values(name: str) -> None:
    """Every value vector: exactly the fields it was written from, and the same bytes again."""
    record_type, value = ALL_VALUES[name]
    row = read(key_of(record_type), value)
    assert (row.decode_status, row.problem, row.layout) == (DecodeStatus.OK, "", "current")
    assert row.decoded == CONTENT[name]
    assert row.value_version == int(value[:4], 16)
    assert encode_value(record_type, row.value_version, row.decoded).hex() == value


@pytest.mark.parametrize("name", BLOBS)
def test_coordinator_01_member_bytes(name: str) -> None:
    """Every subscription and assignment vector: its content, and the same bytes again."""
    schema = SUBSCRIPTION if name.startswith("SUB") else ASSIGNMENT
    row = read_blob(schema, bytes.fromhex(BLOBS[name]))
    assert row == BLOB_CONTENT[name]
    assert write_message(schema, row["version"], row, {}).hex() == BLOBS[name]


def test_coordinator_06_native_and_classic_member() -> None:
    """A null tag is a native member, a struct a classic one, and no tag at all says neither."""
    native, classic = (read(KEYS["K5"], VALUES[name][1]).decoded for name in ("CG5", "CG5c"))
    assert native is not None
    assert native["classicMemberMetadata"] is None
    assert classic is not None
    assert classic["classicMemberMetadata"]["supportedProtocols"][0]["name"] == "range"
    silent = read(KEYS["K5"], VALUES["CG5"][1].removesuffix("01000100") + "00")
    assert silent.decode_status is DecodeStatus.OK
    assert silent.decoded is not None
    assert "classicMemberMetadata" not in silent.decoded


def test_coordinator_08_real_member_bytes() -> None:
    """A real 0.9 broker's group of a librdkafka member: topic t, partitions 0 and 1, no rack."""
    row = read(KEYS["K2"], VALUES["REAL"][1])
    assert row.decoded is not None
    (member,) = row.decoded["members"]
    assert member["embedded"] == {
        "subscription": {
            "version": 3,
            "topics": ["t"],
            "userData": "",
            "ownedPartitions": [],
            "generationId": -1,
            "rackId": "",
        },
        "assignment": {
            "version": 0,
            "assignedPartitions": [{"topic": "t", "partitions": [0, 1]}],
            "userData": "",
        },
    }
    assert encode_value(2, 0, row.decoded).hex() == VALUES["REAL"][1]


@pytest.mark.parametrize("name", ALL_VALUES)
def test_what_is_decoded_is_json(name: str) -> None:
    """Spark carries the value as JSON; nothing may be lost on the way."""
    record_type, value = ALL_VALUES[name]
    row = read(key_of(record_type), value)
    assert row.decoded is not None
    back = json.loads(json.dumps(row.decoded))
    assert row.value_version is not None
    assert encode_value(record_type, row.value_version, back).hex() == value
