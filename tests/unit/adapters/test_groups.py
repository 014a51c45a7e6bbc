"""A view of two stores is of one time, however late one of them answered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pytest

from groupshift.adapters.groups import LiveGroupReader
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import KafkaGroup
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift_testing.clock import ManualClock

AT = TopicPartition("orders", 0)


@dataclass
class Stores:
    """Both commit ten records a second; Kafka's answer takes each of these times (s), then none."""

    clock: ManualClock
    late_s: list[float]
    begun_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.begun_ms = self.clock.now_ms()

    def offset(self) -> OffsetRow:
        """What is committed now."""
        return OffsetRow(group="g", **AT._asdict(), offset=(self.clock.now_ms() - self.begun_ms) // 100)

    def close(self) -> None:
        """Nothing is open."""


class Nodes(Stores):
    """ZooKeeper's half."""

    def observe(self, group: str) -> GroupView:
        """See the port."""
        assert group == "g"
        return GroupView(group="g", exists=True, zookeeper_offsets=(self.offset(),))


class Brokers(Stores):
    """Kafka's half."""

    def observe(self, group: str, embedded: Collection[str] = ()) -> GroupView:
        """See the port."""
        assert (group, embedded) == ("g", ())
        self.clock.sleep(self.late_s.pop(0) if self.late_s else 0.0)
        group = KafkaGroup(state="Stable")
        return GroupView(group="g", kafka=group, topics={"orders": 1}, kafka_offsets=(self.offset(),))

    def positions(self, view: GroupView, partitions: Sequence[TopicPartition]) -> GroupView:
        """See the port."""
        assert (view.group, list(partitions)) == ("g", [AT])
        assert [row.at for row in view.kafka_offsets] == [AT]
        return view


@pytest.mark.parametrize(
    ("late_s", "apart"),
    [([], 0), ([1.0], 10), ([30.0], 0), ([30.0, 20.0], 0), ([30.0, 20.0, 10.0], 100), ([30.0] * 9, 300)],
)
def test_what_came_too_late_is_read_again(late_s: list[float], apart: int) -> None:
    """A stall makes no difference between the stores, unless each of three readings meets one; a cluster that
    is no faster the second time is not asked a third."""
    clock = ManualClock()
    view = LiveGroupReader(Nodes(clock, []), Brokers(clock, late_s), clock).read("g")
    (node,), (kafka,) = view.zookeeper_offsets, view.kafka_offsets
    assert kafka.offset - node.offset in {apart, apart + 1}
