"""Records that are not as they should be: each is a row that says what is wrong, none raises."""

from __future__ import annotations

import tracemalloc

import pytest

from groupshift.errors import Rejected
from groupshift.log import Decoded, DecodeStatus, LogRecord, decode
from groupshift.log.decode import read_blob
from groupshift.log.schema import ASSIGNMENT, SUBSCRIPTION, TYPES
from groupshift_testing.log_encoder import encode_key, encode_value
from support.coordinator_vectors import BLOBS, KEYS, VALUES, T, U

OCV4 = VALUES["OCV4"][1]
EARLY_8 = {
    "memberEpoch": 6,
    "previousMemberEpoch": 5,
    "targetMemberEpoch": 6,
    "assignedPartitions": [{"topicId": U, "partitions": [0, 1]}],
    "partitionsPendingRevocation": [],
    "partitionsPendingAssignment": [],
    "error": 0,
    "metadataVersion": -1,
    "metadataBytes": "",
}
EARLY = {
    4: {
        "epoch": 3,
        "topics": [{"topicId": U, "topicName": "t1", "numPartitions": 2, "partitionMetadata": []}],
    },
    5: {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "subscribedTopicNames": ["t1"],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": 1,
        "serverAssignor": "range",
        "assignors": [
            {
                "name": "a",
                "minimumVersion": 0,
                "maximumVersion": 1,
                "reason": 0,
                "version": 1,
                "metadata": "ff",
            }
        ],
    },
    7: {
        "error": 0,
        "topicPartitions": [{"topicId": U, "partitions": [0]}],
        "metadataVersion": -1,
        "metadataBytes": "",
    },
    8: EARLY_8,
    9: {
        "initializedTopics": [{"topicId": U, "topicName": "t", "partitions": [0]}],
        "deletingTopics": [],
    },
    11: {"epoch": 4},
    15: {"initializedTopics": [], "deletingTopics": [{"topicId": U, "topicName": "t"}]},
}


def read(key: bytes | str | None, value: bytes | str | None, *, partitions: int | None = None) -> Decoded:
    """A record of these bytes (or hex), decoded."""
    key, value = (bytes.fromhex(raw) if isinstance(raw, str) else raw for raw in (key, value))
    return decode(
        LogRecord(partition=4, offset=17, timestamp_ms=T, key=key, value=value), partitions=partitions
    )


def test_coordinator_02_a_newer_value_version_is_read_leniently_and_marked() -> None:
    """Version 5 with the bytes of version 4: all fields, but never again a good row."""
    row = read(KEYS["K1"], "0005" + OCV4[4:])
    assert row.decode_status is DecodeStatus.UNKNOWN_VERSION
    assert row.value_version == 5
    assert row.decoded == {"offset": 42, "leaderEpoch": 7, "metadata": "md", "commitTimestamp": T}
    assert (row.group_id, row.topic, row.partition) == ("g1", "t1", 3)
    different = read(KEYS["K1"], "000500")
    assert (different.decode_status, different.decoded) == (DecodeStatus.UNKNOWN_VERSION, None)
    assert "version 5 is not known, and not like 4: offset" in different.problem


def test_coordinator_03_unknown_types_are_kept_and_their_group_is_guessed() -> None:
    """Type 0x7fff has no readable group; type 24, known by name only, has one."""
    strange = read("7fff" + "ffff00", "0000")
    assert (strange.decode_status, strange.record_type) == (DecodeStatus.UNKNOWN_TYPE, 0x7FFF)
    assert (strange.group_id, strange.group_guessed, strange.type_name) == (None, False, "")
    assert (strange.raw_key, strange.raw_value) == (bytes.fromhex("7fffffff00"), b"\0\0")
    guessed = read("001800026731", None, partitions=50)
    assert (guessed.decode_status, guessed.group_id) == (DecodeStatus.UNKNOWN_TYPE, "g1")
    assert guessed.group_guessed
    assert guessed.type_name == "StreamsGroupTargetAssignmentResolvedTopicIds"
    assert guessed.expected_partition == read(KEYS["K1"], None, partitions=50).expected_partition
    future = read("001900026731", "0000", partitions=50)
    assert (future.decode_status, future.group_id) == (DecodeStatus.UNKNOWN_TYPE, "g1")
    assert future.key_version is None


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (KEYS["K1"], OCV4[:-4], "value: commitTimestamp: wants more than the 7 bytes left at 17"),
        (KEYS["K1"], "", "the value has 0 bytes and no version"),
        ("", OCV4, "the key has 0 bytes and no type"),
        (None, OCV4, "the key has 0 bytes and no type"),
        ("00", None, "the key has 1 bytes and no type"),
        (KEYS["K1"][:-2], OCV4, "key: partition: wants more than the 3 bytes left at 10"),
        ("0002ffff", None, "key: group: is null"),
        ("0002fffe", None, "key: group: has the length -2 at 2"),
        ("00020001ff", None, "key: group: is not UTF-8 at its byte 0"),
        ("00020003eda080", None, "key: group: is not UTF-8 at its byte 0"),
    ],
)
def test_coordinator_04_damaged_records_are_error_rows(
    key: str | None, value: str | None, problem: str
) -> None:
    """A truncated value, an empty key, broken text: one row with a reason, its bytes kept."""
    row = read(key, value)
    assert row.decode_status is DecodeStatus.ERROR
    assert row.problem.startswith(problem)
    assert row.decoded is None
    assert row.raw_key == bytes.fromhex(key or "")
    assert row.raw_value == (None if value is None else bytes.fromhex(value))
    assert read(KEYS["K1"], OCV4).decode_status is DecodeStatus.OK


