"""What was fetched and not handed out yet: one buffer for all readers, or one for each stream.

Guarded by the lock of `groupshift.consumers.delivery.Delivery`. Records come and go by the chunk; how far a
chunk was handed out is worked out when somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from groupshift.consumers.chunks import Chunk, where
from groupshift.consumers.given import PARENT, Span
from groupshift.consumers.open_partitions import OpenPartitions
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import Record


@dataclass(slots=True)
class _Queue:
    """Chunks for one reader, and what is left in them."""

    chunks: deque[Chunk] = field(default_factory=deque)

    def size(self) -> int:
        """Records not handed out yet."""
        return sum(each.size - each.index for each in self.chunks)


class Buffers:
    """Chunks by reader: all in the parent's queue until `part` gives every stream its own."""

    def __init__(self, partitions: OpenPartitions) -> None:
        self._partitions = partitions
        self._queues: dict[int, _Queue] = {PARENT: _Queue()}
        self.parted = False

    def part(self) -> None:
        """From now on every stream has a buffer of its own; the parent still reads from all."""
        self.settle()
        self.parted = True
        chunks, self._queues[PARENT] = self._queues[PARENT].chunks, _Queue()
        for chunk in chunks:
            self._route(chunk.rest())

    def put(self, records: list[Record], ends: Mapping[TopicPartition, int] | None) -> None:
        """Keep what was fetched, in order: whole where ``ends`` tell that it is in sequence, otherwise record
        by record what its partition accepts."""
        whole = None if self.parted or ends is None else self._partitions.take_whole(ends)
        if whole is None:
            self._route([each for each in records if self._partitions.accept(each)])
        elif records:
            self._queues[PARENT].chunks.append(Chunk(records, self._partitions.fetched(whole)))

    def _route(self, records: Iterable[Record]) -> None:
        """Into the buffers of the streams, or into the one for all."""
        parts: dict[int, list[Record]] = {}
        ends: dict[int, dict[TopicPartition, int]] = {}
        for each in records:
            entry = self._partitions[where(each)]
            stream = entry.stream if self.parted else PARENT
            parts.setdefault(stream, []).append(each)
            ends.setdefault(stream, {})[entry.partition] = (each.offset() or 0) + 1
        for stream, taken in parts.items():
            known = [(self._partitions[each], at) for each, at in ends[stream].items()]
            self._queues.setdefault(stream, _Queue()).chunks.append(Chunk(taken, known))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Throw out what was not handed out of these partitions."""
        for queue in self._queues.values():
            for chunk in queue.chunks:
                chunk.drop(partitions)
            queue.chunks = deque(chunk for chunk in queue.chunks if chunk.left)

    def settle(self) -> None:
        """Work out the positions within the chunks that were begun."""
        for queue in self._queues.values():
            for chunk in queue.chunks:
                self._partitions.advance_to(chunk.progress())

    def front(self) -> Chunk | None:
        """The chunk from which a record alone may be taken: only while there is one buffer for all."""
        chunks = self._queues[PARENT].chunks
        return chunks[0] if chunks and not self.parted else None

    def size(self, stream: int | None = None) -> int:
        """Records that were not handed out yet: of a stream, or of all."""
        queues = self._queues.values() if stream is None else [self._queues.get(stream, _Queue())]
        return sum(each.size() for each in queues)

    def take(self, stream: int | None, limit: int) -> tuple[list[Record], list[Span]]:
        """Up to ``limit`` records of a stream (None: of all, the fullest first), and where they were."""
        taken: list[list[Record]] = []
        given: list[Span] = []
        numbers = sorted(self._queues) if stream is None else [stream]
        for queue in sorted((self._queues.setdefault(each, _Queue()) for each in numbers), key=_fullest):
            while queue.chunks and limit > 0:
                chunk = queue.chunks[0]
                start, chunk.index = chunk.index, min(chunk.index + limit, chunk.size)
                limit -= chunk.index - start
                taken.append(chunk.records[start : chunk.index])
                given.append((chunk, start, chunk.index))
                if chunk.index == chunk.size:
                    self._finish(queue)
        return (taken[0] if len(taken) == 1 else [each for part in taken for each in part]), given

    def finish_front(self) -> None:
        """The chunk of `front` has been handed out to its end."""
        self._finish(self._queues[PARENT])

    def _finish(self, queue: _Queue) -> None:
        for entry, at in queue.chunks.popleft().ends:
            self._partitions.advance(entry, at)


def _fullest(queue: _Queue) -> int:
    return -queue.size()
