"""What brokers of older releases wrote, in the formats of their time, is read from their segment files."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from groupshift.adapters.spark_submit.java import java_home
from groupshift.spark.batches.headers import MAGIC
from groupshift.spark.batches.segment_files import filesystem, read_parts
from groupshift.spark.segments import segments
from groupshift.spark.session import local_session
from groupshift_sandbox.artifacts import ZOOKEEPER_ERA
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, start_kafka
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.zookeeper import start_zookeeper

FORMATS = {"0.9.0": 0, "0.10.0": 1, "0.11.0": 2}
"""``message.format.version`` of a topic, and the format on disk."""

CASES = [
    (release, version)
    for release, versions in (("0.10.2.2", ("0.9.0", "0.10.0")), ("1.1.1", ("0.9.0", "0.10.0", "0.11.0")))
    for version in versions
]
Row = tuple[int, int, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldBroker:
    """A broker of an old release and where it keeps its logs."""

    home: Home
    bootstrap: str


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session for this file."""
    os.environ["JAVA_HOME"] = str(java_home())
    session = local_session("groupshift old formats")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, OldBroker]]:
    """One broker of each release, each with a ZooKeeper of its own."""
    homes = {release: Home(tmp_path_factory.mktemp("old")).create() for release in ("0.10.2.2", "1.1.1")}
    try:
        yield {release: old_broker(home, release) for release, home in homes.items()}
    finally:
        for home in homes.values():
            for process in reversed(marked(home)):
                stop(process, 20.0)


def old_broker(home: Home, release: str) -> OldBroker:
    """Start it and wait until it answers."""
    options = KafkaOptions(release=ZOOKEEPER_ERA[release], properties={"offsets.topic.num.partitions": "2"})
    return OldBroker(home=home, bootstrap=start_kafka(home, start_zookeeper(home), options).address)


def consumed(bootstrap: str, topic: str) -> list[Row]:
    """Everything that a consumer is given of a topic with one partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True, "log_level": 0}
    )
    found: list[Row] = []
    try:
        consumer.assign([KafkaPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            (message,) = consumer.consume(1, timeout=60)
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
            kind, time = message.timestamp()
            time = -1 if kind == TIMESTAMP_NOT_AVAILABLE else time
            found.append((message.offset(), time, message.key(), message.value()))
    finally:
        consumer.close()


@pytest.mark.parametrize(("release", "version"), CASES)
def test_the_files_of_an_old_broker_are_read_as_a_consumer_reads_the_topic(
    spark: SparkSession, brokers: dict[str, OldBroker], tmp_path: Path, release: str, version: str
) -> None:
    """Every codec of the time; the broker itself converts where the producer writes another format."""
    broker = brokers[release]
    name = f"old-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    config = {"message.format.version": version}
    admin.create_topics([NewTopic(name, 1, 1, config=config)], request_timeout=60)[name].result(60)
    for codec in ("none", "gzip", "snappy", "lz4"):
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 100}
        )
        for number in range(700):
            value = None if number % 3 == 2 else f"{codec}-{number}-".encode() * 9
            producer.produce(name, key=b"%d" % number, value=value)
        assert producer.flush(60) == 0
    expected = consumed(broker.bootstrap, name)
    assert len(expected) == 2800
    shutil.copytree(broker.home.kafka / f"{name}-0", tmp_path / f"{name}-0")
    rows = segments(spark, str(tmp_path), topic=name).collect()
    found = [
        (row[1], row[2], *(None if field is None else bytes(field) for field in row[3:])) for row in rows
    ]
    assert found == expected
    assert formats(tmp_path / f"{name}-0") == {FORMATS[version]}


def formats(folder: Path) -> set[int]:
    """The formats of the batches on disk."""
    found: set[int] = set()
    for path in folder.glob("*.log"):
        store, place = filesystem(str(path))
        for part in read_parts(store, place, 0, path.stat().st_size, check=True):
            found |= set(part.headers.table[:, MAGIC].tolist())
    return found