def test_coordinator_05_unknown_tags_are_skipped_and_kept() -> None:
    """An extra tag 9 beside the topic id, and one inside a member."""
    value = VALUES["OCV4t"][1].replace("01001000112233", "02001000112233") + "0902beef"
    row = read(KEYS["K1"], value)
    assert row.decode_status is DecodeStatus.OK
    assert row.decoded is not None
    assert row.decoded["topicId"] == U
    assert row.unknown_tags == {"9": "beef"}
    assert encode_value(1, 4, row.decoded, unknown_tags=row.unknown_tags).hex() == value
    member = VALUES["GMV4"][1].removesuffix("0000") + "01030100" + "00"
    inside = read(KEYS["K2"], member)
    assert inside.unknown_tags == {"members[0]:3": "00"}
    assert inside.decoded is not None
    assert encode_value(2, 4, inside.decoded, unknown_tags=inside.unknown_tags).hex() == member
    place = {"classicMemberMetadata.supportedProtocols[0]:9": "dead", "classicMemberMetadata:4": ""}
    classic = read(KEYS["K5"], VALUES["CG5c"][1]).decoded
    assert classic is not None
    deep = read(KEYS["K5"], encode_value(5, 0, classic, unknown_tags=place))
    assert (deep.decode_status, deep.unknown_tags, deep.decoded) == (DecodeStatus.OK, place, classic)


@pytest.mark.parametrize("value", [OCV4.replace("036d64", "83006d64"), OCV4[:-2] + "8000"])
def test_lengths_longer_than_need_be_are_an_error(value: str) -> None:
    """They would not be written back to the same bytes, and no broker writes them."""
    row = read(KEYS["K1"], value)
    assert row.decode_status is DecodeStatus.ERROR
    assert "longer than need be" in row.problem


@pytest.mark.parametrize("tags", ["0209010109010102", "02090101030102"])
def test_tags_out_of_order_are_an_error(tags: str) -> None:
    """Twice the same, or descending: no broker writes that."""
    row = read(KEYS["K1"], OCV4.removesuffix("00") + tags)
    assert row.decode_status is DecodeStatus.ERROR


@pytest.mark.parametrize("record_type", EARLY)
def test_coordinator_07_early_access_layouts_are_recognised(record_type: int) -> None:
    """The layouts of 3.6/3.7 (and share groups before 4.1), which carry version 0 as well."""
    raw = encode_value(record_type, 0, EARLY[record_type], layout="early-access")
    fields = {"groupId": "g1", "memberId": "m1"}
    row = read(encode_key(record_type, fields), raw)
    assert (row.decode_status, row.layout) == (DecodeStatus.OK, "early-access")
    assert row.decoded == EARLY[record_type]
    current = VALUES.get(f"CG{record_type}")
    if current:
        assert read(encode_key(record_type, fields), current[1]).layout == "current"


def test_bytes_behind_a_value_or_a_key_are_reported() -> None:
    """What could be read is given, the status says that it is not all."""
    value = read(KEYS["K1"], VALUES["OCV3"][1] + "0000")
    assert (value.decode_status, value.problem) == (
        DecodeStatus.TRAILING_BYTES,
        "value: 2 bytes are left",
    )
    assert value.decoded is not None
    assert value.decoded["offset"] == 42
    key = read(KEYS["K2"] + "00", None)
    assert (key.decode_status, key.group_id) == (DecodeStatus.TRAILING_BYTES, "g1")
    both = read(KEYS["K1"] + "00", OCV4[:-4])
    assert both.decode_status is DecodeStatus.ERROR


def test_an_unstable_type_in_an_unknown_layout_still_gives_its_epoch() -> None:
    """Share and streams records changed under one version number; the epoch stayed first."""
    row = read("0017" + "00026731", "0000" + "00000005" + "7fffffff")
    assert row.decode_status is DecodeStatus.ERROR
    assert row.decoded == {"epoch": 5}


