"""A consumer of this library in the test's own process, read by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from groupshift.consumers import MigratingConsumer
from groupshift.domain.partitions import TopicPartition


class ReadingMember:
    """Reads until it is closed. ``delivered`` is partition → offsets; ``heard`` what callbacks were told,
    in order, with the number of records that had been delivered before."""

    def __init__(self, consumer: MigratingConsumer) -> None:
        self.consumer = consumer
        self.delivered: dict[TopicPartition, list[int]] = {}
        self.heard: list[tuple[str, Any, int]] = []
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def join(self, topics: Any, **callbacks: Callable[..., None]) -> ReadingMember:
        """Subscribe, noting what the callbacks are told, and read from now on."""
        self.consumer.subscribe(
            topics,
            on_assign=self._hearing("assign", callbacks),
            on_revoke=self._hearing("revoke", callbacks),
            on_lost=self._hearing("lost", callbacks),
            on_group_assigned=lambda _, told: self.heard.append(("group", told, self.count)),
        )
        self._thread.start()
        return self

    def _hearing(self, name: str, callbacks: dict[str, Callable[..., None]]) -> Callable[..., None]:
        def hear(consumer: Any, partitions: Any) -> None:
            told = frozenset(TopicPartition(each.topic, each.partition) for each in partitions)
            self.heard.append((name, told, self.count))
            if name in callbacks:
                callbacks[name](consumer, partitions)

        return hear

    @property
    def count(self) -> int:
        """Records delivered so far."""
        return sum(len(each) for each in self.delivered.values())

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """What is delivered here now."""
        return frozenset(TopicPartition(each.topic, each.partition) for each in self.consumer.assignment())

    def _read(self) -> None:
        while not self._stop.is_set():
            for record in self.consumer.consume(100, 0.05):
                if record.error() is not None:
                    self.errors.append(str(record.error()))
                    continue
                where = TopicPartition(record.topic(), record.partition())
                self.delivered.setdefault(where, []).append(record.offset())

    def close(self) -> None:
        """Stop reading, then leave."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(20)
        self.consumer.close()
