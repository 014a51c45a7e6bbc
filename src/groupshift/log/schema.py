"""Schemas of the records of ``__consumer_offsets``: each type's name, its key and the layouts of its value.

A layout has fields with their versions, tags and nesting. It is all that `groupshift.log.codec` knows
about a record. ``log/messages.json`` holds them, in the notation of Kafka's own message definitions and with
Kafka's names: ``versions`` and ``nullableVersions`` are "0+", "1" or "0-4", an array's type begins with "[]".
Keys are classic-encoded in every release, and their leading int16 is the type (``apiKey``).

Layouts of offsets, classic groups and consumer groups (types 0-8 and 16) are read off the generated classes
of releases 3.7.2, 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0. Those of share groups (types 9-15) and streams
groups (types 17-23) are read off releases 3.9.2 to 4.4.0; type 18 was gone before any of them and follows
§1.3. Share and streams groups kept version 0 while their layout changed; the older layouts are marked early
access. The file also has what members say about themselves (``members``): the bytes inside types 2 and 5.

Source: docs/reference/group-coordinator.md §§1.2, 1.3, 1.4 and 1.5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final


class FieldType(StrEnum):
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


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``since`` and ``until`` are the first and last value version that carry it.

    ``tag`` makes it a tagged field, which may be absent; ``fields`` are those of a struct; ``nullable``
    speaks of the array where ``array`` is set.
    """

    name: str
    kind: FieldType
    _: KW_ONLY
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


class Family(StrEnum):
    """Which kind of group a record type belongs to."""

    OFFSETS = "offsets"
    """Any kind but share: committed offsets."""
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


COMMITS = frozenset({0, 1})
"""The types of committed offsets: one key."""
_EPOCH_FIRST = frozenset({11, 12, 14, 17, 20, 22, 23})


@dataclass(frozen=True)
class RecordType:
    """One type. ``values`` are tried in order, the current layout first; none: never seen on a server."""

    number: int
    name: str
    family: Family
    key: Schema
    values: tuple[Schema, ...] = ()

    @cached_property
    def head(self) -> Schema | None:
        """What every layout of an unstable type begins with, also one that we do not know: an epoch, which is
        all that an audit needs. None for the other types."""
        return Schema(fields=self.values[0].fields[:1]) if self.number in _EPOCH_FIRST else None


def _versions(text: str) -> tuple[int, int | None]:
    """First and last version of "3+", "0-4" or "1"; None: no end yet."""
    first, _, last = text.removesuffix("+").partition("-")
    return int(first), None if text.endswith("+") else int(last or first)


def _field(defined: Mapping[str, Any]) -> Field:
    """A field as the file defines it; what has fields of its own is a struct, whatever its type is called."""
    since, until = _versions(defined["versions"])
    kind = defined["type"].removeprefix("[]")
    return Field(
        defined["name"],
        FieldType.STRUCT if "fields" in defined else FieldType(kind),
        since=since,
        until=until,
        array=defined["type"].startswith("[]"),
        nullable="nullableVersions" in defined,
        tag=defined.get("tag"),
        fields=tuple(map(_field, defined.get("fields", ()))),
    )


def _schema(defined: Mapping[str, Any]) -> Schema:
    oldest, newest = _versions(defined["validVersions"])
    flexible = defined["flexibleVersions"]
    return Schema(
        fields=tuple(map(_field, defined["fields"])),
        oldest=oldest,
        newest=oldest if newest is None else newest,
        flexible=None if flexible == "none" else _versions(flexible)[0],
        layout=Layout(defined.get("layout", Layout.CURRENT)),
    )


_FILE = json.loads(files("groupshift").joinpath("log", "messages.json").read_text("utf-8"))

TYPES: Final = MappingProxyType(
    {
        each["apiKey"]: RecordType(
            number=each["apiKey"],
            name=each["name"],
            family=Family(each["family"]),
            key=Schema(fields=tuple(map(_field, each["key"]))),
            values=tuple(map(_schema, each["values"])),
        )
        for each in _FILE["records"]
    }
)
"""Type number → type."""
SUBSCRIPTION, ASSIGNMENT = map(_schema, _FILE["members"])
"""What a member of a consumer group wants, and what its leader gave it."""
