"""Records of ``__consumer_offsets`` → columns. The oracle of the SQL decoder and the body of its UDF.

Nothing raises here: a record that cannot be understood is a row that says so and keeps its bytes.
Text that is not UTF-8 makes its record an error row: brokers write UTF-8 only, so such a record was
damaged, and a replacement character would hash to another partition and re-encode to other bytes.

Source: specs/group-coordinator.md §§1.3, 1.4, 1.9 and 2.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.coordinator_log.embedded import attach
from groupshift.domain.coordinator_log.fields import Schema
from groupshift.domain.coordinator_log.reading import Cursor, Unreadable, read_struct
from groupshift.domain.coordinator_log.records import Decoded, DecodeStatus, LogRecord
from groupshift.domain.coordinator_log.types import TYPES, RecordType
from groupshift.domain.placement import partition_of

_INT16 = struct.Struct(">h")
_GROUP_NAMES = ("group", "groupId")
_GUESS = TYPES[3].key
_READABLE = frozenset({DecodeStatus.OK, DecodeStatus.TRAILING_BYTES})
_WORSE = frozenset({DecodeStatus.ERROR, DecodeStatus.UNKNOWN_VERSION})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    number: int | None = None
    known: RecordType | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    status: DecodeStatus = DecodeStatus.OK
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    version: int | None = None
    layout: str = ""
    fields: dict[str, Any] | None = None
    unknown_tags: dict[str, str] = field(default_factory=dict)
    status: DecodeStatus = DecodeStatus.OK
    problem: str = ""


def decode(record: LogRecord, *, partitions: int | None) -> Decoded:
    """One record as columns; ``partitions`` is the partition count that groups are placed by, or None.

    Never raises for what a record holds (`Rejected` for a partition count below 1).
    """
    key = _key(record.key)
    value = _value(key, record.value)
    group = next((key.fields[name] for name in _GROUP_NAMES if name in key.fields), None)
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
        member_id=key.fields.get("memberId"),
        topic=key.fields.get("topic"),
        partition=key.fields.get("partition"),
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


def _key(raw: bytes | None) -> _Key:
    if raw is None or len(raw) < _INT16.size:
        return _Key(status=DecodeStatus.ERROR, problem=f"the key has {len(raw or b'')} bytes and no type")
    number: int = _INT16.unpack_from(raw)[0]
    known, cursor = TYPES.get(number), Cursor(raw, _INT16.size)
    try:
        if known is None or not known.values:
            return _unknown_type(number, known, cursor)
        fields = read_struct(known.key, 0, cursor)
    except Unreadable as error:
        return _Key(number=number, known=known, status=DecodeStatus.ERROR, problem=f"key: {error}")
    if cursor.left:
        return _Key(
            number=number, known=known, fields=fields, status=DecodeStatus.TRAILING_BYTES,
            problem=f"key: {cursor.left} bytes are left",
        )  # fmt: skip
    return _Key(number=number, known=known, fields=fields)


def _unknown_type(number: int, known: RecordType | None, cursor: Cursor) -> _Key:
    """The group is the first field of every key, so also of one that we do not know."""
    problem = f"record type {number} is {'not known' if known is None else 'known by name only'}"
    try:
        fields = read_struct(_GUESS, 0, cursor)
    except Unreadable:
        fields = {}
    return _Key(number=number, known=known, fields=fields, status=DecodeStatus.UNKNOWN_TYPE, problem=problem)


def _value(key: _Key, raw: bytes | None) -> _Value:
    """The value; left alone where the key cannot be read, and for a tombstone."""
    if raw is None or key.known is None or key.status not in _READABLE:
        return _Value()
    if len(raw) < _INT16.size:
        return _Value(status=DecodeStatus.ERROR, problem=f"the value has {len(raw)} bytes and no version")
    version: int = _INT16.unpack_from(raw)[0]
    current = key.known.values[0]
    if current.oldest <= version <= current.newest:
        return _known_version(key.known, version, raw)
    problem = f"value version {version} is not known, read as {current.newest}"
    try:
        read = _read(key.known, current, current.newest, raw)
    except Unreadable as error:
        problem = f"value version {version} is not known, and not like {current.newest}: {error}"
        return _Value(version=version, status=DecodeStatus.UNKNOWN_VERSION, problem=problem)
    return _Value(
        version=version,
        layout=read.layout,
        fields=read.fields,
        unknown_tags=read.unknown_tags,
        status=DecodeStatus.UNKNOWN_VERSION,
        problem=problem,
    )


def _known_version(known: RecordType, version: int, raw: bytes) -> _Value:
    """The first layout that uses up every byte; else what the current one made of it."""
    fallback: _Value | None = None
    for schema in known.values:
        try:
            read = _read(known, schema, version, raw)
        except Unreadable as error:
            fallback = fallback or _unreadable(known, version, raw, str(error))
            continue
        if read.status is DecodeStatus.OK:
            return read
        fallback = fallback or read
    assert fallback is not None  # noqa: S101  (a known type has a layout)
    return fallback


def _read(known: RecordType, schema: Schema, version: int, raw: bytes) -> _Value:
    """Raises `Unreadable`."""
    cursor = Cursor(raw, _INT16.size)
    fields = read_struct(schema, version, cursor)
    attach(known.number, fields)
    left = cursor.left
    return _Value(
        version=_INT16.unpack_from(raw)[0],
        layout=schema.layout.value,
        fields=fields,
        unknown_tags={
            f"{path}:{tag}" if path else str(tag): body.hex() for path, tag, body in cursor.unknown
        },
        status=DecodeStatus.TRAILING_BYTES if left else DecodeStatus.OK,
        problem=f"value: {left} bytes are left" if left else "",
    )


def _unreadable(known: RecordType, version: int, raw: bytes, problem: str) -> _Value:
    """Of an unstable type at least the epoch, which is first in every layout."""
    fields = None
    if known.head is not None:
        with suppress(Unreadable):
            fields = read_struct(known.head, version, Cursor(raw, _INT16.size))
    return _Value(version=version, fields=fields, status=DecodeStatus.ERROR, problem=f"value: {problem}")
