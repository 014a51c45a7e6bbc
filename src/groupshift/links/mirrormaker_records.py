"""The records of MirrorMaker's own topics, as bytes and as values: offset syncs, checkpoints, heartbeats.

Integers are big-endian, and a text is an int16 length and UTF-8. A key has no version, nor has a sync's
value. A record without a value is legal in a compacted topic: it is a `Tombstone`, which says that its key is
to be forgotten. Nothing in the bytes is trusted: what is too short or too long is `Unreadable`.

Source: docs/reference/cross-cluster-offsets.md §3; KIP-382, KIP-545.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from groupshift.domain.foreign_json import shown
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.log.codec import Unreadable

VERSION: Final = 0
"""The only version of checkpoints and heartbeats that there is."""

_LENGTH, _PARTITION, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_VERSION = struct.Struct(">h")
_LONGEST: Final = 2**15 - 1
_K = TypeVar("_K")


class UnknownVersion(Unreadable):
    """A checkpoint or heartbeat of a ``version`` that groupshift does not know: count it and go on."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} is not known; {VERSION} is")
        self.version = version


class CheckpointKey(NamedTuple):
    """What a checkpoint is about; ``topic`` is the target's name."""

    group: str
    topic: str
    partition: int


class HeartbeatKey(NamedTuple):
    """The flow that a heartbeat is of."""

    source_alias: str
    target_alias: str


