"""The one interpreter that reads: a schema and bytes give a row of plain Python values.

Nothing read here is trusted: a length or a count is held against the bytes that are left before
anything is allocated, text must be UTF-8, null only where the schema allows it. Values come as JSON
knows them: bytes as hex, a UUID in Kafka's own text form (URL-safe base64 without padding). A field
that the version does not have, and a tagged field that was not written, is not in the row.

Source: specs/group-coordinator.md §1.2.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from groupshift.domain.coordinator_log.fields import Field, Kind, Schema

_MORE = 0x80
_VARINT_BITS = 28
_LENGTH_LIMIT = 1 << 31
_NUMBERS = {
    Kind.INT8: struct.Struct(">b"),
    Kind.INT16: struct.Struct(">h"),
    Kind.UINT16: struct.Struct(">H"),
    Kind.INT32: struct.Struct(">i"),
    Kind.INT64: struct.Struct(">q"),
}
_UUID_BYTES = 16


class Unreadable(ValueError):
    """The bytes are not what the schema says; the message names the field and the position."""


class Cursor:
    """A position in ``data``, and the unknown tags met so far: [path of the struct, tag, bytes]."""

    __slots__ = ("at", "data", "end", "unknown")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.unknown: list[tuple[str, int, bytes]] = []

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes. Raises `Unreadable` when there are fewer."""
        stop = self.at + length
        if length < 0 or stop > self.end:
            raise Unreadable(f"wants {length} bytes at {self.at}, {self.end - self.at} are left")
        taken = self.data[self.at : stop]
        self.at = stop
        return taken

    def number(self, form: struct.Struct) -> int:
        """The next number. Raises `Unreadable` when its bytes are not there."""
        value: int = form.unpack(self.take(form.size))[0]
        return value

    def uvarint(self) -> int:
        """An unsigned LEB128 number below 2^31. Raises `Unreadable` for more, or without an end."""
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                break
            shift += 7
            if shift > _VARINT_BITS:
                raise Unreadable(f"has a variable-length number of more than five bytes before {self.at}")
        if value >= _LENGTH_LIMIT:
            raise Unreadable(f"has a variable-length number of {value} before {self.at}")
        return value

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self.end - self.at


Read = Callable[[Cursor], Any]


def read_struct(schema: Schema, version: int, cursor: Cursor) -> dict[str, Any]:
    """One message of this version at the cursor, which then stands behind it.

    Raises `Unreadable`, which names the field.
    """
    row: dict[str, Any] = _message_reader(schema, version)(cursor)
    return row


@cache
def _message_reader(schema: Schema, version: int) -> Read:
    return _struct_reader(schema.fields, version, flexible=schema.is_flexible(version))


def _struct_reader(fields: tuple[Field, ...], version: int, *, flexible: bool) -> Read:
    present = [field for field in fields if field.in_version(version)]
    plain = tuple((f.name, _reader(f, version, flexible=flexible)) for f in present if f.tag is None)
    tagged = {f.tag: (f.name, _reader(f, version, flexible=flexible)) for f in present if f.tag is not None}

    def read(cursor: Cursor) -> dict[str, Any]:
        row: dict[str, Any] = {}
        name = ""
        try:
            for name, reader in plain:
                row[name] = reader(cursor)
        except Unreadable as error:
            raise Unreadable(f"{name}: {error}") from None
        if flexible:
            _read_tags(cursor, tagged, row)
        return row

    return read


def _read_tags(cursor: Cursor, known: dict[int, tuple[str, Read]], row: dict[str, Any]) -> None:
    """The tag section of one struct: known tags into the row, others kept raw."""
    last = -1
    for _ in range(cursor.uvarint()):
        tag = cursor.uvarint()
        if tag <= last:
            raise Unreadable(f"tag {tag} follows tag {last} before {cursor.at}")
        last = tag
        body = cursor.take(cursor.uvarint())
        if tag not in known:
            cursor.unknown.append(("", tag, body))
            continue
        name, reader = known[tag]
        inner = Cursor(body)
        try:
            row[name] = reader(inner)
        except Unreadable as error:
            raise Unreadable(f"{name} (tag {tag}): {error}") from None
        if inner.left:
            raise Unreadable(f"{name} (tag {tag}): leaves {inner.left} of {len(body)} bytes")
        cursor.unknown.extend((_below(name, path), number, raw) for path, number, raw in inner.unknown)


