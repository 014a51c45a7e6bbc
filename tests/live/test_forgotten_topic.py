"""A topic that the brokers do not know for a moment, as right after a restart."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from groupshift.consumers.configuration import parse
from groupshift.consumers.fetcher import KafkaFetch
from groupshift.domain.partitions import TopicPartition
from groupshift.sandbox.processes import wait_until

PATIENCE_S = 60


def test_fetching_goes_on_when_a_topic_is_known_again(cluster, topic, group, producer):
    """By the client's own default it would be found again after five minutes."""
    name = topic(1)
    config = parse(
        {"group.id": group, "zookeeper.connect": cluster.zookeeper, "bootstrap.servers": cluster.bootstrap},
        migrating=True,
    )
    fetch, fetched = KafkaFetch(config.fetcher()), []
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    fetch.add({TopicPartition(name, 0): 0}, lambda: None)

    def forgotten() -> bool:
        fetch.poll(100, 0.1)
        return name not in fetch._consumer.list_topics(timeout=10).topics

    def created() -> bool:
        try:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=15)
        except KafkaException:  # marked for deletion
            return False
        return True

    def delivered() -> bool:
        fetched.extend(each for each in fetch.poll(100, 0.1) if each.error() is None)
        return bool(fetched)

    try:
        admin.delete_topics([name])[name].result(timeout=15)
        wait_until(forgotten, PATIENCE_S, "the client has looked while the topic was gone")
        wait_until(created, PATIENCE_S, "it is there again")
        producer(name, 1, rate=20)
        wait_until(delivered, PATIENCE_S, "records of the topic that is there again")
    finally:
        fetch.close()
    assert fetched[0].topic() == name
    assert fetched[0].offset() == 0
