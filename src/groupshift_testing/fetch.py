"""`groupshift.ports.fetch.Fetch` in memory: reads logs that are only lengths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from groupshift.domain.partitions import TopicPartition
from groupshift.ports.fetch import Record, Reset


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record is where it is."""

    where: TopicPartition
    at: int

    def topic(self) -> str:
        """Topic."""
        return self.where.topic

    def partition(self) -> int:
        """Partition number."""
        return self.where.partition

    def offset(self) -> int:
        """Offset."""
        return self.at


class MemoryFetch:
    """``ends`` is the log end of every partition; logs start at 0."""

    def __init__(self, ends: MutableMapping[TopicPartition, int]) -> None:
        self._ends = ends
        self._calls: list[Callable[[], None]] = []
        self._next: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()

    def add(self, positions: Mapping[TopicPartition, int], added: Callable[[], None]) -> None:
        """At the next poll."""

        def call() -> None:
            self._next.update(positions)
            self._paused.difference_update(positions)
            added()

        self._calls.append(call)

    def remove(self, partitions: Collection[TopicPartition], removed: Callable[[], None]) -> None:
        """At the next poll."""
        gone = list(partitions)

        def call() -> None:
            for each in gone:
                self._next.pop(each, None)
            removed()

        self._calls.append(call)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """At once."""
        self._paused.update(partitions)

    def poll(self, limit: int, timeout: float) -> list[Record]:  # noqa: ARG002 (never waits)
        """Up to ``limit`` records, partition by partition."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()
        found: list[Record] = []
        for each in sorted(set(self._next) - self._paused):
            while self._next[each] < self._ends.get(each, 0) and len(found) < limit:
                found.append(MemoryRecord(each, self._next[each]))
                self._next[each] += 1
        return found

    def ends(self) -> Mapping[TopicPartition, int]:
        """Next offsets."""
        return dict(self._next)

    def flawed(self, records: Sequence[Record]) -> bool:  # noqa: ARG002 (never)
        """Never."""
        return False

    def out_of_range(self, record: Record) -> TopicPartition | None:  # noqa: ARG002 (logs are never cut)
        """Never."""
        return None

    def reset(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """Log start or end."""
        return {each: 0 if to is Reset.EARLIEST else self._ends.get(each, 0) for each in partitions}

    def end_of(self, partition: TopicPartition) -> int | None:
        """The end."""
        return self._ends.get(partition)

    def close(self) -> None:
        """Nothing is open."""
