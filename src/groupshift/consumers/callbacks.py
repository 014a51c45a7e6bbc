"""The application's callbacks: called by the thread that reads, as confluent-kafka does.

The reconciler posts a `Notice`; a reader finds it before any record and runs it. So a callback may commit,
store offsets or look at positions, and one that fails or never returns cannot hurt coordination: the
reconciler waits for a revocation within its bound and then goes on without.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.domain.assignment import GroupAssignment
from groupshift.domain.partitions import TopicPartition

_LOG = logging.getLogger(__name__)

PartitionCallback = Callable[[Any, list[KafkaPartition]], object]
"""Called with the consumer and partitions, as in confluent-kafka."""
GroupCallback = Callable[[Any, GroupAssignment], object]
"""Called with the consumer and the assignment of the whole group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """What `subscribe` was given."""

    on_assign: PartitionCallback | None = None
    on_revoke: PartitionCallback | None = None
    on_lost: PartitionCallback | None = None
    on_group_assigned: GroupCallback | None = None


class _State(enum.Enum):
    WAITING = enum.auto()
    BEGUN = enum.auto()
    LATE = enum.auto()


class Notice:
    """One call to be made by a reader. ``late`` is called in its place once `give_up` came first."""

    def __init__(self, call: Callable[[], object], late: Callable[[], object] | None = None) -> None:
        self._call, self._late = call, late
        self._state, self._lock = _State.WAITING, threading.Lock()
        self._done = threading.Event()

    @property
    def done(self) -> bool:
        """Whether the call has returned or raised."""
        return self._done.is_set()

    def run(self) -> None:
        """Make the call; raises what it raises."""
        with self._lock:
            late = self._state is _State.LATE
            self._state = _State.BEGUN
        try:
            if not late:
                self._call()
            elif self._late is not None:
                self._late()
        finally:
            self._done.set()

    def give_up(self) -> None:
        """Nobody waits any more; what was begun goes on."""
        with self._lock:
            if self._state is _State.WAITING:
                self._state = _State.LATE

    def topic(self) -> str | None:
        """None: a reader meets it where it meets errors of the client."""
        return None

    def partition(self) -> int | None:
        """None."""
        return None

    def offset(self) -> int | None:
        """None."""
        return None


class Application(Protocol):
    """What the reconciler tells the application. Called on its thread; returns at once."""

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """These partitions are delivered from these offsets on; told before the first record."""
        ...

    def revoking(self, partitions: Collection[TopicPartition]) -> Notice | None:
        """They are about to be given up, cut off already; the notice is done when the application is."""
        ...

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """They are gone, and so is the right to commit them."""
        ...

    @property
    def wants_group(self) -> bool:
        """Whether `group_assigned` is of any use."""
        ...

    def group_assigned(self, assignment: GroupAssignment) -> None:
        """The assignment of the whole group; told before `assigned`."""
        ...


class Nobody:
    """An application without callbacks."""

    wants_group = False

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """Nothing."""

    def revoking(self, partitions: Collection[TopicPartition]) -> Notice | None:  # noqa: ARG002
        """Nothing to wait for."""
        return None

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing."""

    def group_assigned(self, assignment: GroupAssignment) -> None:
        """Nothing."""


class Callbacks:
    """`Application` on the callbacks of ``consumer``. ``post`` hands a notice to the readers."""

    def __init__(self, consumer: Any, listeners: Listeners, post: Callable[[Notice], None]) -> None:
        self._consumer, self._listeners, self._post = consumer, listeners, post
        self._told: set[TopicPartition] = set()

    @property
    def wants_group(self) -> bool:
        """Whether there is a listener of the global assignment."""
        return self._listeners.on_group_assigned is not None

    def assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        """``on_assign``, with the offsets."""
        self._told.update(starts)
        partitions = [KafkaPartition(*each, at) for each, at in sorted(starts.items())]
        if partitions and (call := self._call(self._listeners.on_assign, partitions)) is not None:
            self._post(Notice(call))

    def revoking(self, partitions: Collection[TopicPartition]) -> Notice | None:
        """``on_revoke``; ``on_lost`` when it comes too late for a commit."""
        gone = self._take_back(partitions)
        if not gone or (call := self._call(self._listeners.on_revoke, gone)) is None:
            return None
        notice = Notice(call, self._call(self._listeners.on_lost or self._listeners.on_revoke, gone))
        self._post(notice)
        return notice

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """``on_lost``, or ``on_revoke`` without one, as in confluent-kafka."""
        gone = self._take_back(partitions)
        call = self._call(self._listeners.on_lost or self._listeners.on_revoke, gone)
        if gone and call is not None:
            self._post(Notice(call))

    def group_assigned(self, assignment: GroupAssignment) -> None:
        """``on_group_assigned``."""
        listener = self._listeners.on_group_assigned
        if listener is not None:
            self._post(Notice(lambda: listener(self._consumer, assignment)))

    def _take_back(self, partitions: Collection[TopicPartition]) -> list[KafkaPartition]:
        gone = sorted(self._told.intersection(partitions))
        self._told.difference_update(gone)
        return [KafkaPartition(*each) for each in gone]

    def _call(
        self, callback: PartitionCallback | None, partitions: list[KafkaPartition]
    ) -> Callable[[], object] | None:
        return None if callback is None else lambda: callback(self._consumer, partitions)
