"""Records of partitions where they are asked for, from the leaders or from copied segment files.

Implements `groupshift.ports.records`; no Spark session is started. A reader keeps what it decoded as Arrow
columns, the newest `_KEPT` bytes of it, and makes Python objects of those records only that are asked for. So
reads near each other cost one fetch, and a fetch is as large as the reads before it went on without a break:
a single look takes little, a pass takes much at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from groupshift.adapters.kafka.cluster import KafkaCluster, OfCluster, attempted
from groupshift.domain.commit_places import TopicNow
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken
from groupshift.ports.records import LogRecordView, PartitionReader, TimestampType
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.headers import LAST, OFFSET, read_headers
from groupshift.spark.batches.records import APPEND, CREATE, TIMELESS, read_records
from groupshift.spark.batches.segment_files import Part, filesystem, find_replicas, read_parts
from groupshift.spark.batches.transactions import NONE, Transactions, visible
from groupshift.spark.broker_source import Bounds, bounds_of
from groupshift.spark.broker_source import PartitionReader as Fetches
from groupshift.spark.segment_scan import ReplicaFacts, replica_facts
from groupshift.spark.segments import units

_LEAST, _MOST = 32 * 1024, 4 << 20
"""Bytes of an answer for a single look, and in a long pass."""
_KEPT = 16 << 20
_TIMES = {
    CREATE: TimestampType.CREATE_TIME,
    APPEND: TimestampType.LOG_APPEND_TIME,
    TIMELESS: TimestampType.NONE,
}
_NO_HEADERS = (None, b"\0")
_COLUMNS = ("offset", "timestamp_ms", "value", "key", "headers", "times")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Piece:
    """All visible records from offset ``low`` up to ``high`` (exclusive), which lie at ``offsets``."""

    low: int
    high: int
    offsets: Any = field(compare=False)
    rows: pa.Table = field(compare=False)

    def views(self, first: int, last: int) -> list[LogRecordView]:
        """The records from index ``first`` up to ``last`` (exclusive)."""
        chosen = self.rows.slice(first, last - first)
        offsets, times, values, keys, raw, kinds = (chosen.column(n).to_pylist() for n in _COLUMNS)
        headers = [() if each in _NO_HEADERS else headers_in(each) for each in raw]
        return list(map(LogRecordView, offsets, times, values, keys, headers, map(_TIMES.__getitem__, kinds)))


def headers_in(raw: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """Names and values in the bytes that format 2 has for a record's headers: a count, then for each the
    length and bytes of its name and of its value (-1: null). Raises `Broken` for other bytes."""
    count, at = _varint(raw, 0)
    headers = []
    for _ in range(count):
        size, at = _varint(raw, at)
        name, at = raw[at : at + size], at + size
        size, at = _varint(raw, at)
        headers.append((name.decode(errors="replace"), None if size < 0 else raw[at : at + size]))
        at += max(size, 0)
    if at != len(raw):
        raise Broken(f"{len(raw)} bytes are no headers of a record: read it again from another replica")
    return tuple(headers)


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where it ends; behind the last byte all is zero, which `headers_in` notices."""
    value = shift = 0
    while True:
        byte = raw[at] if at < len(raw) else 0
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
            return (value >> 1) ^ -(value & 1), at
        shift += 7


class _WindowReader(ABC):
    """See `groupshift.ports.records.PartitionReader`. Below ``readable`` the isolation level hides nothing
    that is not decided."""

    def __init__(self, at: TopicPartition, bounds: Bounds, isolation: Isolation) -> None:
        self._at = at
        self.start, self.end = bounds.start, bounds.end
        self._is_committed = isolation is Isolation.READ_COMMITTED
        self._readable = bounds.stable if self._is_committed else bounds.end
        self.records_read = 0
        self._pieces: list[_Piece] = []
        self._by_age: deque[_Piece] = deque()
        self._kept = 0

    def read(self, from_offset: int, limit: int) -> Sequence[LogRecordView]:
        """See the port."""
        records: list[LogRecordView] = []
        at = max(from_offset, self.start)
        while len(records) < limit and at < self._readable:
            piece = self._piece(at)
            first = int(np.searchsorted(piece.offsets, at))
            records += piece.views(first, min(first + limit - len(records), len(piece.offsets)))
            at = piece.high
        return records

    def before(self, offset: int, limit: int) -> Sequence[LogRecordView]:
        """See the port."""
        parts: list[list[LogRecordView]] = []
        need, step, at = limit, limit, min(offset, self._readable)
        while need > 0 and at > self.start:
            position = at - 1 if self._held(at - 1) else max(self.start, at - step)
            piece = self._piece(position)
            while piece.high < at:
                piece = self._piece(piece.high)
            last = int(np.searchsorted(piece.offsets, at))
            parts.append(piece.views(max(0, last - need), last))
            need -= len(parts[-1])
            at, step = max(piece.low, self.start), 2 * step
        return [record for part in reversed(parts) for record in part]

    def _held(self, offset: int) -> _Piece | None:
        """The piece that has an offset; none where it has to be fetched."""
        at = bisect_right(self._pieces, offset, key=lambda piece: piece.low) - 1
        return self._pieces[at] if at >= 0 and offset < self._pieces[at].high else None

    def _piece(self, offset: int) -> _Piece:
        return self._held(offset) or self._kept_piece(offset)

    def _kept_piece(self, offset: int) -> _Piece:
        """The piece that has an offset, fetched now; the oldest ones go where all become too many."""
        piece = self._decoded(offset, *self._fetched(offset))
        self.records_read += len(piece.offsets)
        self._kept += piece.rows.nbytes
        self._by_age.append(piece)
        insort(self._pieces, piece)
        while self._kept > _KEPT and len(self._by_age) > 1:
            oldest = self._by_age.popleft()
            self._pieces = [each for each in self._pieces if each is not oldest]
            self._kept -= oldest.rows.nbytes
        return piece

    @abstractmethod
    def _fetched(self, offset: int) -> tuple[Part, Transactions, int, str]:
        """Batches from the one on that has ``offset``, or is the next behind it; whose records the level
        hides; the offset behind them; and where they are from."""

    def _decoded(self, offset: int, part: Part, hidden: Transactions, behind: int, name: str) -> _Piece:
        table = part.headers.table
        low = min(offset, int(table[0, OFFSET])) if len(table) else offset
        counted = visible(table, hidden if self._is_committed else NONE)
        origin = Origin(name=name, position=part.position, partition=self._at.partition)
        batches = list(read_records(part.data, counted, origin, whole=True))
        rows = pa.Table.from_batches(batches, None if batches else _NOTHING).combine_chunks()
        offsets = rows.column("offset").to_numpy()
        first, last = np.searchsorted(offsets, (self.start, self._readable))
        return _Piece(low=low, high=behind, offsets=offsets[first:last], rows=rows.slice(first, last - first))


