"""What classic consumers and their leader tell each other through the coordinator: topics and partitions.

Source: Apache Kafka, "ConsumerProtocolSubscription.json" (int16 version, array of topic names, nullable
bytes) and "ConsumerProtocolAssignment.json" (int16 version, array of topic name with an array of int32,
nullable bytes); later versions only append.
"""

from __future__ import annotations

import struct

from groupshift.domain.partitions import TopicPartition


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics, sorted; empty bytes (a member still joining) give none. Raises ValueError."""
    if not metadata:
        return ()
    reader = _Reader(metadata)
    return tuple(sorted(reader.name() for _ in range(reader.count())))


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions; empty bytes (a member still joining) give none. Raises ValueError."""
    if not assignment:
        return frozenset()
    reader, found = _Reader(assignment), set()
    for _ in range(reader.count()):
        topic = reader.name()
        found |= {TopicPartition(topic, reader.number()) for _ in range(reader.number())}
    return frozenset(found)


class _Reader:
    """Reads one after the other what follows the version."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2

    def _unpack(self, form: str) -> int:
        try:
            (number,) = struct.unpack_from(form, self._data, self._at)
        except struct.error as short:
            raise ValueError(f"{len(self._data)} bytes end too early") from short
        self._at += struct.calcsize(form)
        return int(number)

    def number(self) -> int:
        """An int32."""
        return self._unpack(">i")

    count = number

    def name(self) -> str:
        """A topic's name."""
        start = self._at
        size = self._unpack(">h")
        name = self._data[self._at : self._at + size] if size > 0 else b""
        if not name or len(name) != size:
            raise ValueError(f"topic name of {size} bytes at byte {start}")
        self._at += size
        return name.decode()
