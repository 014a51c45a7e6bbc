"""What readers were given and have not come back from: until they do, they may still be working on it.

Guarded by the lock of `groupshift.consumers.delivery.Delivery`.
"""

from __future__ import annotations

from collections.abc import Collection

from groupshift.consumers.chunks import Chunk
from groupshift.domain.partitions import TopicPartition

PARENT = -1
"""The handle that reads from all streams; a stream's handle is its number."""

Span = tuple[Chunk, int, int]
"""Records of a chunk, from the first index to before the second."""


class Given:
    """``spans`` by handle; ``polled`` is the chunk from which the parent was given one record alone."""

    def __init__(self) -> None:
        self.spans: dict[int, list[Span]] = {}
        self.polled: Chunk | None = None

    def back(self, handle: int) -> None:
        """The reader has come back: it has dealt with all it was given."""
        self.spans.pop(handle, None)
        if handle == PARENT:
            self.polled = None

    def concerns(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether a reader may be working on a record of these partitions."""
        polled = self.polled
        if polled is not None and polled.concerns(partitions, polled.index - 1, polled.index):
            return True
        return any(
            chunk.concerns(partitions, start, end)
            for spans in self.spans.values()
            for chunk, start, end in spans
        )
