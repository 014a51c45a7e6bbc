"""Reads a simulated log as translation does, and counts what it read."""

from __future__ import annotations

from groupshift.ports.records import LogRecordView
from groupshift_testing.replication import Record, SimulatedLog


class SimulatedReader:
    """A `PartitionReader` of a log as it is when the reader is opened. ``calls`` counts fetches."""

    def __init__(self, log: SimulatedLog) -> None:
        self._log = log
        self.start, self.end = log.start, log.end
        self.records_read = 0
        self.calls = 0

    def read(self, from_offset: int, limit: int) -> list[LogRecordView]:
        """The first ``limit`` records at or behind an offset."""
        return self._views([each for each in self._log.read(from_offset, limit) if each.offset < self.end])

    def before(self, offset: int, limit: int) -> list[LogRecordView]:
        """The last ``limit`` records below an offset."""
        at = self._log.index(min(offset, self.end))
        return self._views(self._log.records[max(0, at - limit) : at])

    def _views(self, records: list[Record]) -> list[LogRecordView]:
        self.calls += 1
        self.records_read += len(records)
        return [
            LogRecordView(
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
            for record in records
        ]
