"""MirrorMaker 2's own topics, as bytes and as values, and what it would translate.

Integers are big-endian, and a text is an int16 length and UTF-8. A key has no version, nor has a sync's
value. A record without a value is legal in a compacted topic: it is a `Tombstone`, which says that its key is
to be forgotten. Nothing in the bytes is trusted: what is too short or too long is `Unreadable`.

`MirrorMakerStore` models the checkpoint task's store of 64 syncs of one source partition, and
`CheckpointFilter` which translations become checkpoints. We write nothing by this model: it is the ``mm2_x``
of a plan, shown beside our own offset.

Source: docs/reference/cross-cluster-offsets.md §§3, 4.2-4.4; KIP-382, KIP-545.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from groupshift.domain.foreign_json import shown
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.links.sync_history import Sync
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


SLOTS = 64
LAST = SLOTS - 1
BEFORE_FIRST_SYNC = -1
"""MirrorMaker's translation of an offset below every sync it still has; no checkpoint is written then."""


@dataclass(frozen=True, slots=True, eq=False)
class _StoredSync:
    """A sync in a slot. Two of them are the same only if they are one object, as in MirrorMaker."""

    upstream: int
    downstream: int


def _is_near(x: _StoredSync, y: _StoredSync, i: int, j: int) -> bool:
    """True if ``x`` in slot i is close enough to ``y`` in the higher slot j.

    MirrorMaker computes the bound in signed 64-bit numbers and takes an overflow for true. No offset is
    above such a bound, so Python's unbounded numbers give the same answer.
    """
    return x is y or x.upstream <= y.upstream + (1 << j) - (1 << i)


def _is_far(x: _StoredSync, y: _StoredSync, i: int) -> bool:
    """True if ``x`` in slot i is far enough from ``y`` in a higher slot. An overflow of MirrorMaker's bound
    means false; here, no offset reaches such a bound."""
    return x is y or x.upstream >= y.upstream + (1 << max(i - 2, 0))


class MirrorMakerStore:
    """MirrorMaker's store of one source partition: 64 slots, the newest sync in slot 0.

    It begins in loading, where it translates nothing. ``last_only``: keep only the newest sync while loading,
    as MirrorMaker does where it could not read its checkpoints.
    """

    __slots__ = ("_last_only", "_loading", "_slots")

    def __init__(self, *, last_only: bool = False) -> None:
        self._last_only = last_only
        self._loading = True
        self._slots: list[_StoredSync] = []

    @classmethod
    def load(cls, syncs: Iterable[Sync], *, last_only: bool = False) -> MirrorMakerStore:
        """Return the store of a task that has just loaded these syncs, in the order of their log."""
        store = cls(last_only=last_only)
        for sync in syncs:
            store.insert(sync.upstream, sync.downstream)
        store.finish_loading()
        return store

    def finish_loading(self) -> None:
        """Note that the end of the syncs topic is reached: from now on the store translates."""
        self._loading = False

    @property
    def syncs(self) -> tuple[tuple[int, int], ...]:
        """The distinct syncs in the slots as (upstream, downstream), newest first."""
        distinct: list[_StoredSync] = []
        for sync in self._slots:
            if not distinct or sync is not distinct[-1]:
                distinct.append(sync)
        return tuple((sync.upstream, sync.downstream) for sync in distinct)

    def insert(self, upstream: int, downstream: int) -> None:
        """Take over the next sync of the log; both offsets are 0 or above."""
        new = _StoredSync(upstream, downstream)
        rewound = not self._slots or upstream < self._slots[0].upstream
        if rewound or (self._loading and self._last_only):
            self._slots = [new] * SLOTS
        else:
            self._insert(new)

    def _insert(self, new: _StoredSync) -> None:
        old, slots = self._slots.copy(), self._slots
        slots[0] = keep = new
        next_old = 0
        for k in range(1, SLOTS):
            previous = slots[k - 1]
            while True:
                candidate = old[next_old]
                far = _is_far(previous, candidate, k - 1)
                usable = (
                    far
                    and _is_near(previous, candidate, k - 1, k)
                    and (k == LAST or _is_far(candidate, slots[k + 1], k))
                )
                discard = not far or (next_old < LAST and candidate is old[next_old + 1])
                if usable:
                    keep = candidate
                if usable or discard:
                    next_old += 1
                if next_old >= k or not discard:
                    break
            if _is_near(previous, slots[k], k - 1, k):
                return  # this slot is still valid, and so are all behind it
            slots[k] = keep

    def translate(self, committed: int) -> int | None:
        """Return MirrorMaker's target offset for a committed offset.

        None: it writes no checkpoint, because the store is not loaded or has no sync of the partition.
        `BEFORE_FIRST_SYNC`: every sync that is left lies above the committed offset (no checkpoint either).
        """
        if self._loading or not self._slots:
            return None
        for sync in self._slots:
            if sync.upstream <= committed:
                return sync.downstream + (committed > sync.upstream)
        return BEFORE_FIRST_SYNC


@dataclass(frozen=True, slots=True)
class CheckpointOffsets:
    """The offsets of a checkpoint: what a group committed in the source, and what it was translated to."""

    committed: int
    translated: int


class CheckpointFilter:
    """The last checkpoint of each group and partition, and which translation becomes the next one."""

    __slots__ = ("_checkpoints",)

    def __init__(self) -> None:
        self._checkpoints: dict[tuple[str, TopicPartition], CheckpointOffsets] = {}

    def checkpoint(self, group: str, partition: TopicPartition) -> CheckpointOffsets | None:
        """The last checkpoint of a group and partition; none if there was none."""
        return self._checkpoints.get((group, partition))

    def offer(self, group: str, partition: TopicPartition, committed: int, translated: int | None) -> bool:
        """Return True, and remember the checkpoint, if MirrorMaker emits one for this translation.

        It does if it is the first, if the committed offset went back, or if the translated one went up.
        """
        if translated is None or translated < 0:
            return False
        last = self.checkpoint(group, partition)
        if last and committed >= last.committed and translated <= last.translated:
            return False
        self._checkpoints[group, partition] = CheckpointOffsets(committed, translated)
        return True
