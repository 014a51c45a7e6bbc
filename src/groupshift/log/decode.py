"""Records of ``__consumer_offsets`` → columns: the oracle of the SQL decoder and the body of its UDF.

Nothing raises here: a record that cannot be understood is a row that says so and keeps its bytes.
Text that is not UTF-8 makes its record an error row: brokers write UTF-8 only, so such a record was
damaged, and a replacement character would hash to another partition and re-encode to other bytes.

`read_blob` reads what members say about themselves: the bytes inside types 2 and 5. A broker keeps these
bytes unread, so they never change a record's status. Rules: a version above 3 is read as 3 and what follows
is kept as ``remainder`` (forward-compatible by design); a blob that ends early ends at a field's edge (some
clients leave the user data out); an empty assignment is a member that has not synced. User data belongs to
the assignor and stays hex.

Source: docs/reference/group-coordinator.md §1.1 (envelope), §§1.3, 1.4, §1.5 (member bytes), §1.9 (columns)
and §2.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from groupshift.domain.foreign_json import shown
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.log.codec import Unknown, Unreadable, message_reader
from groupshift.log.schema import ASSIGNMENT, COMMITS, SUBSCRIPTION, TYPES, RecordType, Schema

_INT16 = struct.Struct(">h")
_NULL = b"\xff" * 4
_GUESS = TYPES[3].key
_REMEMBERED = 1 << 14


class DecodeStatus(StrEnum):
    """How much of a record could be understood; only `OK` rows may ever be committed again."""

    OK = "ok"
    UNKNOWN_TYPE = "unknown_type"
    """The key's type is not in our table (or its layout was never seen): group guessed, value raw."""
    UNKNOWN_VERSION = "unknown_version"
    """The value's version is newer than we know: read as the newest known one where that works."""
    TRAILING_BYTES = "trailing_bytes"
    """Key or value could be read but something is left behind it."""
    ERROR = "error"
    """Key or value cannot be read: ``problem`` says why, the raw bytes are kept."""


_READABLE = frozenset({DecodeStatus.OK, DecodeStatus.TRAILING_BYTES})
_WORSE = frozenset({DecodeStatus.ERROR, DecodeStatus.UNKNOWN_VERSION})


class Value(NamedTuple):
    """The value by itself: columns ``value_version``, ``layout``, ``decoded``, ``unknown_tags``, and its
    share of ``decode_status`` and ``problem``."""

    version: int | None = None
    layout: str = ""
    fields: dict[str, Any] | None = None
    unknown_tags: Mapping[str, str] = {}
    status: DecodeStatus = DecodeStatus.OK
    problem: str = ""


class _Key(NamedTuple):
    number: int | None = None
    known: RecordType | None = None
    fields: Mapping[str, Any] = {}
    status: DecodeStatus = DecodeStatus.OK
    problem: str = ""


def decode(record: LogRecord, *, partitions: int | None) -> Decoded:
    """One record as columns; ``partitions`` is the partition count that groups are placed by, or None.

    Never raises for what a record holds (`Rejected` for a partition count below 1).
    """
    key, value = _key(record.key), Value()
    if record.value is not None and key.known is not None and key.status in _READABLE:
        value = _value(key.known, record.value)
    fields = key.fields
    group = fields.get("groupId") if "groupId" in fields else fields.get("group")
    expected = None if group is None or partitions is None else partition_of(group, partitions)
    first = value if value.status in _WORSE else key if key.status is not DecodeStatus.OK else value
    return Decoded(
        src_partition=record.partition,
        src_offset=record.offset,
        record_ts=record.timestamp_ms,
        record_type=key.number,
        type_name=key.known.name if key.known else "",
        key_version=key.number if key.known else None,
        group_id=group,
        group_guessed=group is not None and key.status is DecodeStatus.UNKNOWN_TYPE,
        member_id=fields.get("memberId"),
        topic=fields.get("topic"),
        partition=fields.get("partition"),
        is_tombstone=record.value is None,
        value_version=value.version,
        layout=value.layout,
        decoded=value.fields,
        unknown_tags=value.unknown_tags,
        raw_key=record.key or b"",
        raw_value=record.value,
        decode_status=first.status,
        problem=first.problem,
        expected_partition=expected,
        is_foreign=None if expected is None else expected != record.partition,
    )


