"""What dump tools print of the coordinator's log, as fields; and the same fields of a record that we decoded.

Four shapes of text (``kafka.tools.DumpLogSegments --offsets-decoder``; later ``org.apache.kafka.tools``):

* `Shape.PLAIN` (0.10): ``key: offset::G:T:P payload: OFFSET:METADATA``, of tombstones not even the key;
  ``key: metadata::G payload: TYPE:PROTOCOL:GENERATION:{MEMBER=[T-P, …],…}``, without the type when empty.
* `Shape.COLONS` (1.1): commits as before; ``key: {"metadata":"G"} payload: {…}``.
* `Shape.EQUALS` (2.4, 3.4): ``key: offset_commit::group=G,partition=T-P payload: offset=O,metadata=M`` and
  ``key: group_metadata::group=G``; of tombstones the key.
  The value of a group is JSON in 1.1, 2.4 and 3.4, with the members in one text as 0.10 has it.
* `Shape.JSON` (3.9 on): key and value with all fields by the names of Kafka's schemas.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from groupshift.log import Decoded


class Shape(StrEnum):
    """How a release prints."""

    PLAIN = "plain"
    COLONS = "colons"
    EQUALS = "equals"
    JSON = "json"


def shape_of(numbers: tuple[int, ...]) -> Shape:
    """The shape of a release's text."""
    if numbers < (2,):
        return Shape.PLAIN if numbers < (1,) else Shape.COLONS
    return Shape.EQUALS if numbers < (3, 9) else Shape.JSON


_LESS = (
    "of a commit the version, leader epoch and timestamps; of a group the version, leader, its state's "
    "timestamp, and of members all but assigned partitions and their user data"
)
NOT_PRINTED = {
    Shape.PLAIN: f"{_LESS}; the protocol type of an empty group; of a tombstone its key",
    Shape.COLONS: f"{_LESS}; of a tombstone its key",
    Shape.EQUALS: _LESS,
    Shape.JSON: "the versions of subscription and assignment inside members of classic consumer groups",
}
"""Fields of a record that the text lacks, so that they are compared with the admin API only."""

