"""Ranges of offsets read as a consumer is given them: `groupshift.ports.log.RecordLog`.

A client without membership: partitions are assigned by hand, nothing is committed. It skips markers, aborted
transactions and compacted offsets by itself, for every message format and codec.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.adapters.kafka.cluster import without_secrets
from groupshift.domain.log_gaps import Gap, GapPass, GapRead
from groupshift.domain.partitions import TopicPartition, grouped

_AT_ONCE = 500
_NEAR = 2_000
"""So many offsets between two gaps are read through: that is faster than to fetch anew behind them."""


class KafkaRecordLog:
    """One client for each isolation level asked for. A partition may give nothing for ``timeout_s``."""

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
        by_number: dict[int, GapRead] = {}
        for level in dict.fromkeys(gap.isolation for gap in gaps):
            of_level = ((gap.partition, n) for n, gap in enumerate(gaps) if gap.isolation is level)
            places = grouped(of_level).values()
            try:
                consumer = Consumer({**self._settings, "isolation.level": level.value})
            except KafkaException as error:
                why = self._said(error)
                by_number |= {n: GapRead(gap=gaps[n], problem=why) for numbers in places for n in numbers}
                continue
            with closing(consumer):
                for numbers in places:
                    read = self._of_partition(consumer, [gaps[n] for n in numbers])
                    by_number |= dict(zip(numbers, read, strict=True))
        return [by_number[number] for number in range(len(gaps))]

    def _of_partition(self, consumer: Consumer, gaps: Sequence[Gap]) -> Sequence[GapRead]:
        """All gaps of one partition, in one pass from the first to the last of them."""
        at = gaps[0].partition
        try:
            start, end = consumer.get_watermark_offsets(
                KafkaPartition(*at), timeout=self._timeout_s, cached=False
            )
        except KafkaException as error:
            why = self._said(error)
            return [GapRead(gap=gap, problem=why) for gap in gaps]
        counted = GapPass(gaps, start, end)
        try:
            self._records(consumer, at, counted)
        except KafkaException as error:
            counted.ended(None, self._said(error))
        finally:
            consumer.unassign()
        return counted.reads

    def _said(self, error: KafkaException) -> str:
        text = error.args[0].str() if error.args else str(error)
        return without_secrets(text, self._properties)

    def _records(self, consumer: Consumer, at: TopicPartition, counted: GapPass) -> None:
        """The records from the first gap on, until one lies behind the last or the log ends."""
        position, deadline = None, time.monotonic() + self._timeout_s
        while (wanted := counted.wanted(position or 0)) is not None:
            if position is None or wanted - position > _NEAR:
                position = wanted
                consumer.assign([KafkaPartition(*at, position)])
            messages = consumer.consume(_AT_ONCE, timeout=0.1)
            if messages:
                deadline = time.monotonic() + self._timeout_s
            elif time.monotonic() >= deadline:
                counted.ended(None, f"no answer within {self._timeout_s:g} s")
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    counted.ended(None, without_secrets(error.str(), self._properties))
                elif error is not None:  # all that this level is given now: up to the last stable offset
                    counted.ended(offset)
                elif offset is not None:
                    counted.record(offset)
                    position = offset + 1
