"""A consumer in a thread of its own that commits what it read, and what it tells of that."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

_ENDING = frozenset({"_FATAL", "GROUP_ID_NOT_FOUND"})
"""Delivered by ``poll`` these are the end of a native member, although they do not call themselves fatal
(docs/reference/hazards.md, H27)."""


class Watcher(Protocol):
    """Who is told; in the member's thread."""

    def delivered(self, message: Message) -> None:
        """A record."""

    def tried(self, offsets: Sequence[TopicPartition]) -> None:
        """What it asks to be committed, before it is."""

    def committed(self, offsets: Sequence[TopicPartition]) -> None:
        """Acknowledged: the offsets, by partition."""

    def failed(self, name: str) -> None:
        """A commit that was refused, by the name of the error."""

    def died(self, name: str) -> None:
        """A fatal error ended the member."""


class LiveMember:
    """Begins at once; ``properties`` are librdkafka's. Commits every ``every_s`` seconds, synchronously."""

    def __init__(
        self, properties: Mapping[str, Any], topic: str, watcher: Watcher, every_s: float = 0.25
    ) -> None:
        self._watcher, self._every_s, self._stop = watcher, every_s, threading.Event()
        self._consumer = Consumer(
            {
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "error_cb": lambda _error: None,
                "log_level": 0,
                **properties,
            }
        )
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask it to leave; it does so after its next record or commit."""
        self._stop.set()

    def join(self) -> None:
        """Wait for that; one whose coordinator is unclear may take long to leave and is left behind."""
        self._thread.join(30.0)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            error = message.error() if message is not None else None
            if error is not None and (error.fatal() or error.name() in _ENDING):
                self._watcher.died(error.name())
                break
            if message is not None and error is None:
                self._watcher.delivered(message)
            if time.monotonic() >= due and self._consumer.assignment():
                due = time.monotonic() + self._every_s
                self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        wanted = [each for each in self._consumer.position(self._consumer.assignment()) if each.offset >= 0]
        if not wanted:
            return
        self._watcher.tried(wanted)
        try:
            told = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as why:
            self._watcher.failed(why.args[0].name())
            return
        refused = [each for each in told or [] if each.error]
        if refused:
            self._watcher.failed(refused[0].error.name())
        else:
            self._watcher.committed(told or [])