_NUMBERS = re.compile(r"\b(offset|CreateTime|keysize|keySize|valuesize|valueSize|payloadsize): (-?\d+)")
_FOLDER = re.compile(r"^Dumping .*-(\d+)/\d+\.log$")
_HEAD = re.compile(r"^(?:\| )?offset: ")
_PARTITION = re.compile(r"^(.*)-(\d+)$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One record of the text. ``timestamp_ms`` is None where none is printed; ``fields`` is what stands
    behind the sizes: None for a marker of a transaction (``marker`` then is its kind)."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key_size: int
    value_size: int
    fields: dict[str, Any] | None
    marker: str | None = None


def lines(text: str, shape: Shape) -> Iterator[Line]:
    """Every record of the text, in its order. `ValueError` for a line that is not understood."""
    partition = -1
    for line in text.split("\n"):
        found = _FOLDER.match(line)
        if found:
            partition = int(found[1])
        elif _HEAD.match(line):
            head, _, rest = line.partition(" key: ")
            numbers = {name.lower(): int(value) for name, value in _NUMBERS.findall(head)}
            marker = re.search(r"endTxnMarker: (\w+)", head)
            yield Line(
                partition=partition,
                offset=numbers["offset"],
                timestamp_ms=numbers.get("createtime"),
                key_size=numbers["keysize"],
                value_size=numbers["valuesize" if "valuesize" in numbers else "payloadsize"],
                fields=None if marker else _READERS[shape](rest),
                marker=marker[1] if marker else None,
            )


def _colons(rest: str) -> dict[str, Any]:
    if not rest:
        return {}
    key, _, payload = rest.partition(" payload: ")
    if key.startswith("offset::"):
        group, topic, partition = key.removeprefix("offset::").split(":")
        offset, _, metadata = payload.partition(":")
        return _commit(group, (topic, int(partition)), int(offset), metadata)
    if key.startswith("metadata::"):
        kind, protocol, generation, assignment = payload.split(":", 3)
        told: dict[str, Any] = {"protocolType": kind, "generationId": int(generation)}
        told["protocol"] = None if protocol == "null" else protocol
        return _members(key.removeprefix("metadata::"), told, assignment)
    return _group(json.loads(key)["metadata"], payload)


def _equals(rest: str) -> dict[str, Any]:
    key, _, payload = rest.partition(" payload: ")
    if key.startswith("group_metadata::group="):
        return _group(key.removeprefix("group_metadata::group="), payload)
    group, _, place = key.removeprefix("offset_commit::group=").rpartition(",partition=")
    at = _placed(place)
    if payload == "<DELETE>":
        return {"group": group, "at": at, "removed": True}
    offset, _, metadata = payload.removeprefix("offset=").partition(",metadata=")
    return _commit(group, at, int(offset), metadata)


def _commit(group: str, at: tuple[str, int], offset: int, metadata: str) -> dict[str, Any]:
    return {"group": group, "at": at, "offset": offset, "metadata": metadata}


def _placed(text: str) -> tuple[str, int]:
    found = _PARTITION.match(text)
    if not found:
        raise ValueError(f"{text!r} is no topic and partition")
    return found[1], int(found[2])


def _group(group: str, payload: str) -> dict[str, Any]:
    if payload == "<DELETE>":
        return {"group": group, "removed": True}
    told = json.loads(payload)
    return _members(group, told, told.pop("assignment"))


def _members(group: str, told: dict[str, Any], text: str) -> dict[str, Any]:
    """Fields of a group, with those of its members, which all these releases print in one way."""
    assignment = text.removeprefix("{").removesuffix("}")
    members: dict[str, Any] = {}
    if told["protocolType"] == "consumer":
        for member, partitions, data in re.findall(r"(.+?)=\[(.*?)\](?::([0-9A-F]+))?(?:,|$)", assignment):
            members[member] = (sorted(map(_placed, partitions.split(", ")) if partitions else []), data)
    elif assignment:
        members = dict(each.split("=") for each in assignment.split(","))
    return {"group": group, **told, "assignment": members}


def _json(rest: str) -> dict[str, Any]:
    key, end = json.JSONDecoder().raw_decode(rest)
    payload = rest[end:].removeprefix(" payload: ")
    if payload == rest[end:]:
        raise ValueError(f"{rest!r} has no payload")
    value = None if payload == "<DELETE>" else json.loads(payload)
    return {"key": key, "value": value}


_READERS = {Shape.PLAIN: _colons, Shape.COLONS: _colons, Shape.EQUALS: _equals, Shape.JSON: _json}


def fields(record: Decoded, shape: Shape) -> dict[str, Any]:
    """What the text has to say of a record, out of our decoding. `ValueError` for a type that no release with
    this shape writes."""
    if shape is Shape.JSON:
        return {"key": _json_key(record), "value": _json_value(record)}
    if record.is_tombstone and shape in {Shape.PLAIN, Shape.COLONS}:
        return {}
    if record.record_type == 2:
        group = _group_fields(record)
        untold = shape is Shape.PLAIN and not group["assignment"]
        return group | {"protocolType": ""} if untold else group
    if record.record_type != 1:
        raise ValueError(f"{record.type_name} of a release that has none")
    told = {"group": record.group_id, "at": (record.topic, record.partition)}
    if record.is_tombstone:
        return told | {"removed": True}
    value = record.decoded or {}
    return told | {"offset": value["offset"], "metadata": value["metadata"]}


def _group_fields(record: Decoded) -> dict[str, Any]:
    if record.is_tombstone:
        return {"group": record.group_id, "removed": True}
    value = record.decoded or {}
    return {
        "group": record.group_id,
        "protocolType": value["protocolType"],
        "protocol": value["protocol"],
        "generationId": value["generation"],
        "assignment": {member["memberId"]: _assigned(value, member) for member in value["members"]},
    }


def _assigned(value: dict[str, Any], member: dict[str, Any]) -> Any:
    if value["protocolType"] != "consumer":
        return _number(member["assignment"])
    told = member["embedded"]["assignment"]
    given = told.get("assignedPartitions", ())
    partitions = [(each["topic"], number) for each in given for number in each["partitions"]]
    return sorted(partitions), _number(told.get("userData") or "")


def _number(text: str) -> str:
    """Bytes as the tool prints them: one number in hex, without leading zeros."""
    return f"{int(text, 16):X}" if text else ""


def _json_key(record: Decoded) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if record.record_type in {1, 2}:
        data["group"] = record.group_id
    else:
        data["groupId"] = record.group_id
    if record.record_type == 1:
        data |= {"topic": record.topic, "partition": record.partition}
    if record.member_id is not None:
        data["memberId"] = record.member_id
    if record.record_type == 16:
        data["regularExpression"] = record.raw_key[6 + len((record.group_id or "").encode()) :].decode()
    return {"type": str(record.record_type), "data": data}


def _json_value(record: Decoded) -> dict[str, Any] | None:
    if record.is_tombstone:
        return None
    return {"version": str(record.value_version), "data": _plain(record.decoded)}


_BYTES = frozenset({"subscription", "assignment", "metadata", "userData"})


def _plain(value: Any) -> Any:
    """Our row as the tool's JSON: bytes in base64; what members of classic groups say, spelled out."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    inside = value.get("embedded", {})
    row = {name: _plain(each) for name, each in value.items() if name != "embedded"}
    if "subscription" in value:
        row |= {name: _blob(value[name], inside.get(name)) for name in ("subscription", "assignment")}
    elif "metadata" in value and "name" in value:
        row["metadata"] = _base64(value["metadata"])
    return row


def _blob(raw: str, told: dict[str, Any] | None) -> Any:
    if told is None or told.get("version") is None:
        return _base64(raw)
    row = {name: each for name, each in told.items() if name != "version"}
    return row | {"userData": None if row["userData"] is None else _base64(row["userData"])}


def _base64(raw: str) -> str:
    return base64.b64encode(bytes.fromhex(raw)).decode()
