"""The log of a real broker as rows: from its segment files, by our fetches, and as a consumer reads it."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from groupshift.adapters.spark_submit.java import java_home
from groupshift.errors import Rejected, Transient
from groupshift.spark.broker_source import Brokers, fetched, log_bounds
from groupshift.spark.segments import segments
from groupshift.spark.session import local_session
from groupshift_sandbox.processes import wait_until

pytestmark = pytest.mark.timeout(900)  # jobs of Spark, on a machine that may do something else, too

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OFFSETS = "__consumer_offsets"

Row = tuple[int, int, int, bytes | None, bytes | None]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session for this file."""
    os.environ["JAVA_HOME"] = str(java_home())
    session = local_session("groupshift live tests")
    yield session
    session.stop()


def rows(frame: DataFrame) -> list[Row]:
    """The rows of a source, by partition; the order within a partition is the source's own."""
    found = [
        (row[0], row[1], row[2], *(None if field is None else bytes(field) for field in row[3:]))
        for row in frame.collect()
    ]
    return sorted(found, key=lambda row: row[0])


def consumed(bootstrap: str, topic: str) -> list[Row]:
    """What an ordinary consumer is given, up to the end that is visible to it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex[:8]}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([KafkaPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[Row] = []
        left = set(partitions)
        while left:
            (message,) = consumer.consume(1, timeout=30)
            if message.error() is None:
                found.append(
                    (
                        message.partition(),
                        message.offset(),
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                    )
                )
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                left.discard(message.partition())
        return sorted(found, key=lambda row: row[0])
    finally:
        consumer.close()


def copied(cluster, topic: str, to: Path) -> str:
    """A copy of the topic's folders, as an administrator makes one."""
    for folder in sorted(cluster.home.kafka.glob(f"{topic}-*")):
        shutil.copytree(folder, to / folder.name)
    return str(to)


def produce(producer: Producer, topic: str, names: list[str]) -> None:
    """One record per name, alternating between two partitions; every third a tombstone."""
    for number, name in enumerate(names):
        value = None if number % 3 == 2 else name.encode() * 20
        producer.produce(topic, key=name.encode(), value=value, partition=number % 2)
    assert producer.flush(30) == 0


def transactional(bootstrap: str, codec: str) -> Producer:
    """A producer with a transactional id of its own."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"tx-{uuid.uuid4().hex[:8]}",
            "transaction.timeout.ms": 600_000,
            "compression.type": codec,
            "linger.ms": 50,
        }
    )
    producer.init_transactions(30)
    return producer


def test_segments_fetches_and_a_consumer_agree_on_codecs_and_transactions(
    spark: SparkSession, cluster, topic: Callable[[int], str], tmp_path: Path
) -> None:
    """Every codec, transactions committed, aborted, interleaved; at last one that stays open."""
    name = topic(2)
    for codec in CODECS:
        plain = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 50})
        produce(plain, name, [f"plain-{codec}-{n}" for n in range(40)])
        first, second = transactional(cluster.bootstrap, codec), transactional(cluster.bootstrap, codec)
        first.begin_transaction()
        second.begin_transaction()
        produce(first, name, [f"first-{codec}-{n}" for n in range(30)])
        produce(second, name, [f"aborted-{codec}-{n}" for n in range(30)])
        produce(plain, name, [f"between-{codec}-{n}" for n in range(5)])
        produce(first, name, [f"later-{codec}-{n}" for n in range(5)])
        first.commit_transaction(30)
        second.abort_transaction(30)
        second.begin_transaction()
        produce(second, name, [f"second-{codec}-{n}" for n in range(4)])
        second.commit_transaction(30)
    brokers = Brokers(bootstrap_servers=cluster.bootstrap)
    wait_until(lambda: all(each.stable == each.end for each in log_bounds(brokers, name)), 60, "markers")
    ends = {each.partition: each.end for each in log_bounds(brokers, name)}
    expected = consumed(cluster.bootstrap, name)
    assert len(expected) == len(CODECS) * (40 + 30 + 5 + 5 + 4)
    copy = copied(cluster, name, tmp_path / "closed")
    assert rows(segments(spark, copy, topic=name)) == expected
    assert rows(fetched(spark, brokers, topic=name)) == expected
    hanging = transactional(cluster.bootstrap, "zstd")
    hanging.begin_transaction()
    produce(hanging, name, [f"open-{n}" for n in range(10)])
    produce(plain, name, [f"after-{n}" for n in range(10)])
    second.begin_transaction()
    produce(second, name, ["gone-1", "gone-2"])
    second.abort_transaction(30)
    added = (10 + 10 + 2) // 2 + 1  # and the marker, which comes a moment later
    wait_until(
        lambda: all(each.end == ends[each.partition] + added for each in log_bounds(brokers, name)),
        60,
        "the marker of the aborted transaction",
    )
    copy = copied(cluster, name, tmp_path / "open")
    got = rows(segments(spark, copy, topic=name))
    assert rows(fetched(spark, brokers, topic=name)) == got
    kinds = {row[3].split(b"-")[0] for row in got if row[3] is not None}
    assert b"after" in kinds, "decided behind the one that is open"
    assert kinds.isdisjoint({b"open", b"gone"})
    stable = {each.partition: each.stable for each in log_bounds(brokers, name)}
    assert [row for row in got if row[1] < stable[row[0]]] == consumed(cluster.bootstrap, name)
    hanging.abort_transaction(30)


def test_what_the_broker_itself_compressed_is_read(spark: SparkSession, cluster, tmp_path: Path) -> None:
    """Topics whose codec is the broker's: Java's own compressors, one topic each."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    brokers = Brokers(bootstrap_servers=cluster.bootstrap)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 100})
    for codec in CODECS[1:]:
        name = f"by-broker-{codec}-{uuid.uuid4().hex[:6]}"
        wanted = NewTopic(
            name, 2, 1, config={"compression.type": codec, "message.timestamp.type": "LogAppendTime"}
        )
        admin.create_topics([wanted])[name].result(30)
        wait_until(lambda at=name: _ready(brokers, at), 60, f"{name} has leaders")
        produce(producer, name, [f"{codec}-{n}" for n in range(3000)])
        expected = consumed(cluster.bootstrap, name)
        assert len(expected) == 3000
        copy = copied(cluster, name, tmp_path / codec)
        assert rows(segments(spark, copy, topic=name)) == expected
        assert rows(fetched(spark, brokers, topic=name)) == expected