def test_a_group_far_from_its_partition_is_foreign() -> None:
    """g1 hashes to 3242: it belongs to partition 42 of 50 and to 4 of 3238; this record lies in 4."""
    row = read(KEYS["K1"], OCV4, partitions=50)
    assert (row.expected_partition, row.is_foreign) == (42, True)
    home = read(KEYS["K1"], OCV4, partitions=3238)
    assert (home.expected_partition, home.is_foreign) == (4, False)
    assert read(KEYS["K1"], OCV4).is_foreign is None


@pytest.mark.parametrize(
    "value",
    [
        "0003" + "0008" + "636f6e73756d6572" + "00000001" + "ffffffff" + "00" * 8 + "7fffffff",
        "0004" + "02" + "61" + "00000001" + "0000" + "00" * 8 + "ffffffff07",
        "0004" + "02" + "61" + "00000001" + "0000" + "00" * 8 + "ffffffffff07",
        "0004" + "02" + "61" + "00000001" + "0000" + "00" * 8 + "01" + "ffffffff07",
    ],
)
def test_absurd_counts_allocate_nothing(value: str) -> None:
    """Two billion members in forty bytes: refused before anything is made for them."""
    tracemalloc.start()
    row = read(KEYS["K2"], value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert row.decode_status is DecodeStatus.ERROR
    assert peak < 100_000


@pytest.mark.parametrize(
    ("blob", "row"),
    [
        ("", {"version": None}),
        ("00", {"version": None, "problem": "1 bytes hold no version"}),
        ("0000" + "00000001" + "00027431", {"version": 0, "topics": ["t1"]}),
        (
            "0005" + BLOBS["SUB3r"][4:] + "dead",
            {
                "version": 5,
                "topics": ["t1"],
                "userData": None,
                "ownedPartitions": [{"topic": "t1", "partitions": [0]}],
                "generationId": 5,
                "rackId": "rack-a",
                "remainder": "dead",
            },
        ),
        (
            "0001" + "00000001" + "00027431" + "00000009ff",
            {
                "version": 1,
                "topics": ["t1"],
                "problem": "userData: wants 9 bytes at 14, 1 are left",
            },
        ),
        ("ffff", {"version": -1, "problem": "version -1 is below 0"}),
    ],
)
def test_member_bytes_of_other_clients_are_read_as_far_as_they_go(blob: str, row: dict[str, object]) -> None:
    """Short blobs end at a field, newer versions keep their remainder, nothing raises."""
    assert read_blob(SUBSCRIPTION, bytes.fromhex(blob)) == row


def test_members_of_other_protocols_stay_opaque() -> None:
    """Connect's member bytes are not a subscription; they are kept and not looked into."""
    group = {
        "protocolType": "connect",
        "generation": 1,
        "protocol": "default",
        "leader": "m1",
        "currentStateTimestamp": T,
        "members": [
            {
                "memberId": "m1",
                "groupInstanceId": None,
                "clientId": "c",
                "clientHost": "/h",
                "rebalanceTimeout": 1,
                "sessionTimeout": 1,
                "subscription": "00030000",
                "assignment": "",
            }
        ],
    }
    row = read(KEYS["K2"], encode_value(2, 3, group))
    assert row.decoded == group
    assert read_blob(ASSIGNMENT, b"") == {"version": None}


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: encode_key(99, {}), "record type 99 is not known"),
        (lambda: encode_key(1, {"group": "g", "topic": "t"}), "partition cannot be written"),
        (lambda: encode_key(2, {"group": None}), "group cannot be written"),
        (lambda: encode_key(2, {"group": "\ud83d"}), "group cannot be written"),
        (lambda: encode_key(2, {"group": "g" * 40000}), "group cannot be written"),
        (lambda: encode_value(1, 5, {}), "no version 5 in the layout 'current'"),
        (lambda: encode_value(6, 0, {"assignmentEpoch": 1 << 40}), "assignmentEpoch cannot be written"),
        (
            lambda: encode_value(7, 0, {"topicPartitions": [{"topicId": "x"}]}),
            r"topicPartitions\[0\].topicId",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_by_field(act: object, sentence: str) -> None:
    """One sentence that names the field; half a surrogate pair is not UTF-8 either."""
    assert callable(act)
    with pytest.raises(Rejected, match=sentence):
        act()


def test_every_type_of_the_table_has_a_key_that_begins_with_the_group() -> None:
    """So that the group of a type that we do not know can be guessed."""
    assert sorted(TYPES) == list(range(25))
    assert {known.key.fields[0].name for known in TYPES.values()} == {"group", "groupId"}
