"""The one interpreter that writes: a row as `reading` gives it becomes the bytes it came from.

Byte-identical to what brokers write: lengths and tag numbers in their shortest form, tags in ascending
order, a tagged field exactly if the row has it (brokers leave defaults out, so readers do not see them).
Fields that the version does not have are ignored, others must be there.

Source: specs/group-coordinator.md §1.2.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any

from groupshift.domain.coordinator_log.fields import Field, Kind, Schema
from groupshift.domain.coordinator_log.types import TYPES, RecordType
from groupshift.errors import Rejected

_NUMBERS = {Kind.INT8: ">b", Kind.INT16: ">h", Kind.UINT16: ">H", Kind.INT32: ">i", Kind.INT64: ">q"}
_SEVEN_BITS = 0x7F
_UUID_TEXT = 22


def encode_key(record_type: int, fields: Mapping[str, object]) -> bytes:
    """The key of a record: ``fields`` by the names of Kafka's schemas (``group`` or ``groupId``,
    ``topic``, ``partition``, ``memberId``, ``regularExpression``).

    Raises `Rejected` for an unknown type and for a field that is missing or does not fit.
    """
    known = _known(record_type)
    return _int16(record_type, "record type") + _message(known.key, 0, fields, {})


def encode_value(
    record_type: int,
    version: int,
    fields: Mapping[str, object],
    *,
    layout: str = "current",
    unknown_tags: Mapping[str, str] | None = None,
) -> bytes:
    """The value of a record in this version and layout; ``fields`` and ``unknown_tags`` as in `Decoded`.

    Raises `Rejected` for a type, version or layout that is not known, and for a field that is missing
    or does not fit.
    """
    known = _known(record_type)
    for schema in known.values:
        if schema.layout == layout and schema.oldest <= version <= schema.newest:
            return _int16(version, "version") + _message(schema, version, fields, unknown_tags or {})
    raise Rejected(f"a value of {known.name} has no version {version} in the layout {layout!r}")


def encode_blob(schema: Schema, fields: Mapping[str, object]) -> bytes:
    """A subscription or assignment from the row that `embedded.read_blob` gave, ``version`` included.

    Raises `Rejected` for a row without a known version, or that does not fit.
    """
    version = fields.get("version")
    if not isinstance(version, int) or not schema.oldest <= version <= schema.newest:
        raise Rejected(f"version {version} of a subscription or assignment cannot be written; give 0 to 3")
    return _int16(version, "version") + _message(schema, version, fields, {})


def _known(record_type: int) -> RecordType:
    known = TYPES.get(record_type)
    if known is None:
        raise Rejected(f"record type {record_type} is not known; give one of 0 to {max(TYPES)}")
    return known


def _message(schema: Schema, version: int, row: Mapping[str, Any], unknown: Mapping[str, str]) -> bytes:
    tags: dict[str, dict[int, bytes]] = {}
    for place, body in unknown.items():
        path, _, tag = place.rpartition(":")
        tags.setdefault(path, {})[int(tag)] = bytes.fromhex(body)
    writer = _Writer(version=version, flexible=schema.is_flexible(version), tags=tags)
    try:
        return writer.struct(schema.fields, row, "")
    except (struct.error, TypeError, ValueError, AttributeError) as error:
        raise Rejected(
            f"field {writer.name} cannot be written ({error}); give what the schema says"
        ) from error


def _int16(value: int, name: str) -> bytes:
    try:
        return struct.pack(">h", value)
    except struct.error as error:
        raise Rejected(f"{name} {value} is no int16 ({error})") from error


def uvarint(value: int) -> bytes:
    """An unsigned LEB128 number in its shortest form."""
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | _SEVEN_BITS + 1)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Writer:
    """Writes structs of one message; ``name`` is the field at hand, ``tags`` unknown ones by path."""

    def __init__(self, *, version: int, flexible: bool, tags: Mapping[str, Mapping[int, bytes]]) -> None:
        self._version = version
        self._flexible = flexible
        self._tags = tags
        self.name = ""

    def struct(self, fields: tuple[Field, ...], row: Mapping[str, Any], path: str) -> bytes:
        """One struct with its tag section. Raises what `_message` turns into `Rejected`."""
        present = [field for field in fields if field.in_version(self._version)]
        plain = b"".join(self._field(field, row, path) for field in present if field.tag is None)
        if not self._flexible:
            return plain
        sections = dict(self._tags.get(path, {}))
        for field in present:
            if field.tag is not None and field.name in row:
                sections[field.tag] = self._field(field, row, path)
        tagged = b"".join(uvarint(tag) + uvarint(len(body)) + body for tag, body in sorted(sections.items()))
        return plain + uvarint(len(sections)) + tagged

    def _field(self, field: Field, row: Mapping[str, Any], path: str) -> bytes:
        self.name = f"{path}.{field.name}" if path else field.name
        if field.name not in row:
            raise ValueError("it is missing")
        value, name = row[field.name], self.name
        if not field.array:
            return self._element(field, value, name)
        if value is None:
            return self._length(None, ">i", nullable=field.nullable)
        elements = (self._element(field, one, f"{name}[{index}]") for index, one in enumerate(value))
        return self._length(len(value), ">i") + b"".join(elements)

    def _element(self, field: Field, value: Any, path: str) -> bytes:
        if field.kind is Kind.STRUCT:
            return self._nested(field, value, path)
        if field.kind is Kind.UUID:
            return _uuid(value)
        if field.kind in _NUMBERS:
            return struct.pack(_NUMBERS[field.kind], value)
        form = ">h" if field.kind is Kind.STRING else ">i"
        if value is None:
            return self._length(None, form, nullable=field.nullable and not field.array)
        raw: bytes = value.encode() if field.kind is Kind.STRING else bytes.fromhex(value)
        return self._length(len(raw), form) + raw

    def _nested(self, field: Field, value: Any, path: str) -> bytes:
        if field.array or not field.nullable:
            return self.struct(field.fields, value, path)
        there, missing = (b"\1", b"\0") if field.tag is not None else (b"\1", b"\xff")
        return missing if value is None else there + self.struct(field.fields, value, path)

    def _length(self, length: int | None, form: str, *, nullable: bool = True) -> bytes:
        """A length or count: ``form`` is its classic number."""
        if length is None and not nullable:
            raise ValueError("it is null")
        if self._flexible:
            return uvarint(0 if length is None else length + 1)
        return struct.pack(form, -1 if length is None else length)


def _uuid(text: str) -> bytes:
    if len(text) != _UUID_TEXT:
        raise ValueError(f"{text!r} is no UUID of {_UUID_TEXT} characters")
    return urlsafe_b64decode(f"{text}==")
