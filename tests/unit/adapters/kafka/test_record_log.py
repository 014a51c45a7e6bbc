"""A log that cannot be asked at all proves nothing, and says why without its secrets."""

from __future__ import annotations

import pytest

from groupshift.domain.partitions import TopicPartition


@pytest.mark.parametrize(
    "properties",
    [
        {"no.such.key": "1"},
        {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "NONE", "sasl.password": "hunter2-hunter2"},
    ],
)
def test_f02_a_log_that_cannot_be_asked_is_not_proven(properties: dict[str, str]) -> None:
    """The client refuses its own properties; each gap says so, and none is lost or proven."""
    from groupshift.adapters.kafka.record_log import KafkaRecordLog
    from groupshift.domain.log_gaps import Gap, LogAnswer
    from groupshift.domain.modes import Isolation

    gaps = [
        Gap(partition=TopicPartition("orders", 0), start=4, end=6, isolation=level) for level in Isolation
    ]
    read = KafkaRecordLog("127.0.0.1:1", properties, timeout_s=1).read(gaps)
    assert [each.answer for each in read] == [LogAnswer.NOT_PROVEN] * len(gaps)
    assert [each.gap for each in read] == gaps
    assert all(each.problem and "hunter2" not in each.reason for each in read)
