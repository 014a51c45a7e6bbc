"""Reading records of explicitly given partitions from explicitly given offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from groupshift.domain.partitions import TopicPartition


class Record(Protocol):
    """What is handed to the application; `confluent_kafka.Message` is one."""

    def topic(self) -> str | None:
        """Topic, None for an error that concerns no partition."""
        ...

    def partition(self) -> int | None:
        """Partition number."""
        ...

    def offset(self) -> int | None:
        """Offset of this record."""
        ...


class Reset(StrEnum):
    """Where to start without a usable offset (``auto.offset.reset``)."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Fetch(Protocol):
    """The fetcher. `poll`, `ends` and `close` are called by one thread at a time; polling also carries out
    what the others ask for."""

    def add(self, positions: Mapping[TopicPartition, int], added: Callable[[], None]) -> None:
        """Fetch these partitions from these offsets, in place of former ones.

        ``added`` is called on the polling thread between two polls: what earlier polls returned for
        these partitions is void, what later ones return starts at the given offsets."""
        ...

    def remove(self, partitions: Collection[TopicPartition], removed: Callable[[], None]) -> None:
        """Stop fetching them; ``removed`` is called like ``added``: later polls return nothing of them."""
        ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Keep them, but fetch nothing until they are added again."""
        ...

    def poll(self, limit: int, timeout: float) -> list[Record]:
        """Up to ``limit`` records; waits up to ``timeout`` seconds for the first. With limit 0, only
        carries out what was asked for; with limit 0 and a timeout, only waits until something was, which
        any thread may do."""
        ...

    def ends(self) -> Mapping[TopicPartition, int]:
        """The positions after all that was polled: the next offset of each partition that has one."""
        ...

    def flawed(self, records: Sequence[Record]) -> bool:
        """Whether one of these is not a record but the report of an error."""
        ...

    def out_of_range(self, record: Record) -> TopicPartition | None:
        """The partition whose position the broker does not have, when ``record`` says so."""
        ...

    def reset(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """Log start or log end; partitions that cannot be asked now are left out."""
        ...

    def end_of(self, partition: TopicPartition) -> int | None:
        """The log end last seen, without asking; None when never seen."""
        ...

    def close(self) -> None:
        """Release the client."""
        ...
