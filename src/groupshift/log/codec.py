"""The interpreter of schemas: bytes become a row of plain Python values.

Nothing in the bytes is trusted. A length or a count is held against the bytes that are left before
anything is allocated, text must be UTF-8, null only where the schema allows it. Values come as JSON
knows them: bytes as hex, a UUID in Kafka's own text form (URL-safe base64 without padding). A field
that the version does not have, and a tagged field that was not written, is not in the row. A reader is a
function of the bytes, a position in them and the list of unknown tags met so far; it gives the value and the
position behind it.

Source: docs/reference/group-coordinator.md §1.2.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from groupshift.log.schema import Field, FieldType, Schema

Unknown = list[tuple[str, int, bytes]]
"""Unknown tags: path of their struct, tag, bytes."""
Read = Callable[[bytes, int, Unknown], tuple[Any, int]]
"""Bytes, position, unknown tags so far → value, position behind it. Raises `Unreadable`, or what Python
raises where the bytes end too early or text is not UTF-8: `_struct_reader` makes that `Unreadable`."""
_Length = Callable[[bytes, int], tuple[int, int]]
"""Bytes, position → length or count (-1: null), position behind it."""

_MORE = 0x80
_VARINT_BYTES = 5
_LENGTH_LIMIT = 1 << 31
FORMS = {
    FieldType.INT8: ">b",
    FieldType.INT16: ">h",
    FieldType.UINT16: ">H",
    FieldType.INT32: ">i",
    FieldType.INT64: ">q",
}
"""A number's layout, as `struct` writes it."""
_UUID_BYTES = 16
MISSING = {False: 0xFF, True: 0}
"""The byte in place of a struct that is null, by whether the field is tagged; 1 where there is one."""


class Unreadable(ValueError):
    """The bytes are not what the schema says; the message names the field and the position."""


@cache
def message_reader(schema: Schema, version: int) -> Read:
    """What reads the fields of one message of this version; it raises `Unreadable`, which names the field."""
    return _struct_reader(schema.fields, version, flexible=schema.is_flexible(version))


def _struct_reader(fields: tuple[Field, ...], version: int, *, flexible: bool) -> Read:
    present = [field for field in fields if field.in_version(version)]
    plain = tuple((f.name, _reader(f, version, flexible=flexible)) for f in present if f.tag is None)
    tagged = {f.tag: (f.name, _reader(f, version, flexible=flexible)) for f in present if f.tag is not None}

    def read(data: bytes, at: int, unknown: Unknown) -> tuple[dict[str, Any], int]:
        row: dict[str, Any] = {}
        name = "tags"
        try:
            for name, reader in plain:
                row[name], at = reader(data, at, unknown)
            if flexible:
                name = "tags"
                at = _read_tags(data, at, tagged, row, unknown) if data[at] else at + 1
        except Unreadable as error:
            raise Unreadable(f"{name}: {error}") from None
        except (struct.error, IndexError):
            raise Unreadable(f"{name}: wants more than the {len(data) - at} bytes left at {at}") from None
        except UnicodeDecodeError as error:
            raise Unreadable(f"{name}: is not UTF-8 at its byte {error.start}") from None
        return row, at

    return read


def _read_tags(
    data: bytes, at: int, known: dict[int, tuple[str, Read]], row: dict[str, Any], unknown: Unknown
) -> int:
    """Read the tag section of one struct: known tags into the row, others kept raw. A known one must use up
    the bytes of its tag."""
    last = -1
    count, at = _uvarint(data, at)
    for _ in range(count):
        tag, at = _uvarint(data, at)
        size, at = _uvarint(data, at)
        if tag <= last:
            raise Unreadable(f"tag {tag} follows tag {last} before {at}")
        last, body = tag, _taken(data, at, size)
        at += size
        if tag not in known:
            unknown.append(("", tag, body))
            continue
        name, reader = known[tag]
        try:
            row[name], end = reader(body, 0, unknown)
        except (struct.error, IndexError):
            raise Unreadable(f"{name} wants more than the {size} bytes of its tag") from None
        if end != size:
            raise Unreadable(f"{name} leaves {size - end} of the {size} bytes of its tag")
    return at


