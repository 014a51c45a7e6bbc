"""What an application sees of a consumer besides the consumer itself: its streams and its status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """A consumer's state: ``mode`` in effect (None before the first decision), partitions owned, lag of
    those whose log end is known (records), and alarms for people (D11, F6)."""

    mode: Mode | None
    owned: frozenset[TopicPartition]
    lag: Mapping[TopicPartition, int]
    alarms: tuple[str, ...]


class Stream:
    """One stream of a consumer: the partitions its thread id owns, in every topic that has it."""

    def __init__(self, take: Callable[[int, int, float], list[Any]], number: int) -> None:
        self._take, self._number = take, number

    def poll(self, timeout: float = -1) -> Message | None:
        """The next record of this stream, or None after ``timeout`` seconds (negative: wait for ever).

        Raises `RuntimeError` when the consumer is closed."""
        records = self._take(self._number, 1, timeout)
        return records[0] if records else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to ``num_messages`` records; returns as soon as there is at least one."""
        return self._take(self._number, num_messages, timeout)
