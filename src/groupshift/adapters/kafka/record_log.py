"""Ranges of offsets read as a consumer is given them: `groupshift.ports.record_log.RecordLog`.

A client without membership: partitions are assigned by hand, nothing is committed. It skips markers, aborted
transactions and compacted offsets by itself, for every message format and codec.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.adapters.kafka.sentences import without_secrets
from groupshift.domain.log_gaps import Gap, GapRead

_ENOUGH = 10_000
"""So many records of one gap are counted; more tell nothing new."""
_AT_ONCE = 500
_POLL_S = 0.5


class KafkaRecordLog:
    """One client for each isolation level that is asked for; ``timeout_s`` bounds the reading of each gap."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str], timeout_s: float = 20.0) -> None:
        self._properties = properties
        self._settings = {
            **properties,
            "bootstrap.servers": bootstrap,
            "group.id": "groupshift-record-log",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
        self._timeout_s = timeout_s

    def read(self, gaps: Sequence[Gap]) -> Sequence[GapRead]:
        """See the port."""
        found: dict[int, GapRead] = {}
        for level in dict.fromkeys(gap.isolation for gap in gaps):
            asked = {number: gap for number, gap in enumerate(gaps) if gap.isolation is level}
            try:
                consumer = Consumer({**self._settings, "isolation.level": level.value})
            except KafkaException as error:
                found |= {
                    number: GapRead(gap=gap, problem=self._said(error)) for number, gap in asked.items()
                }
                continue
            with closing(consumer):
                found |= {number: self._one(consumer, gap) for number, gap in asked.items()}
        return [found[number] for number in range(len(gaps))]

    def _one(self, consumer: Consumer, gap: Gap) -> GapRead:
        try:
            start, end = consumer.get_watermark_offsets(
                KafkaPartition(*gap.partition), timeout=self._timeout_s, cached=False
            )
            if end <= max(start, gap.start):
                return GapRead(gap=gap, log_start=start, decided=end)
            return self._records(consumer, gap, start)
        except KafkaException as error:
            return GapRead(gap=gap, problem=self._said(error))

    def _said(self, error: KafkaException) -> str:
        text = error.args[0].str() if error.args else str(error)
        return without_secrets(text, self._properties)

    def _records(self, consumer: Consumer, gap: Gap, start: int) -> GapRead:
        """The records from the gap's first offset on, until one lies behind it or the log ends."""
        consumer.assign([KafkaPartition(*gap.partition, max(start, gap.start))])
        deadline = time.monotonic() + self._timeout_s
        records, decided = 0, gap.start
        try:
            while decided < gap.end and records < _ENOUGH:
                if time.monotonic() >= deadline:
                    why = f"no answer within {self._timeout_s:g} s"
                    return GapRead(gap=gap, log_start=start, records=records, decided=decided, problem=why)
                for message in consumer.consume(_AT_ONCE, timeout=_POLL_S):
                    error, offset = message.error(), message.offset()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                        return GapRead(gap=gap, log_start=start, records=records, problem=error.str())
                    if error is not None:  # all that this level is given now: up to the last stable offset
                        known = offset if offset is not None else decided
                        return GapRead(gap=gap, log_start=start, records=records, decided=max(known, decided))
                    if offset is None or offset >= gap.end:
                        decided = gap.end
                        break
                    records, decided = records + 1, offset + 1
        finally:
            consumer.unassign()
        return GapRead(gap=gap, log_start=start, records=records, decided=decided)
