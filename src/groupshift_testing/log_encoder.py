"""The encoder of records of ``__consumer_offsets``: byte-identical to what brokers write.

Lengths and tag numbers are in their shortest form, tags in ascending order, a tagged field exactly if the row
has it (brokers leave defaults out, so readers do not see them). Fields that the version does not have are
ignored, others must be there. What `groupshift.log.decode` reads without an error is written back to the same
bytes.

Source: docs/reference/group-coordinator.md §1.2.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.errors import Rejected
from groupshift.log.codec import FORMS, MISSING
from groupshift.log.schema import TYPES, Field, FieldType, Layout, RecordType, Schema

_MORE = 0x80
_UUID_TEXT = 22


def encode_key(record_type: int, fields: Mapping[str, object]) -> bytes:
    """The key of a record: ``fields`` by the names of Kafka's schemas (``group`` or ``groupId``,
    ``topic``, ``partition``, ``memberId``, ``regularExpression``).

    Raises `Rejected` for an unknown type and for a field that is missing or does not fit.
    """
    return struct.pack(">h", record_type) + _message(_known(record_type).key, 0, fields, {})


def encode_value(
    record_type: int,
    version: int,
    fields: Mapping[str, object],
    *,
    layout: str = Layout.CURRENT.value,
    unknown_tags: Mapping[str, str] | None = None,
) -> bytes:
    """The value of a record in this version and layout; ``fields`` and ``unknown_tags`` as in `Decoded`.

    Raises `Rejected` for a type, version or layout that is not known, and for a field that is missing
    or does not fit.
    """
    known = _known(record_type)
    for schema in known.values:
        if schema.layout == layout and schema.oldest <= version <= schema.newest:
            return write_message(schema, version, fields, unknown_tags or {})
    raise Rejected(f"a value of {known.name} has no version {version} in the layout {layout!r}")


def _known(record_type: int) -> RecordType:
    known = TYPES.get(record_type)
    if known is None:
        raise Rejected(f"record type {record_type} is not known; give one of 0 to {max(TYPES)}")
    return known


def write_message(schema: Schema, version: int, row: Mapping[str, Any], unknown: Mapping[str, str]) -> bytes:
    """A value, a subscription or an assignment: ``version``, which the schema has, and then its fields.

    Raises `Rejected` for a row that does not fit."""
    return struct.pack(">h", version) + _message(schema, version, row, unknown)


def _message(schema: Schema, version: int, row: Mapping[str, Any], unknown: Mapping[str, str]) -> bytes:
    tags: dict[str, dict[int, bytes]] = {}
    for place, body in unknown.items():
        path, _, tag = place.rpartition(":")
        tags.setdefault(path, {})[int(tag)] = bytes.fromhex(body)
    writer = _Writer(version, schema.is_flexible(version), tags)
    try:
        return writer.struct(schema.fields, row, "")
    except (struct.error, TypeError, ValueError, AttributeError) as error:
        raise Rejected(
            f"field {writer.name} cannot be written ({error}); give what the schema says"
        ) from error


def _leb128(value: int) -> bytes:
    """An unsigned LEB128 number in its shortest form."""
    out = bytearray()
    while value >= _MORE:
        out.append(value % _MORE + _MORE)
        value //= _MORE
    return bytes((*out, value))


@dataclass(slots=True)
class _Writer:
    """Writes the structs of one message: ``tags`` are unknown ones by path, ``name`` is the field at hand.

    Its methods raise what `_message` turns into `Rejected`."""

    version: int
    flexible: bool
    tags: Mapping[str, Mapping[int, bytes]]
    name: str = ""

    def struct(self, fields: tuple[Field, ...], row: Mapping[str, Any], path: str) -> bytes:
        """One struct with its tag section."""
        present = [field for field in fields if field.in_version(self.version)]
        plain = b"".join(self._field(field, row, path) for field in present if field.tag is None)
        if not self.flexible:
            return plain
        sections = dict(self.tags.get(path, {}))
        for field in present:
            if field.tag is not None and field.name in row:
                sections[field.tag] = self._field(field, row, path)
        tagged = b"".join(_leb128(tag) + _leb128(len(body)) + body for tag, body in sorted(sections.items()))
        return plain + _leb128(len(sections)) + tagged

    def _field(self, field: Field, row: Mapping[str, Any], path: str) -> bytes:
        self.name = name = f"{path}.{field.name}" if path else field.name
        if field.name not in row:
            raise ValueError("it is missing")
        value = row[field.name]
        if not field.array:
            return self._element(field, value, name, nullable=field.nullable)
        if value is None:
            return self._length(None, ">i", nullable=field.nullable)
        parts = (self._element(field, one, f"{name}[{i}]", nullable=False) for i, one in enumerate(value))
        return self._length(len(value), ">i") + b"".join(parts)

    def _element(self, field: Field, value: Any, path: str, *, nullable: bool) -> bytes:
        if field.kind is FieldType.STRUCT:
            if nullable and value is None:
                return bytes([MISSING[field.tag is not None]])
            return (b"\1" if nullable else b"") + self.struct(field.fields, value, path)
        if field.kind is FieldType.UUID:
            if len(value) != _UUID_TEXT:
                raise ValueError(f"{value!r} is no UUID of {_UUID_TEXT} characters")
            return urlsafe_b64decode(f"{value}==")
        if field.kind in FORMS:
            return struct.pack(FORMS[field.kind], value)
        form = ">h" if field.kind is FieldType.STRING else ">i"
        if value is None:
            return self._length(None, form, nullable=nullable)
        raw: bytes = value.encode() if field.kind is FieldType.STRING else bytes.fromhex(value)
        return self._length(len(raw), form) + raw

    def _length(self, length: int | None, form: str, *, nullable: bool = True) -> bytes:
        """A length or count: ``form`` is its classic number."""
        if length is None and not nullable:
            raise ValueError("it is null")
        if self.flexible:
            return _leb128(0 if length is None else length + 1)
        return struct.pack(form, -1 if length is None else length)
