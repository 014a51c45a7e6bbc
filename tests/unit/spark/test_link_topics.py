"""The topics of a link, at brokers that answer without a socket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.links.mirrormaker import OffsetSync, encode_sync
from groupshift.links.proven_positions import PositionKey, ProvenPosition, encode_position
from groupshift.links.sync_log import SyncLogPosition
from groupshift.links.translation import Certainty
from groupshift.spark import link_topics
from groupshift.spark.broker_source import Brokers
from groupshift.spark.link_topics import KafkaProvenPositions, KafkaSyncLog
from support.batch_encoder import TRANSACTIONAL, Record, batch, marker
from support.fake_brokers import FakeLog, FakeWorld

TOPIC = "mm2-offset-syncs.B.internal"
AT = TopicPartition(TOPIC, 0)


@dataclass(slots=True)
class Place:
    """What stands for `Brokers`."""

    world: FakeWorld
    bootstrap_servers: str = "source:9092"
    properties: dict[str, str] = field(default_factory=dict)

    def cluster(self) -> KafkaCluster:
        """Connections to the fake brokers."""
        return self.world.observer(1.0)


def place(log: FakeLog, topic: str = TOPIC) -> Brokers:
    """Brokers that have one topic."""
    world = FakeWorld(topics={topic: [1]}, logs={TopicPartition(topic, 0): log})
    return cast("Brokers", Place(world))


def sync(offset: int, upstream: int) -> Record:
    """An offset sync of orders-3."""
    key, value = encode_sync(
        OffsetSync(topic="orders", partition=3, upstream=upstream, downstream=upstream - 1)
    )
    return Record(offset=offset, timestamp_ms=offset, key=key, value=value)


def test_the_tail_is_read_from_a_position_to_the_last_stable_offset() -> None:
    """Aborted syncs, as of an exactly-once MirrorMaker, count for nothing; nor does an open transaction."""
    log = FakeLog(
        batches=[
            (0, 1, batch([sync(0, 10), sync(1, 20)])),
            (2, 2, batch([sync(2, 30)], attributes=TRANSACTIONAL, producer=7)),
            (3, 3, marker(3, 7, commit=False)),
            (4, 4, batch([sync(4, 40)])),
            (5, 5, batch([sync(5, 50)], attributes=TRANSACTIONAL, producer=7)),
            (6, 6, batch([sync(6, 60)])),
        ],
        aborted=[(7, 2, 3)],
        stable=5,
        end=7,
    )
    tail = KafkaSyncLog(place(log), TOPIC)
    read = tail.read(SyncLogPosition(next_offset=1))
    assert [(str(at), each.upstream) for at, each in read.syncs if not isinstance(each, int)] == [
        ("orders-3", 20),
        ("orders-3", 40),
    ]
    assert (read.position.next_offset, read.has_more) == (5, False)
    assert tail.read(read.position).syncs == ()
    assert tail.log_end(read.position) == 7
    log.batches.append((7, 7, marker(7, 7, commit=True)))
    log.stable = log.end = 8
    assert [each.upstream for _, each in tail.read(read.position).syncs if not isinstance(each, int)] == [
        50,
        60,
    ]


def test_a_long_topic_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each says where to go on."""
    monkeypatch.setattr(link_topics, "_AT_ONCE", 4)
    log = FakeLog(batches=[(at, at, batch([sync(at, 10 * at + 9)])) for at in range(9)], stable=9, end=9)
    tail, position, parts = KafkaSyncLog(place(log), TOPIC), SyncLogPosition(), list[int]()
    while True:
        read = tail.read(position)
        position = read.position
        parts.append(len(read.syncs))
        if not read.has_more:
            break
    assert parts == [4, 4, 1]


def test_a_topic_that_is_not_there_is_refused_with_what_may_be_wrong() -> None:
    """One sentence."""
    with pytest.raises(Rejected, match=r"source:9092.*sync_location.*aliases"):
        KafkaSyncLog(place(FakeLog()), "mm2-offset-syncs.other.internal").read(SyncLogPosition())


def test_positions_are_read_from_the_topic_alone() -> None:
    """The last of each key; and none where there is no topic yet."""
    position = ProvenPosition(
        source_topic="orders",
        source_offset=5,
        target_offset=4,
        source_topic_id="",
        target_topic_id="",
        certainty=Certainty.EXACT_PROVEN,
        proven_at_ms=1,
    )
    key = PositionKey("g", "A.orders", 0)
    records = [encode_position(key, position), encode_position(PositionKey("gone", "A.orders", 0), None)]
    written = [Record(offset=n, timestamp_ms=0, key=k, value=v) for n, (k, v) in enumerate(records)]
    log = FakeLog(batches=[(0, 1, batch(written))], stable=2, end=2)
    assert KafkaProvenPositions(place(log, "positions"), "positions").read().positions == {key: position}
    assert KafkaProvenPositions(place(log, "other"), "positions").read().positions == {}
