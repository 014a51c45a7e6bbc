"""The log of the offsets topic, wherever it is read: at the brokers, or from a copy."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from groupshift.domain.audit_log import Position
from groupshift.log import LogRecord
from groupshift.ports.audits import LogProgress


class OffsetsLog(Protocol):
    """What of `groupshift.ports.audits.LogReader` a copied log has too. Raises as that one."""

    def position(self) -> Position:
        """The end of every partition that is there."""
        ...

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, told: LogProgress | None = None
    ) -> Iterator[LogRecord]:
        """The records below ``up_to`` of these partitions (None: all), each partition in log order, without
        markers and without records of transactions that were aborted or are open."""
        ...