def commit_place(key: bytes | None) -> tuple[str, str, int] | None:
    """Group, topic and partition of a commit's key (types 0 and 1); None for every other key, and for one
    that cannot be read. Never raises."""
    decoded = _key(key)
    if decoded.number not in COMMITS or decoded.status not in _READABLE:
        return None
    return decoded.fields["group"], decoded.fields["topic"], decoded.fields["partition"]


@lru_cache(maxsize=_REMEMBERED)
def _key(raw: bytes | None) -> _Key:
    """Keys come again and again in a log: the latest are remembered."""
    if raw is None or len(raw) < _INT16.size:
        return _Key(status=DecodeStatus.ERROR, problem=f"the key has {len(raw or b'')} bytes and no type")
    number: int = _INT16.unpack_from(raw)[0]
    known = TYPES.get(number)
    fields: Mapping[str, Any] = {}
    if known is None or not known.values:
        problem = f"record type {number} is {'not known' if known is None else 'known by name only'}"
        with suppress(Unreadable):  # the group comes first in every key, so also in one that we do not know
            fields, _ = message_reader(_GUESS, 0)(raw, _INT16.size, [])
        return _Key(number, known, fields, DecodeStatus.UNKNOWN_TYPE, problem)
    try:
        fields, at = message_reader(known.key, 0)(raw, _INT16.size, [])
    except Unreadable as error:
        return _Key(number, known, status=DecodeStatus.ERROR, problem=f"key: {error}")
    if at < len(raw):
        problem = f"key: {len(raw) - at} bytes are left"
        return _Key(number, known, fields, DecodeStatus.TRAILING_BYTES, problem)
    return _Key(number, known, fields)


def _value(known: RecordType, raw: bytes) -> Value:
    """The value of a record of this type, which is not a tombstone. Never raises."""
    if len(raw) < _INT16.size:
        return Value(status=DecodeStatus.ERROR, problem=f"the value has {len(raw)} bytes and no version")
    version: int = _INT16.unpack_from(raw)[0]
    current = known.values[0]
    if not current.oldest <= version <= current.newest:
        try:
            read = _read(known, current, current.newest, raw)
        except Unreadable as error:
            problem = f"value version {version} is not known, and not like {current.newest}: {error}"
            return Value(version, status=DecodeStatus.UNKNOWN_VERSION, problem=problem)
        problem = f"value version {version} is not known, read as {current.newest}"
        return read._replace(version=version, status=DecodeStatus.UNKNOWN_VERSION, problem=problem)
    values: list[Value] = []
    for schema in known.values:  # the first layout that uses up every byte, else what the current one gave
        try:
            values.append(_read(known, schema, version, raw))
        except Unreadable as error:
            head = None  # of an unstable type at least the epoch, which is first in every layout
            if known.head is not None:
                with suppress(Unreadable):
                    head, _ = message_reader(known.head, 0)(raw, _INT16.size, [])
            problem = f"value: {error}"
            values.append(Value(version, fields=head, status=DecodeStatus.ERROR, problem=problem))
        if values[-1].status is DecodeStatus.OK:
            return values[-1]
    return values[0]


def _read(known: RecordType, schema: Schema, version: int, raw: bytes) -> Value:
    """Raises `Unreadable`."""
    unknown: Unknown = []
    fields, at = message_reader(schema, version)(raw, _INT16.size, unknown)
    # Members of a classic group, and protocols of a classic member of a consumer group, say what is embedded.
    if known.number == 2 and fields["protocolType"] == CONSUMER:  # noqa: PLR2004
        for member in fields["members"]:
            member["embedded"] = {
                "subscription": _shown(SUBSCRIPTION, member["subscription"]),
                "assignment": _shown(ASSIGNMENT, member["assignment"]),
            }
    elif known.number == 5 and fields.get("classicMemberMetadata"):  # noqa: PLR2004
        for protocol in fields["classicMemberMetadata"]["supportedProtocols"]:
            protocol["embedded"] = {"metadata": _shown(SUBSCRIPTION, protocol["metadata"])}
    tags = {f"{path}:{tag}" if path else str(tag): body.hex() for path, tag, body in unknown}
    read = Value(version, schema.layout.value, fields, tags)
    if left := len(raw) - at:
        return read._replace(status=DecodeStatus.TRAILING_BYTES, problem=f"value: {left} bytes are left")
    return read


