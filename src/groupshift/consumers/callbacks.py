"""The application's callbacks: called by the thread that reads, as confluent-kafka does.

The reconciler posts a `Notice`; a reader finds it before any record and runs it. So a callback may commit,
store offsets or look at positions, and one that fails or never returns cannot hurt coordination: the
reconciler waits for a revocation within its bound and then goes on without.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.domain.assignment import GroupAssignment
from groupshift.domain.partitions import TopicPartition

PartitionCallback = Callable[[Any, list[KafkaPartition]], object]
"""Called with the consumer and partitions, as in confluent-kafka."""
GroupCallback = Callable[[Any, GroupAssignment], object]
"""Called with the consumer and the assignment of the whole group."""


class Notice:
    """One call to be made by a reader. ``late`` is called in its place once `give_up` came first."""

    def __init__(self, call: Callable[[], object], late: Callable[[], object] | None = None) -> None:
        self._call: Callable[[], object] | None = call
        self._late = late
        self._done = threading.Event()

    @property
    def done(self) -> bool:
        """Whether the call has returned or raised."""
        return self._done.is_set()

    def run(self) -> None:
        """Make the call; raises what it raises."""
        call = self._call
        try:
            if call is not None:
                call()
        finally:
            self._done.set()

    def give_up(self) -> None:
        """Nobody waits any more; what was begun goes on."""
        self._call = self._late


@dataclass(slots=True)
class Callbacks:
    """What the reconciler tells the application, on its own thread, by what ``subscribe`` was given; returns
    at once. ``post`` hands a notice to the readers."""

    consumer: Any = None
    post: Callable[[Notice], None] = field(default=lambda _notice: None)
    on_assign: PartitionCallback | None = None
    on_revoke: PartitionCallback | None = None
    on_lost: PartitionCallback | None = None
    on_group_assigned: GroupCallback | None = None
    _told: set[TopicPartition] = field(default_factory=set)

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """``on_assign``, with the offsets: these partitions are delivered from there on; told before the
        first record."""
        self._told.update(starts)
        self._tell(self.on_assign, [KafkaPartition(*each, at) for each, at in sorted(starts.items())])

    def revoking(self, partitions: Collection[TopicPartition]) -> Notice | None:
        """``on_revoke``; ``on_lost`` when it comes too late for a commit. The partitions are cut off already
        and about to be given up; the notice is done when the application is."""
        return self._tell(self.on_revoke, self._take_back(partitions), self.on_lost or self.on_revoke)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """``on_lost``, or ``on_revoke`` without one, as in confluent-kafka: they are gone, and so is the
        right to commit them."""
        self._tell(self.on_lost or self.on_revoke, self._take_back(partitions))

    def group_assigned(self, assignment: GroupAssignment) -> None:
        """``on_group_assigned``, with the assignment of the whole group; told before `assigned`."""
        if self.on_group_assigned is not None:
            self.post(Notice(partial(self.on_group_assigned, self.consumer, assignment)))

    def _take_back(self, partitions: Collection[TopicPartition]) -> list[KafkaPartition]:
        gone = sorted(self._told.intersection(partitions))
        self._told.difference_update(gone)
        return [KafkaPartition(*each) for each in gone]

    def _tell(
        self,
        callback: PartitionCallback | None,
        partitions: list[KafkaPartition],
        late: PartitionCallback | None = None,
    ) -> Notice | None:
        if callback is None or not partitions:
            return None
        instead = None if late is None else partial(late, self.consumer, partitions)
        notice = Notice(partial(callback, self.consumer, partitions), instead)
        self.post(notice)
        return notice
