"""A broker that answers for a moment that a topic has no partitions, as one does right after a restart."""

from __future__ import annotations

import pytest

from groupshift.consumers.config import parse
from groupshift.consumers.fetcher import KafkaFetch
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.processes import wait_until
from support.forgetful_relay import ForgetfulRelay, forgetful

PATIENCE_S = 60


@pytest.fixture
def relay(cluster):
    """Before a listener of the broker that advertises the relay's port."""
    listener = cluster.free_relayed.pop()
    with forgetful(listener.advertised_port, f"127.0.0.1:{listener.port}") as made:
        made.address = f"127.0.0.1:{listener.advertised_port}"
        yield made
    cluster.free_relayed.append(listener)


def test_fetching_goes_on_when_the_partitions_are_known_again(
    cluster, topic, group, producer, relay: ForgetfulRelay
):
    """By librdkafka's default, only when it looks again after five minutes."""
    name = topic(1)
    producer(name, 1, rate=20)
    told = {"group.id": group, "zookeeper.connect": cluster.zookeeper, "bootstrap.servers": relay.address}
    fetch, offsets = KafkaFetch(parse(told, migrating=True).fetcher()), []

    def fetched() -> list[int]:
        found = [each.offset() for each in fetch.poll(100, 0.1) if each.error() is None]
        offsets.extend(found)
        return found

    fetch.add({TopicPartition(name, 0): 0}, lambda: None)
    try:
        wait_until(fetched, PATIENCE_S, "it fetches")
        relay.forgets = True
        relay.cut()
        wait_until(lambda: (fetched(), relay.forgot.is_set())[1], PATIENCE_S, "it was told of no partitions")
        wait_until(lambda: not fetched() and not fetched(), PATIENCE_S, "it fetches no more")
        fetch.remove([TopicPartition(name, 0)], lambda: None)  # a rebalance in that moment
        fetched()
        fetch.add({TopicPartition(name, 0): len(offsets)}, lambda: None)
        fetched()
        relay.forgets, before = False, len(offsets)
        wait_until(fetched, PATIENCE_S, "it fetches again")
    finally:
        fetch.close()
    assert len(offsets) > before
    assert offsets == list(range(len(offsets)))


def test_a_fetcher_without_records_asks_for_its_topic_again(cluster, topic, group, relay: ForgetfulRelay):
    """Whatever its client thinks that it knows."""
    name = topic(1)
    told = {
        "group.id": group,
        "zookeeper.connect": cluster.zookeeper,
        "bootstrap.servers": relay.address,
        "topic.metadata.refresh.interval.ms": 300_000,
    }
    fetch = KafkaFetch(parse(told, migrating=True).fetcher())
    fetch.add({TopicPartition(name, 0): 0}, lambda: None)

    def calm(seen: list[int]) -> bool:
        fetch.poll(100, 0.1)
        seen.append(relay.asked)
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    try:
        seen: list[int] = []
        wait_until(lambda: calm(seen), PATIENCE_S, "it has found its topic")
        settled = relay.asked
        wait_until(lambda: fetch.poll(100, 0.1) or relay.asked >= settled + 2, PATIENCE_S, "it asks again")
    finally:
        fetch.close()
    assert settled >= 1
    assert relay.asked >= settled + 2
