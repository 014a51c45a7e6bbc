"""A transaction that commits an offset and stays open."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At


class OpenTransaction:
    """A producer that has sent an offset of ``group`` to a transaction and not ended it."""

    def __init__(self, bootstrap: str, group: str, at: At) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": group, "transaction.timeout.ms": 600_000}
        )
        self._producer.init_transactions(30)
        self._producer.begin_transaction()
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        try:
            self._producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), 30)
        finally:
            consumer.close()

    def commit(self) -> None:
        """End it."""
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        """End it without effect."""
        self._producer.abort_transaction(30)