def _below(name: str, path: str) -> str:
    return f"{name}.{path}" if path else name


def _reader(field: Field, version: int, *, flexible: bool) -> Read:
    element = _element_reader(field, version, flexible=flexible)
    if not field.array:
        return element
    counted = _length_reader(Kind.STRUCT, flexible=flexible)
    if field.kind is Kind.INT32:
        return _numbers_reader(counted, nullable=field.nullable)
    return _array_reader(field, counted, element)


def _array_reader(field: Field, counted: Read, element: Read) -> Read:
    name, nullable = field.name, field.nullable

    def read(cursor: Cursor) -> list[Any] | None:
        count = counted(cursor)
        if count is None:
            return _null_array(nullable)
        if count > cursor.left:
            raise Unreadable(f"claims {count} elements at {cursor.at}, {cursor.left} bytes are left")
        rows = []
        for index in range(count):
            met = len(cursor.unknown)
            rows.append(element(cursor))
            if len(cursor.unknown) > met:
                _name_paths(cursor, met, f"{name}[{index}]")
        return rows

    return read


def _name_paths(cursor: Cursor, since: int, name: str) -> None:
    cursor.unknown[since:] = [(_below(name, path), tag, raw) for path, tag, raw in cursor.unknown[since:]]


def _numbers_reader(counted: Read, *, nullable: bool) -> Read:
    def read(cursor: Cursor) -> list[int] | None:
        count = counted(cursor)
        if count is None:
            return _null_array(nullable)
        return list(struct.unpack(f">{count}i", cursor.take(4 * count))) if count else []

    return read


def _null_array(nullable: object) -> list[Any] | None:
    """Raises `Unreadable` where null is not allowed."""
    if not nullable:
        raise Unreadable("is null, which the schema does not allow")
    return None


def _length_reader(kind: Kind, *, flexible: bool) -> Read:
    """A length or count; None stands for null. Lengths below -1 are refused."""
    if flexible:

        def compact(cursor: Cursor) -> int | None:
            length = cursor.uvarint()
            return length - 1 if length else None

        return compact
    form = _NUMBERS[Kind.INT16 if kind is Kind.STRING else Kind.INT32]

    def classic(cursor: Cursor) -> int | None:
        length = cursor.number(form)
        if length < -1:
            raise Unreadable(f"has the length {length} before {cursor.at}")
        return None if length == -1 else length

    return classic


def _element_reader(field: Field, version: int, *, flexible: bool) -> Read:
    if field.kind is Kind.STRUCT:
        return _nested_reader(field, _struct_reader(field.fields, version, flexible=flexible))
    if field.kind is Kind.UUID:
        return lambda cursor: urlsafe_b64encode(cursor.take(_UUID_BYTES)).decode().rstrip("=")
    if field.kind in _NUMBERS:
        form = _NUMBERS[field.kind]
        return lambda cursor: cursor.number(form)
    length = _length_reader(field.kind, flexible=flexible)
    shown = _text if field.kind is Kind.STRING else bytes.hex
    nullable = field.nullable and not field.array

    def read(cursor: Cursor) -> str | None:
        size = length(cursor)
        if size is None and not nullable:
            raise Unreadable("is null, which the schema does not allow")
        return None if size is None else shown(cursor.take(size))

    return read


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8 at its byte {error.start}") from None


def _nested_reader(field: Field, read: Read) -> Read:
    """A single nullable struct says first whether it is there: int8 -1, or 0 in a tagged field."""
    if field.array or not field.nullable:
        return read
    if field.tag is not None:
        return lambda cursor: read(cursor) if cursor.uvarint() else None
    form = _NUMBERS[Kind.INT8]
    return lambda cursor: None if cursor.number(form) < 0 else read(cursor)
