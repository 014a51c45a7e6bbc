"""Tombstones in the offsets topic, for records that no coordinator would ever delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class LogErasing(Protocol):
    """Writes into the offsets topic itself; coordinators see it when they load the partition the next time.

    Raises `Transient` when brokers do not take it in time (what was written stays written), `Rejected` when
    they refuse it."""

    def erase(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Write a tombstone for each key into its partition, and wait until all replicas have it. Safe to
        repeat."""
        ...
