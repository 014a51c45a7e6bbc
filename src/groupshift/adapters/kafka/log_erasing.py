"""Tombstones written by a producer: `groupshift.ports.log.LogErasing`.

Brokers let nobody produce to an internal topic but clients that call themselves ``__admin_client``
(specs/group-coordinator.md §3.2, seen on 3.9.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, Message, Producer

from groupshift.errors import Rejected, Transient

_TOPIC, _CLIENT = "__consumer_offsets", "__admin_client"
_AT_ONCE = 10_000
_REFUSED = frozenset(
    {
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class ProducerErasing:
    """A producer of its own each time; ``timeout_s`` is for all records of one call."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str], timeout_s: float) -> None:
        self._settings = {
            **properties,
            "bootstrap.servers": bootstrap,
            "client.id": _CLIENT,
            "acks": "all",
            "message.timeout.ms": str(round(timeout_s * 1000)),
            "log_level": "0",
        }
        self._timeout_s = timeout_s

    def erase(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """See the port."""
        failed: list[KafkaError] = []

        def told(error: KafkaError | None, _record: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer(self._settings)
        for number, (partition, key) in enumerate(keys, 1):
            producer.produce(_TOPIC, partition=partition, key=key, value=None, on_delivery=told)
            if not number % _AT_ONCE:
                producer.flush(self._timeout_s)
        left = producer.flush(self._timeout_s)
        lasting = [each for each in failed if each.code() in _REFUSED]
        if lasting:
            raise Rejected(
                f"tombstones of {_TOPIC} are refused ({lasting[0].str()}): let this login write there"
            )
        if left or failed:
            why = failed[0].str() if failed else f"{left} records were not acknowledged"
            raise Transient(f"tombstones of {_TOPIC} are not all written ({why}); run it again")