@dataclass(frozen=True, slots=True)
class Tombstone(Generic[_K]):
    """A record without a value: forget what was said of ``key``."""

    key: _K


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """The record of the source at ``upstream`` was acknowledged at ``downstream`` on the target; ``topic`` is
    the source's name."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    @property
    def key(self) -> TopicPartition:
        """The source's partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A group committed ``upstream`` on the source, which is ``downstream`` on the target; ``topic`` is the
    target's name, ``metadata`` the commit's."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def key(self) -> CheckpointKey:
        """Group and the target's partition."""
        return CheckpointKey(self.group, self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The flow was alive at ``timestamp_ms`` (epoch)."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    @property
    def key(self) -> HeartbeatKey:
        """The flow."""
        return HeartbeatKey(self.source_alias, self.target_alias)


def encode_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Return key and value of an offset sync. Raises `Rejected` for a field that does not fit."""
    key = _text_bytes("topic", sync.topic) + _number_bytes(_PARTITION, "partition", sync.partition)
    return key, _offsets_bytes(sync.upstream, sync.downstream)


def decode_sync(key: bytes | None, value: bytes | None) -> OffsetSync | Tombstone[TopicPartition]:
    """Return the offset sync, or the tombstone, of a record. Raises `Unreadable` for other bytes."""
    fields = _Fields("key", key)
    at = TopicPartition(fields.text("topic"), fields.number(_PARTITION, "partition"))
    fields.require_end()
    if value is None:
        return Tombstone(at)
    fields = _Fields("value", value)
    upstream, downstream = fields.number(_LONG, "upstream"), fields.number(_LONG, "downstream")
    fields.require_end()
    return OffsetSync(topic=at.topic, partition=at.partition, upstream=upstream, downstream=downstream)


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Return key and value of a checkpoint. Raises `Rejected` for a field that does not fit."""
    key = _text_bytes("group", checkpoint.group) + _text_bytes("topic", checkpoint.topic)
    key += _number_bytes(_PARTITION, "partition", checkpoint.partition)
    value = _VERSION.pack(VERSION) + _offsets_bytes(checkpoint.upstream, checkpoint.downstream)
    return key, value + _text_bytes("metadata", checkpoint.metadata)


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | Tombstone[CheckpointKey]:
    """Return the checkpoint, or the tombstone, of a record.

    Raises:
        UnknownVersion: the value has a version of its own.
        Unreadable: the bytes are no checkpoint.
    """
    fields = _Fields("key", key)
    of = CheckpointKey(fields.text("group"), fields.text("topic"), fields.number(_PARTITION, "partition"))
    fields.require_end()
    if value is None:
        return Tombstone(of)
    fields = _Fields("value", value)
    fields.require_version()
    upstream, downstream = fields.number(_LONG, "upstream"), fields.number(_LONG, "downstream")
    metadata = fields.text("metadata")
    fields.require_end()
    return Checkpoint(
        group=of.group,
        topic=of.topic,
        partition=of.partition,
        upstream=upstream,
        downstream=downstream,
        metadata=metadata,
    )


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """Return key and value of a heartbeat. Raises `Rejected` for a field that does not fit."""
    key = _text_bytes("source_alias", heartbeat.source_alias)
    key += _text_bytes("target_alias", heartbeat.target_alias)
    return key, _VERSION.pack(VERSION) + _number_bytes(_LONG, "timestamp_ms", heartbeat.timestamp_ms)


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat | Tombstone[HeartbeatKey]:
    """Return the heartbeat, or the tombstone, of a record.

    Raises:
        UnknownVersion: the value has a version of its own.
        Unreadable: the bytes are no heartbeat.
    """
    fields = _Fields("key", key)
    flow = HeartbeatKey(fields.text("source_alias"), fields.text("target_alias"))
    fields.require_end()
    if value is None:
        return Tombstone(flow)
    fields = _Fields("value", value)
    fields.require_version()
    timestamp = fields.number(_LONG, "timestamp_ms")
    fields.require_end()
    return Heartbeat(source_alias=flow.source_alias, target_alias=flow.target_alias, timestamp_ms=timestamp)


class _Fields:
    """The bytes of a key or a value, read one field after the other."""

    def __init__(self, part: str, content: bytes | None) -> None:
        if content is None:
            raise Unreadable(f"{part}: is null, which is not allowed")
        self._part, self._content, self._at = part, content, 0

    def number(self, form: struct.Struct, field: str) -> int:
        """The next number; offsets, partitions and times are never negative."""
        number = self._unpack(form, field)
        if number < 0:
            raise Unreadable(f"{self._part}, {field}: {number} is negative")
        return number

    def text(self, field: str) -> str:
        """The next text."""
        size = self._unpack(_LENGTH, field)
        stop = self._at + size
        if size < 0 or stop > len(self._content):
            left = len(self._content) - self._at
            raise Unreadable(f"{self._part}, {field}: claims {size} bytes at {self._at}, {left} are left")
        try:
            text = self._content[self._at : stop].decode()
        except UnicodeDecodeError as wrong:
            raise Unreadable(f"{self._part}, {field}: is not UTF-8 at its byte {wrong.start}") from None
        self._at = stop
        return text

    def require_version(self) -> None:
        """Raise `UnknownVersion` unless the next number is the version that is known."""
        version = self._unpack(_VERSION, "version")
        if version != VERSION:
            raise UnknownVersion(version)

    def require_end(self) -> None:
        """Raise `Unreadable` for bytes behind the last field."""
        if left := len(self._content) - self._at:
            raise Unreadable(f"{self._part}: has {left} bytes behind its last field")

    def _unpack(self, form: struct.Struct, field: str) -> int:
        left = len(self._content) - self._at
        if left < form.size:
            raise Unreadable(f"{self._part}, {field}: wants {form.size} bytes at {self._at}, {left} are left")
        number: int = form.unpack_from(self._content, self._at)[0]
        self._at += form.size
        return number


def _text_bytes(field: str, text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise Rejected(f"{field} {shown(text)} holds half of a character; write whole ones") from None
    if len(encoded) > _LONGEST:
        raise Rejected(
            f"{field} {shown(text)} takes {len(encoded)} bytes; a record holds at most {_LONGEST}, shorten it"
        )
    return _LENGTH.pack(len(encoded)) + encoded


def _number_bytes(form: struct.Struct, field: str, number: int) -> bytes:
    most = 2 ** (8 * form.size - 1) - 1
    if not 0 <= number <= most:
        raise Rejected(f"{field} {number} is not within 0 and {most}; correct it")
    return form.pack(number)


def _offsets_bytes(upstream: int, downstream: int) -> bytes:
    return _number_bytes(_LONG, "upstream", upstream) + _number_bytes(_LONG, "downstream", downstream)