def _ready(brokers: Brokers, topic: str) -> bool:
    try:
        return len(log_bounds(brokers, topic)) == 2
    except (Rejected, Transient):
        return False


def test_the_coordinators_own_log_is_read(
    spark: SparkSession, cluster, group: str, topic: Callable[[int], str], tmp_path: Path
) -> None:
    """`__consumer_offsets` with plain and transactional commits of a group."""
    name = topic(2)
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    for position in range(1, 30):
        member.commit(offsets=[KafkaPartition(name, 0, position, metadata="note")], asynchronous=False)
    for number, committed in enumerate((True, False)):
        producer = transactional(cluster.bootstrap, "none")
        producer.begin_transaction()
        offsets = [KafkaPartition(name, 1, 100 + number)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 30)
        producer.commit_transaction(30) if committed else producer.abort_transaction(30)
    member.close()
    brokers = Brokers(bootstrap_servers=cluster.bootstrap)
    wait_until(lambda: all(each.stable == each.end for each in log_bounds(brokers, OFFSETS)), 60, "markers")
    bounds = log_bounds(brokers, OFFSETS)
    assert [each.partition for each in bounds] == list(range(10))
    copy = copied(cluster, OFFSETS, tmp_path)
    ends = {each.partition: each.end for each in bounds}
    expected = [row for row in consumed(cluster.bootstrap, OFFSETS) if row[1] < ends[row[0]]]
    ours = [
        row for row in expected if row[3] is not None and group.encode() in row[3] and name.encode() in row[3]
    ]
    assert len(ours) == 30
    assert rows(fetched(spark, brokers, bounds=bounds)) == expected
    found = rows(segments(spark, copy))
    assert [row for row in found if row[1] < ends[row[0]]] == expected


def test_a_missing_topic_and_a_silent_broker_are_one_sentence(spark: SparkSession, cluster) -> None:
    """Neither is an empty frame."""
    with pytest.raises(Rejected, match=r"topic .nowhere. does not exist at 127\.0\.0\.1"):
        fetched(spark, Brokers(bootstrap_servers=cluster.bootstrap), topic="nowhere")
    with pytest.raises(Transient, match="does not answer"):
        fetched(spark, Brokers(bootstrap_servers="127.0.0.1:1", timeout_s=1.0))