_NOTHING = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.binary()),
        ("times", pa.int8()),
    ]
)


class _LiveReader(_WindowReader):
    """Fetches from the leader; `KafkaCluster` bounds the retries."""

    def __init__(
        self, cluster: KafkaCluster, at: TopicPartition, bounds: Bounds, isolation: Isolation
    ) -> None:
        super().__init__(at, bounds, isolation)
        self._fetches = Fetches(cluster, at, stable=self._is_committed)

    def _fetched(self, offset: int) -> tuple[Part, Transactions, int, str]:
        previous = self._by_age[-1] if self._by_age else None
        near = previous and 0 <= offset - previous.high <= previous.high - previous.low
        self._fetches.answer_bytes = min(2 * self._fetches.answer_bytes, _MOST) if near else _LEAST
        return *self._fetches.fetch(offset), f"an answer for {self._at}"


class LiveLogs(OfCluster):
    """See `groupshift.ports.records.PartitionLogs`. Reads through one `KafkaCluster`, which it closes."""

    @attempted
    def topics(self) -> Mapping[str, TopicNow]:
        """See the port."""
        return self._cluster.topics_now(self._cluster.topics())

    def open(
        self, partitions: Collection[TopicPartition], isolation: Isolation
    ) -> Mapping[TopicPartition, PartitionReader]:
        """See the port."""
        bounds = bounds_of(self._cluster, {at.topic for at in partitions}, frozenset(partitions))
        return {at: _LiveReader(self._cluster, at, each, isolation) for at, each in bounds.items()}


class _CopyReader(_WindowReader):
    """Reads the files of one copy, a window of each at a time."""

    def __init__(
        self, store: fs.FileSystem, at: TopicPartition, replica: ReplicaFacts, isolation: Isolation
    ) -> None:
        start, end = replica.replica.files[0].base, replica.log_end
        bounds = Bounds(partition=at.partition, start=start, stable=replica.last_stable_offset, end=end)
        super().__init__(at, bounds, isolation)
        self._store, self._units, self._hidden = store, units(replica), replica.transactions
        self._next = [facts.next for facts in replica.facts if facts.end]

    def _fetched(self, offset: int) -> tuple[Part, Transactions, int, str]:
        for part, path in self._parts(bisect_right(self._next, offset)):
            table = part.headers.table
            if len(table) and table[-1, LAST] >= offset:
                return part, self._hidden, int(table[-1, LAST]) + 1, path
        nothing = np.empty(0, np.uint8)
        return Part(data=nothing, headers=read_headers(nothing), position=0), NONE, self.end, ""

    def _parts(self, first: int) -> Iterator[tuple[Part, str]]:
        for unit in self._units[first:]:
            for part in read_parts(self._store, unit.path, 0, unit.end, check=False):
                yield part, unit.path


def copied_partitions(
    uri: str, topics: Iterable[str], isolation: Isolation
) -> Mapping[TopicPartition, PartitionReader]:
    """Readers of every partition of these topics in a copy of a broker's log folder, or several of them; of
    several copies of a partition the one with the highest log end.

    Raises `Rejected` where a topic is not there, `Broken` for damage."""
    store, _ = filesystem(uri)
    readers = {}
    for topic in topics:
        for number, copies in find_replicas(uri, topic).items():
            replica = max(map(partial(replica_facts, store), copies), key=lambda each: each.log_end)
            at = TopicPartition(topic, number)
            readers[at] = _CopyReader(store, at, replica, isolation)
    return readers
