"""What goes into the decoder and what comes out of it.

Source: specs/group-coordinator.md §1.9 (columns) and §1.1 (envelope).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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
