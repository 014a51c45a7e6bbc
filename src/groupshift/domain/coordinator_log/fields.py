"""How a schema of Kafka's messages is written down: fields with their versions, tags and nesting.

One table of these per record type (`keys`, `values`, `embedded`) is all that `reading` and `writing`
know about a record. Source: specs/group-coordinator.md §1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What one element of a field is."""

    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    STRING = "string"
    BYTES = "bytes"
    UUID = "uuid"
    STRUCT = "struct"


class Layout(StrEnum):
    """Two layouts can carry one version number: early-access releases wrote 0 as well."""

    CURRENT = "current"
    EARLY_ACCESS = "early-access"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: ``since`` and ``until`` are the first and last value version that carry it.

    ``tag`` makes it a tagged field, which may be absent; ``fields`` are those of a struct; ``nullable``
    speaks of the array where ``array`` is set.
    """

    name: str
    kind: Kind
    since: int = 0
    until: int | None = None
    array: bool = False
    nullable: bool = False
    tag: int | None = None
    fields: tuple[Field, ...] = ()

    def in_version(self, version: int) -> bool:
        """Whether a value of this version carries the field."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """The fields of one message in the versions ``oldest`` to ``newest``; equal to itself only.

    From ``flexible`` on lengths are compact and every struct ends with a tag section; None: never.
    """

    fields: tuple[Field, ...]
    oldest: int = 0
    newest: int = 0
    flexible: int | None = None
    layout: Layout = Layout.CURRENT

    def is_flexible(self, version: int) -> bool:
        """Whether this version uses compact lengths and tags."""
        return self.flexible is not None and version >= self.flexible


def int8(name: str) -> Field:
    """An int8 field."""
    return Field(name=name, kind=Kind.INT8)


def int16(name: str) -> Field:
    """An int16 field."""
    return Field(name=name, kind=Kind.INT16)


def int32(name: str, **more: int | None) -> Field:
    """An int32 field; ``more`` are since, until and tag."""
    return _with(Field(name=name, kind=Kind.INT32), more)


def int64(name: str, **more: int | None) -> Field:
    """An int64 field; ``more`` are since, until and tag."""
    return _with(Field(name=name, kind=Kind.INT64), more)


def text(name: str) -> Field:
    """A string that is never null."""
    return Field(name=name, kind=Kind.STRING)


def text_or_null(name: str, *, since: int = 0) -> Field:
    """A string that may be null."""
    return Field(name=name, kind=Kind.STRING, nullable=True, since=since)


def blob(name: str) -> Field:
    """Bytes that are never null."""
    return Field(name=name, kind=Kind.BYTES)


def uuid(name: str, *, tag: int | None = None, since: int = 0) -> Field:
    """A UUID."""
    return Field(name=name, kind=Kind.UUID, tag=tag, since=since)


def numbers(name: str) -> Field:
    """An array of int32."""
    return Field(name=name, kind=Kind.INT32, array=True)


def texts(name: str) -> Field:
    """An array of strings."""
    return Field(name=name, kind=Kind.STRING, array=True)


def structs(name: str, *fields: Field, since: int = 0) -> Field:
    """An array of structs."""
    return Field(name=name, kind=Kind.STRUCT, array=True, fields=fields, since=since)


def _with(field: Field, more: dict[str, int | None]) -> Field:
    since, until, tag = more.get("since") or 0, more.get("until"), more.get("tag")
    return Field(name=field.name, kind=field.kind, since=since, until=until, tag=tag)
