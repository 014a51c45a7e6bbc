"""What was fetched together: a list of records, how far it was handed out, and where it leads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import Record


@dataclass(slots=True, eq=False)
class Open:
    """A partition that may be delivered: ``position`` is next to hand out, ``stored`` what to commit.

    Records before ``fetched`` are not accepted any more; None at all until ``armed``."""

    partition: TopicPartition
    stream: int
    position: int
    fetched: int = -1
    stored: int | None = None
    armed: bool = False
    paused: bool = False
    closed: bool = False

    def __post_init__(self) -> None:
        self.fetched = max(self.fetched, self.position)
        self.stored = self.position if self.stored is None else self.stored

    def moved(self, offset: int) -> Open:
        """The same partition, delivered from ``offset`` next: an entry of its own, which is not armed yet."""
        stored = offset if self.stored in (None, self.position) else self.stored
        return Open(self.partition, self.stream, offset, stored=stored, paused=self.paused)


@dataclass(slots=True, eq=False)
class Chunk:
    """Records up to ``index`` were handed out, and of these those up to ``settled`` accounted for.

    ``ends`` are the positions of its partitions after all of it, ``size`` the number of records."""

    records: list[Record]
    ends: list[tuple[Open, int]]
    index: int = 0
    settled: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        self.size = len(self.records)

    @property
    def left(self) -> bool:
        """Whether there is something to hand out."""
        return self.index < self.size

    def rest(self) -> list[Record]:
        """What was not handed out."""
        return self.records[self.index :]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what was not handed out of these partitions."""
        kept = [each for each in self.rest() if where(each) not in partitions]
        self.records = [*self.records[: self.index], *kept]
        self.size = len(self.records)
        self.ends = [(entry, at) for entry, at in self.ends if entry.partition not in partitions]

    def progress(self) -> dict[TopicPartition, int]:
        """Partition → next offset, of what was handed out since this was last asked."""
        found = {where(each): (each.offset() or 0) + 1 for each in self.records[self.settled : self.index]}
        self.settled = self.index
        return found

    def concerns(self, partitions: Collection[TopicPartition], start: int, end: int) -> bool:
        """Whether one of the records from ``start`` to before ``end`` is of these partitions."""
        return any(where(each) in partitions for each in self.records[start:end])


def where(record: Record) -> TopicPartition:
    """The partition of a record that was fetched."""
    return TopicPartition(str(record.topic()), record.partition() or 0)
