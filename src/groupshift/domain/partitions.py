"""A partition of a topic; and what belongs together, such as the partitions of a topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class TopicPartition(NamedTuple):
    """One partition; orders by topic, then by number. Prints as ``topic-partition``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """The second of each pair by the first: the groups of a coordinator, the partitions of a topic."""
    groups: dict[_K, list[_V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
