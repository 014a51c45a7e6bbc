"""Log start and log end, asked for many partitions at once and beside the fetching client."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from groupshift.consumers.librdkafka import connecting
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import Reset

_LOG = logging.getLogger(__name__)
_ANSWER_S = 0.5
_QUICK_S = 0.2
_AGAIN_S = 0.3
_SLACK_S = 0.1


class LogEnds:
    """``properties`` are the fetching client's; the connection is made at the first question."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = connecting(properties)
        self._admin: AdminClient | None = None

    def find(self, partitions: Collection[TopicPartition], to: Reset) -> Mapping[TopicPartition, int]:
        """ListOffsets, one request a leader, within about a second; without those that did not answer.

        The client believes the topics that it listed once (observed: partitions added later were unknown to
        it for ever), so it lists them again when it knows at once that one is missing."""
        if self._admin is None:
            self._admin = AdminClient(self._properties)
        began = time.monotonic()
        found = self._ask(self._admin, partitions, to, _ANSWER_S)
        missing = [each for each in partitions if each not in found]
        quick = time.monotonic() - began < _QUICK_S
        if missing and quick and self._list_topics(self._admin):
            found |= self._ask(self._admin, missing, to, _AGAIN_S)
        return found

    def _ask(
        self, admin: AdminClient, partitions: Collection[TopicPartition], to: Reset, timeout: float
    ) -> dict[TopicPartition, int]:
        spec = OffsetSpec.earliest() if to is Reset.EARLIEST else OffsetSpec.latest()
        asked = admin.list_offsets(
            {KafkaPartition(*each): spec for each in partitions}, request_timeout=timeout
        )
        found: dict[TopicPartition, int] = {}
        for where, answer in asked.items():
            try:
                offset = answer.result(timeout=timeout + _SLACK_S).offset
            except (KafkaException, TimeoutError) as error:
                _LOG.info("no %s offset of %s-%d: %s", to.value, where.topic, where.partition, error)
            else:
                found[TopicPartition(where.topic, where.partition)] = offset
        return found

    def _list_topics(self, admin: AdminClient) -> bool:
        try:
            admin.list_topics(timeout=_AGAIN_S)
        except KafkaException as error:
            _LOG.info("topics could not be listed: %s", error)
            return False
        return True

    def close(self) -> None:
        """Drop the connection."""
        self._admin = None
