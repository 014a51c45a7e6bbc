"""A consumer's metrics: one dictionary, and the same as Prometheus text.

The names follow the JMX names of the old consumer and of KIP-125 (specs/zookeeper-coordination.md §8.8);
unlike those, each carries client, group and consumer id, and they are gone when the consumer is closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.consumers.counters import Counters
from groupshift.consumers.streams import ConsumerStatus
from groupshift.domain.modes import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the dictionary is made of; ``queued`` are records fetched and not handed out."""

    client_id: str
    group_id: str
    consumer_id: str
    status: ConsumerStatus
    counters: Counters
    assigned: int
    queued: int


def statistics(observed: Observed) -> dict[str, Any]:
    """Plain values only; docs/consumers.md lists them."""
    status, counters = observed.status, observed.counters
    return {
        "client_id": observed.client_id,
        "group_id": observed.group_id,
        "consumer_id": observed.consumer_id,
        "mode": None if status.mode is None else status.mode.value,
        "active_kafka_coordination_count": int(status.mode is Mode.KAFKA),
        "kafka_owned_partitions_count": observed.assigned,
        "owned_partitions_count": len(status.owned),
        "owned_partitions_by_topic": dict(sorted(Counter(each.topic for each in status.owned).items())),
        "rebalances": counters.rebalances,
        "rebalance_seconds": counters.rebalance_s,
        "kafka_commits": counters.kafka_commits,
        "zookeeper_commits": counters.zookeeper_commits,
        "old_members_woken": counters.woken,
        "fetch_queue_size": observed.queued,
        "lag": {str(each): behind for each, behind in sorted(status.lag.items())},
        "alarms": list(status.alarms),
    }


_SAMPLES = (
    ("active_kafka_coordination_count", "gauge", "1 while the Kafka group decides, 0 while ZooKeeper does"),
    ("kafka_owned_partitions_count", "gauge", "partitions that the Kafka group assigned to this member"),
    ("owned_partitions_count", "gauge", "partitions whose owner node this member holds"),
    ("rebalances", "counter", "times that what is held was brought to what should be"),
    ("rebalance_seconds", "counter", "time that took in all"),
    ("kafka_commits", "counter", "offsets committed to Kafka"),
    ("zookeeper_commits", "counter", "offsets committed to ZooKeeper"),
    ("old_members_woken", "counter", "times that stuck old members were woken"),
    ("fetch_queue_size", "gauge", "records fetched and not yet handed out"),
)


def prometheus(stats: Mapping[str, Any]) -> str:
    """The text format, version 0.0.4; ends with a line end."""
    return "\n".join(_lines(stats)) + "\n"


def _lines(stats: Mapping[str, Any]) -> Iterator[str]:
    labels = {name: stats[name] for name in ("client_id", "group_id", "consumer_id")}
    for name, kind, text in _SAMPLES:
        full = f"groupshift_consumer_{name}{'_total' if kind == 'counter' else ''}"
        yield from _head(full, kind, text)
        yield _sample(full, labels, stats[name])
    topics = "groupshift_consumer_topic_owned_partitions_count"
    yield from _head(topics, "gauge", "the same by topic")
    for topic, count in stats["owned_partitions_by_topic"].items():
        yield _sample(topics, {**labels, "topic": topic}, count)
    lag = "groupshift_consumer_lag_records"
    yield from _head(lag, "gauge", "records between the next one to deliver and the log end")
    for where, behind in stats["lag"].items():
        topic, _, number = where.rpartition("-")
        yield _sample(lag, {**labels, "topic": topic, "partition": number}, behind)
    alarms = "groupshift_consumer_alarms"
    yield from _head(alarms, "gauge", "conditions that people have to look at; the log has the sentences")
    yield _sample(alarms, labels, len(stats["alarms"]))


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{written}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
