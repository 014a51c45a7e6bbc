"""The log of a real broker, asked about offsets that nobody was given."""

from __future__ import annotations

from collections.abc import Callable

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
