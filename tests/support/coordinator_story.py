"""Short logs of coordinator records, written the way a coordinator would, for tests of what they add up to.

Every function gives (record type, key fields, version, value or None for a tombstone); `log` makes the
records, with offsets in the order given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.log import Decoded, LogRecord, decode
from groupshift_testing.log_encoder import encode_key, encode_value
from support.coordinator_vectors import BLOBS, T, U

Line = tuple[int, dict[str, Any], int, dict[str, Any] | None]
PARTITIONS = 5
SUBSCRIPTION, ASSIGNMENT = BLOBS["SUB3"], BLOBS["ASG0"]


def commit(
    group: str = "g",
    topic: str = "t1",
    partition: int = 0,
    *,
    offset: int = 1,
    at: int = T,
    version: int = 3,
    kind: int = 1,
) -> Line:
    """An offset commit; version 1 also expires a day later, version 4 names the topic's id."""
    value = {
        "offset": offset,
        "leaderEpoch": -1,
        "metadata": "",
        "commitTimestamp": at,
        "expireTimestamp": at + 86_400_000,
        "topicId": U,
    }
    return kind, {"group": group, "topic": topic, "partition": partition}, version, value


def classic(group: str = "g", *members: str, protocol_type: str = "consumer", since: int = T) -> Line:
    """The one record of a classic group; without members it is Empty."""
    rows = [
        {
            "memberId": member,
            "groupInstanceId": None,
            "clientId": member,
            "clientHost": "/127.0.0.1",
            "rebalanceTimeout": 300_000,
            "sessionTimeout": 45_000,
            "subscription": SUBSCRIPTION,
            "assignment": ASSIGNMENT,
        }
        for member in members
    ]
    value = {
        "protocolType": protocol_type,
        "generation": 4,
        "protocol": "range" if rows else None,
        "leader": members[0] if rows else None,
        "currentStateTimestamp": since,
        "members": rows,
    }
    return 2, {"group": group}, 3, value


def epoch(group: str = "g", number: int = 5, *, kind: int = 3) -> Line:
    """The group epoch of a consumer (3), share (11) or streams (17) group."""
    return kind, {"groupId": group}, 0, {"epoch": number, "metadataHash": 7}


def member(group: str = "g", member_id: str = "m1", *, topics: Iterable[str] = ("t1",)) -> Line:
    """A native member of a consumer group."""
    value = {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/127.0.0.1",
        "subscribedTopicNames": list(topics),
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": 300_000,
        "serverAssignor": None,
        "classicMemberMetadata": None,
    }
    return 5, {"groupId": group, "memberId": member_id}, 0, value


def target_epoch(group: str = "g", number: int = 5) -> Line:
    """The epoch of the target assignment."""
    return 6, {"groupId": group}, 0, {"assignmentEpoch": number}


def target(group: str = "g", member_id: str = "m1") -> Line:
    """A member's target assignment."""
    value = {"topicPartitions": [{"topicId": U, "partitions": [0]}]}
    return 7, {"groupId": group, "memberId": member_id}, 0, value


def early_target(group: str = "g", member_id: str = "m1") -> Line:
    """A member's target assignment as 3.7 wrote it: another layout under the same version."""
    value = {"error": 0, "topicPartitions": [], "metadataVersion": 0, "metadataBytes": ""}
    return 7, {"groupId": group, "memberId": member_id}, 0, value


def current(group: str = "g", member_id: str = "m1", number: int = 5) -> Line:
    """A member's current assignment."""
    value = {
        "memberEpoch": number,
        "previousMemberEpoch": number - 1,
        "state": 0,
        "assignedPartitions": [{"topicId": U, "partitions": [0]}],
        "partitionsPendingRevocation": [],
    }
    return 8, {"groupId": group, "memberId": member_id}, 0, value


def share_member(group: str = "g", member_id: str = "m1") -> Line:
    """A member of a share group."""
    value = {"rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t1"]}
    return 10, {"groupId": group, "memberId": member_id}, 0, value


def share_current(group: str = "g", member_id: str = "m1") -> Line:
    """The current assignment of a member of a share group."""
    value = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": 0, "assignedPartitions": []}
    return 14, {"groupId": group, "memberId": member_id}, 0, value


def streams_member(group: str = "g", member_id: str = "m1") -> Line:
    """A member of a streams group."""
    value = {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeoutMs": 1,
        "topologyEpoch": 0,
        "processId": "p",
        "userEndpoint": None,
        "clientTags": [],
    }
    return 19, {"groupId": group, "memberId": member_id}, 0, value


def partition_metadata(group: str = "g") -> Line:
    """The topics of a consumer group up to 4.0."""
    return 4, {"groupId": group}, 0, {"topics": []}


def gone(line: Line) -> Line:
    """The tombstone of this record."""
    number, key, version, _ = line
    return number, key, version, None


def consumer_group(group: str = "g", member_id: str = "m1") -> list[Line]:
    """A live consumer group with one native member, in the order that coordinators write."""
    return [
        member(group, member_id),
        epoch(group),
        target(group, member_id),
        target_epoch(group),
        current(group, member_id),
    ]


def to_classic(group: str = "g", member_id: str = "m1") -> list[Line]:
    """The batch of an online conversion of that group: tombstones 8, 7, 6, 5, 4, 3, then a live 2."""
    return [
        gone(current(group, member_id)),
        gone(target(group, member_id)),
        gone(target_epoch(group)),
        gone(member(group, member_id)),
        gone(partition_metadata(group)),
        gone(epoch(group)),
        classic(group, member_id),
    ]


def record(line: Line, offset: int, *, partition: int | None = None) -> LogRecord:
    """One line as a record at this offset, by default in its group's partition."""
    number, key, version, value = line
    layout = "early-access" if value is not None and "error" in value else "current"
    group = key.get("group") or key["groupId"]
    return LogRecord(
        partition=partition_of(group, PARTITIONS) if partition is None else partition,
        offset=offset,
        timestamp_ms=T,
        key=encode_key(number, key),
        value=None if value is None else encode_value(number, version, value, layout=layout),
    )


def log(*lines: Line, start: int = 0, partition: int | None = None) -> list[Decoded]:
    """These lines decoded, at the offsets from ``start`` on."""
    return [
        decode(record(line, start + index, partition=partition), partitions=PARTITIONS)
        for index, line in enumerate(lines)
    ]


def compacted(records: Iterable[Decoded], *, tombstones: bool = True) -> list[Decoded]:
    """What compaction leaves: the last record of each key and, while they are kept, tombstones."""
    last = {(one.src_partition, one.raw_key): one for one in records}
    return [one for one in last.values() if tombstones or not one.is_tombstone]