def _taken(data: bytes, at: int, length: int) -> bytes:
    stop = at + length
    if stop > len(data):
        raise Unreadable(f"wants {length} bytes at {at}, {len(data) - at} are left")
    return data[at:stop]


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number below 2^31 in its shortest form, which is the one brokers write."""
    value = 0
    for index in range(_VARINT_BYTES):
        byte = data[at + index]
        value |= (byte & _MORE - 1) << 7 * index
        if byte < _MORE:
            if value >= _LENGTH_LIMIT or (index and not byte):
                break
            return value, at + index + 1
    raise Unreadable(f"has a variable-length number beyond 2^31, or longer than need be, at {at}")


def _reader(field: Field, version: int, *, flexible: bool) -> Read:
    """The reader of one field: of an element, or of an array of them. Numbers of an array come at once."""
    element = _element_reader(field, version, flexible=flexible)
    if not field.array:
        return element
    counted = _compact_length if flexible else _long_length
    name, nullable, numbers = field.name, field.nullable, field.kind is FieldType.INT32
    least = struct.calcsize(FORMS[FieldType.INT32]) if numbers else 1

    def read(data: bytes, at: int, unknown: Unknown) -> tuple[list[Any] | None, int]:
        count, at = counted(data, at)
        if count < 0:
            return _null(nullable), at
        if least * count > len(data) - at:
            raise Unreadable(f"claims {count} elements at {at}, {len(data) - at} bytes are left")
        if numbers:
            return list(struct.unpack_from(f">{count}i", data, at)), at + least * count
        rows = []
        for index in range(count):
            met = len(unknown)
            value, at = element(data, at, unknown)
            rows.append(value)
            if len(unknown) > met:
                _locate(unknown, met, f"{name}[{index}]")
        return rows, at

    return read


def _locate(unknown: Unknown, since: int, name: str) -> None:
    """Unknown tags met below ``name`` are told so."""
    unknown[since:] = [(f"{name}.{path}" if path else name, tag, body) for path, tag, body in unknown[since:]]


def _null(nullable: object) -> Any:
    """None; raises `Unreadable` where null is not allowed."""
    if not nullable:
        raise Unreadable("is null, which the schema does not allow")
    return None


def _compact_length(data: bytes, at: int) -> tuple[int, int]:
    """A compact length or count; -1 stands for null, as in the classic ones."""
    byte = data[at]
    if byte < _MORE:
        return byte - 1, at + 1
    length, at = _uvarint(data, at)
    return length - 1, at


def _classic_length(form: str) -> _Length:
    unpack, size = struct.Struct(form).unpack_from, struct.calcsize(form)

    def read(data: bytes, at: int) -> tuple[int, int]:
        length: int = unpack(data, at)[0]
        if length < -1:
            raise Unreadable(f"has the length {length} at {at}")
        return length, at + size

    return read


_short_length, _long_length = _classic_length(">h"), _classic_length(">i")


def _element_reader(field: Field, version: int, *, flexible: bool) -> Read:
    if field.kind is FieldType.STRUCT:
        read = _struct_reader(field.fields, version, flexible=flexible)
        return read if field.array else _one_struct_reader(field, read)
    if field.kind is FieldType.UUID:
        return _uuid
    if field.kind in FORMS:
        form = struct.Struct(FORMS[field.kind])
        return lambda data, at, _: (form.unpack_from(data, at)[0], at + form.size)
    return _bytes_reader(field, flexible=flexible)


def _uuid(data: bytes, at: int, _: Unknown) -> tuple[str, int]:
    raw = _taken(data, at, _UUID_BYTES)
    return urlsafe_b64encode(raw).decode("ascii").rstrip("="), at + _UUID_BYTES


def _bytes_reader(field: Field, *, flexible: bool) -> Read:
    """The reader of text, or of bytes as hex. Compact text of up to 126 bytes goes without a detour: that is
    most of what there is."""
    text = field.kind is FieldType.STRING
    length = _compact_length if flexible else _short_length if text else _long_length
    shown: Callable[[bytes], str] = bytes.decode if text else bytes.hex
    nullable, short = field.nullable and not field.array, text and flexible

    def read(data: bytes, at: int, _: Unknown) -> tuple[str | None, int]:
        if short:
            stop = at + data[at]
            if at < stop <= len(data) and stop - at < _MORE:
                return data[at + 1 : stop].decode(), stop
        size, at = length(data, at)
        if size < 0:
            return _null(nullable), at
        return shown(_taken(data, at, size)), at + size

    return read


def _one_struct_reader(field: Field, read: Read) -> Read:
    """A single struct, which may say first that it is not there: int8 -1, or 0 in a tagged field."""
    missing = MISSING[field.tag is not None]

    def one(data: bytes, at: int, unknown: Unknown) -> tuple[dict[str, Any] | None, int]:
        if field.nullable:
            if data[at] not in (1, missing):
                raise Unreadable(f"is neither there nor null at {at}")
            at += 1
            if data[at - 1] == missing:
                return None, at
        met = len(unknown)
        row, at = read(data, at, unknown)
        _locate(unknown, met, field.name)
        return row, at

    return one
