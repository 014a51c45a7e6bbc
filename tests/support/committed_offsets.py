"""A ZooKeeper and a broker of their own whose groups have committed offsets: what an audit looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Producer

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, start_kafka
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.zookeeper import start_zookeeper

TOPIC = "orders"
_RECORDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Where ZooKeeper and Kafka answer."""

    zookeeper: str
    bootstrap: str


@contextmanager
def committed_offsets(home: Home, partitions: int, offsets: Mapping[str, Sequence[int]]) -> Iterator[Servers]:
    """Ten records in each partition of `TOPIC`; ``offsets`` are each group's, from partition 0 on. Ends both
    servers."""
    try:
        zookeeper = start_zookeeper(home)
        bootstrap = start_kafka(home, zookeeper).address
        create_topic(bootstrap, TOPIC, partitions)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(_RECORDS * partitions):
            producer.produce(TOPIC, b"x", partition=number % partitions)
        if producer.flush(60):
            raise Transient("the records are not written within a minute")
        raw = KafkaCluster(bootstrap, timeout_s=60.0)
        for group, each in offsets.items():
            told = {TopicPartition(TOPIC, number): (offset, "") for number, offset in enumerate(each)}
            commit(raw, {group: told})
        raw.close()
        yield Servers(zookeeper=zookeeper, bootstrap=bootstrap)
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)
