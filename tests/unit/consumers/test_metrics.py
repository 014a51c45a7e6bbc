"""Metrics as a dictionary, as text, and over HTTP."""

from __future__ import annotations

import http.client

import pytest

from groupshift.consumers.metrics import (
    ConsumerStatus,
    Counters,
    MetricsEndpoint,
    prometheus,
    statistics,
)
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected


@pytest.fixture
def stats():
    """A consumer in Kafka mode that owns two partitions."""
    counters = Counters()
    counters.kafka_commits, counters.rebalances, counters.rebalance_s = 7, 2, 0.5
    held = frozenset({TopicPartition("a-b", 0), TopicPartition("t", 1)})
    status = ConsumerStatus(mode=Mode.KAFKA, owned=held, lag={TopicPartition("a-b", 0): 3}, alarms=("look",))
    names = {"client_id": "app", "group_id": "g", "consumer_id": 'g_"1"'}
    return statistics(names, status, counters, assigned=2, queued=5)


def get(port, path):
    """Status, content type and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read()


def test_the_dictionary_has_the_metrics_of_the_specification(stats) -> None:
    """§8.8, with the labels that the reference lacks."""
    assert stats["active_kafka_coordination_count"] == 1
    assert stats["kafka_owned_partitions_count"] == 2
    assert stats["owned_partitions_by_topic"] == {"a-b": 1, "t": 1}
    assert (stats["rebalances"], stats["rebalance_seconds"]) == (2, 0.5)
    assert (stats["kafka_commits"], stats["zookeeper_commits"], stats["fetch_queue_size"]) == (7, 0, 5)
    assert (stats["lag"], stats["alarms"]) == ({"a-b-0": 3}, ["look"])


def test_the_text_is_what_prometheus_reads(stats) -> None:
    """Help and type before each family, labels escaped, counters with their suffix."""
    lines = prometheus(stats).splitlines()
    labels = 'client_id="app",group_id="g",consumer_id="g_\\"1\\""'
    assert f"groupshift_consumer_active_kafka_coordination_count{{{labels}}} 1" in lines
    assert f"groupshift_consumer_kafka_commits_total{{{labels}}} 7" in lines
    assert f'groupshift_consumer_lag_records{{{labels},topic="a-b",partition="0"}} 3' in lines
    assert f"groupshift_consumer_alarms{{{labels}}} 1" in lines
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    assert all(line.startswith("#") or line.split("{")[0] in families for line in lines)


def test_the_endpoint_serves_until_it_is_closed() -> None:
    """On 127.0.0.1; only /metrics; a port that is taken is refused with its number."""
    endpoint = MetricsEndpoint(0, lambda: "x 1\n")
    assert get(endpoint.port, "/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", b"x 1\n")
    assert get(endpoint.port, "/")[0] == 404
    with pytest.raises(Rejected, match=str(endpoint.port)):
        MetricsEndpoint(endpoint.port, str)
    endpoint.close()
    with pytest.raises(ConnectionRefusedError):
        get(endpoint.port, "/metrics")
