"""Log start and log end, asked for many partitions at once and beside the fetching client."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from groupshift.consumers.librdkafka import connecting
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.fetch import Reset

_LOG = logging.getLogger(__name__)
_ANSWER_S = 0.5
_SLACK_S = 0.1


class LogEnds:
    """``properties`` are the fetching client's; the connection is made at the first question."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = connecting(properties)
        self._admin: AdminClient | None = None

    def find(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """ListOffsets, one request a leader, within half a second; without those that did not answer."""
        if self._admin is None:
            self._admin = AdminClient(self._properties)
        spec = OffsetSpec.earliest() if to is Reset.EARLIEST else OffsetSpec.latest()
        asked = self._admin.list_offsets(
            {KafkaPartition(*each): spec for each in partitions}, request_timeout=_ANSWER_S
        )
        found: dict[TopicPartition, int] = {}
        for where, answer in asked.items():
            try:
                offset = answer.result(timeout=_ANSWER_S + _SLACK_S).offset
            except (KafkaException, TimeoutError) as error:
                _LOG.info("no %s offset of %s-%d: %s", to.value, where.topic, where.partition, error)
            else:
                found[TopicPartition(where.topic, where.partition)] = offset
        return found

    def close(self) -> None:
        """Drop the connection."""
        self._admin = None