Position = Mapping[int, int]
"""Partition of ``__consumer_offsets`` → the offset behind its last record, all asked for at one moment."""
_REMEMBERED_BLOBS = 1 << 12
_PIECES = {
    schema: tuple((field, Schema(fields=(field,))) for field in schema.fields)
    for schema in (SUBSCRIPTION, ASSIGNMENT)
}
"""Each field by itself, for a blob may end behind any of them."""

CONSUMER = "consumer"
"""The protocol type whose member bytes these are; those of others (connect, sr) stay opaque."""


def read_blob(schema: Schema, blob: bytes) -> dict[str, Any]:
    """A subscription or an assignment: ``version`` and the fields that are there.

    ``remainder`` holds what is left as hex, ``problem`` says what could not be read; neither raises.
    """
    if not blob:
        return {"version": None}
    if len(blob) < _INT16.size:
        return {"version": None, "problem": f"{len(blob)} bytes hold no version"}
    version: int = _INT16.unpack_from(blob)[0]
    if version < schema.oldest:
        return {"version": version, "problem": f"version {version} is below {schema.oldest}"}
    row: dict[str, Any] = {"version": version}
    at = _INT16.size
    for each, piece in _PIECES[schema]:
        if not each.in_version(min(version, schema.newest)):
            continue
        if at == len(blob):
            return row
        try:
            value, at = message_reader(piece, each.since)(blob, at, [])
        except Unreadable as error:
            return row | {"problem": str(error)}
        row |= value
    return row | {"remainder": blob[at:].hex()} if at < len(blob) else row


def without_null(blob: bytes) -> bytes:
    """What a member says, with an empty array where its first one is null: no current client writes null, and
    it means the same."""
    return blob[:2] + bytes(4) + blob[6:] if blob[2:6] == _NULL else blob


def parse_assignment(data: bytes) -> frozenset[TopicPartition]:
    """The partitions in a member's assignment, versions 0 to 3 (they share this part); empty: none.

    Raises `Rejected` when the bytes end too early or there is no such version."""
    fields = read_blob(ASSIGNMENT, without_null(data))
    if data and "assignedPartitions" not in fields:
        problem = fields.get("problem", f"{len(data)} bytes end too early")
        raise Rejected(f"a member's assignment {shown(data)} cannot be read ({problem}); update that client")
    topics = fields.get("assignedPartitions", ())
    return frozenset(TopicPartition(each["topic"], p) for each in topics for p in each["partitions"])


@lru_cache(maxsize=_REMEMBERED_BLOBS)
def _shown(schema: Schema, blob: str) -> dict[str, Any]:
    """Members of a group mostly say the same, record after record; rows share what they show."""
    return read_blob(schema, bytes.fromhex(blob))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record of ``__consumer_offsets`` as it lies in the log.

    ``partition`` and ``offset`` say where it lies, ``timestamp_ms`` is its append or create time
    (epoch ms). A ``value`` of None is a tombstone. Control records never come here, nor do records of
    aborted transactions: the reader is ``read_committed``.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One record, understood as far as it goes. Every column is always there.

    * ``record_type`` is the key's leading int16, None when the key has not even that; ``key_version``
      is the same number for known types, as releases up to 3.9 call it. ``type_name`` is "" for
      unknown types.
    * The key columns are None where the type has no such field or the key cannot be read. A group that
      was guessed from an unknown type has ``group_guessed``.
    * ``decoded`` is the value by the names of Kafka's schemas: only the fields that this version has,
      and tagged fields only if they were written (an absent tag 0 of type 5 is not null). None for
      tombstones and for what cannot be read. Members of consumer groups carry ``embedded``.
    * ``unknown_tags``: "tag" at the top, "path:tag" below, for example "members[0]:9" → hex.
    * ``expected_partition`` is where the group belongs (§2); None without a group or a count.
    """

    src_partition: int
    src_offset: int
    record_ts: int
    record_type: int | None
    type_name: str
    key_version: int | None
    group_id: str | None
    group_guessed: bool
    member_id: str | None
    topic: str | None
    partition: int | None
    is_tombstone: bool
    value_version: int | None
    layout: str
    decoded: dict[str, Any] | None
    unknown_tags: Mapping[str, str] = field(default_factory=dict)
    raw_key: bytes
    raw_value: bytes | None
    decode_status: DecodeStatus
    problem: str
    expected_partition: int | None
    is_foreign: bool | None
