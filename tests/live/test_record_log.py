"""The log of a real broker, asked about offsets that nobody was given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from groupshift.domain.partitions import TopicPartition


def test_f02_a_broker_tells_records_from_markers_and_aborted_ones(
    cluster, topic: Callable[[int], str]
) -> None:
    """Committed, aborted, committed, open: offsets 0, 2, 4 and 6, with markers behind the first three."""
    from groupshift.adapters.kafka.record_log import KafkaRecordLog
    from groupshift.domain.log_gaps import Gap, Isolation

    at = TopicPartition(topic(1), 0)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": at.topic, "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(60)
    for ends in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(at.topic, b"record", partition=0)
        producer.flush(30)
        ends(30)
    producer.begin_transaction()
    producer.produce(at.topic, b"open", partition=0)
    producer.flush(30)
    wanted = {
        (Isolation.READ_COMMITTED, 0, 1): "lost",
        (Isolation.READ_COMMITTED, 1, 2): "nothing",
        (Isolation.READ_COMMITTED, 1, 4): "nothing",
        (Isolation.READ_COMMITTED, 3, 5): "lost",
        (Isolation.READ_COMMITTED, 5, 6): "nothing",
        (Isolation.READ_COMMITTED, 5, 7): "not proven",
        (Isolation.READ_UNCOMMITTED, 1, 2): "nothing",
        (Isolation.READ_UNCOMMITTED, 1, 4): "lost",
        (Isolation.READ_UNCOMMITTED, 3, 4): "nothing",
        (Isolation.READ_UNCOMMITTED, 5, 7): "lost",
    }
    log = KafkaRecordLog(cluster.bootstrap, {}, timeout_s=60)
    gaps = [Gap(partition=at, start=start, end=end, isolation=level) for level, start, end in wanted]
    found = {(each.gap.isolation, each.gap.start, each.gap.end): each for each in log.read(gaps)}
    told = {key: (each.answer.value, each.reason) for key, each in found.items()}
    assert {key: answer for key, (answer, _) in told.items()} == wanted, told
    (gone,) = KafkaRecordLog(cluster.bootstrap, {}, timeout_s=5).read(
        [Gap(partition=TopicPartition("never-there", 0), start=0, end=3)]
    )
    assert gone.answer == "not proven"
    producer.abort_transaction(30)


def test_f02_every_marker_of_a_log_of_transactions_is_told_in_one_pass(
    cluster, topic: Callable[[int], str]
) -> None:
    """A hundred transactions leave a hundred gaps: none is a loss, and the partition is assigned once. What
    lies far behind them is fetched anew, without what is between."""
    from groupshift.adapters.kafka import record_log
    from groupshift.domain.log_gaps import Gap

    at = TopicPartition(topic(1), 0)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": at.topic, "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(60)
    for records in (*[1] * 100, 3_000, 1):
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(at.topic, b"record", partition=0)
        producer.commit_transaction(60)
    assigned: list[int] = []

    class Counting(record_log.Consumer):
        def assign(self, partitions: list) -> None:
            assigned.append(partitions[0].offset)
            super().assign(partitions)

    far = [Gap(partition=at, start=3_200, end=3_201), Gap(partition=at, start=3_201, end=3_203)]
    gaps = [*far, *(Gap(partition=at, start=marker, end=marker + 1) for marker in range(1, 200, 2))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_log, "Consumer", Counting)
        read = record_log.KafkaRecordLog(cluster.bootstrap, {}, timeout_s=60).read(gaps)
    assert [each.gap for each in read] == gaps
    lost = [each.gap for each in read if each.answer.value != "nothing"]
    assert lost == far[1:], [each.reason for each in read]
    assert assigned == [1, 3_200]
