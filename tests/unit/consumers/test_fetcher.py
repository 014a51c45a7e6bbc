"""What librdkafka's client does with a pause, asked of the client itself: its own cluster in the process."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from groupshift.consumers.fetcher import KafkaFetch
from groupshift.domain.partitions import TopicPartition

P0 = TopicPartition("t", 0)


@pytest.fixture
def cluster():
    """Brokers of a topic with four records; they live as long as the producer."""
    producer = Producer({"bootstrap.servers": "-", "test.mock.num.brokers": 1, "log_level": 0})
    for _ in range(4):
        producer.produce(P0.topic, b"", partition=P0.partition)
    assert producer.flush(20) == 0
    brokers = producer.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in brokers)
    producer.flush(0)


def fetched(fetch: KafkaFetch, count: int) -> list[int]:
    """The next offsets, as many as come before the deadline."""
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [each.offset() for each in fetch.poll(count, 0.05)]
    return found


def test_what_was_paused_when_it_was_given_up_is_fetched_when_it_is_taken_again(cluster) -> None:
    """The client remembers the pause; whoever takes the partition anew did not ask for one."""
    fetch = KafkaFetch(
        {
            "bootstrap.servers": cluster,
            "group.id": "g",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    try:
        fetch.add({P0: 0}, lambda: None)
        assert fetched(fetch, 4) == [0, 1, 2, 3]
        fetch.pause([P0])
        fetch.remove([P0], lambda: None)
        fetch.add({P0: 2}, lambda: None)
        assert fetch.ends() == {P0: 4}
        assert fetched(fetch, 2) == [2, 3]
    finally:
        fetch.close()
