"""The one place where a record is handed out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from groupshift.consumers.delivery import Delivery
from groupshift.domain.partitions import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass(frozen=True)
class Fetched:
    """A record as the fetcher hands it over."""

    where: TopicPartition
    at: int

    def topic(self) -> str:
        return self.where.topic

    def partition(self) -> int:
        return self.where.partition

    def offset(self) -> int:
        return self.at


def records(where: TopicPartition, *offsets: int) -> list[Fetched]:
    """Records of one partition."""
    return [Fetched(where, at) for at in offsets]


@pytest.fixture
def delivery() -> Delivery:
    """With a lease that holds."""
    made = Delivery(store_on_delivery=True)
    made.change_lease(lambda lease: lease.prove_zookeeper(time.monotonic(), 600.0))
    return made


def opened(delivery: Delivery, **starts: tuple[TopicPartition, int, int]) -> None:
    """Open (partition, stream, start) and arm at once."""
    delivery.open({where: (stream, start) for where, stream, start in starts.values()})()


def test_records_come_in_order_and_move_the_position(delivery: Delivery) -> None:
    """What was delivered is what is committed."""
    opened(delivery, a=(P0, 0, 5))
    delivery.offer(records(P0, 5, 6, 7))
    assert [each.offset() for each in delivery.take(None, 2, 0)] == [5, 6]
    assert delivery.positions() == {P0: 7}
    assert delivery.next_offsets() == {P0: 7}


def test_nothing_is_delivered_after_cutting_off(delivery: Delivery) -> None:
    """Whatever was buffered before."""
    opened(delivery, a=(P0, 0, 0), b=(P1, 0, 0))
    delivery.offer([*records(P0, 0, 1), *records(P1, 0)])
    delivery.cut_off([P0])
    assert [each.where for each in delivery.take(None, 10, 0)] == [P1]
    assert delivery.end([P0]) == {P0: 0}


def test_nothing_is_delivered_without_a_lease(delivery: Delivery) -> None:
    """And the position stays; afterwards it goes on there."""
    opened(delivery, a=(P0, 0, 0))
    delivery.offer(records(P0, 0))
    delivery.change_lease(lambda lease: lease.suspend())
    assert delivery.take(None, 1, 0) == []
    delivery.change_lease(lambda lease: lease.prove_zookeeper(time.monotonic(), 600.0))
    assert [each.offset() for each in delivery.take(None, 1, 0)] == [0]


def test_what_was_fetched_before_the_fetcher_moved_is_refused(delivery: Delivery) -> None:
    """Records of the former position would leave a gap or come twice."""
    arm = delivery.open({P0: (0, 105)})
    delivery.offer(records(P0, 108))
    arm()
    delivery.offer(records(P0, 104, 105, 106))
    assert [each.offset() for each in delivery.take(None, 10, 0)] == [105, 106]


def test_streams_see_their_own_partitions_and_the_parent_sees_all(delivery: Delivery) -> None:
    """A record goes to one reader only."""
    opened(delivery, a=(P0, 0, 0), b=(P1, 1, 0))
    delivery.offer([*records(P0, 0), *records(P1, 0, 1)])
    assert [each.where for each in delivery.take(1, 1, 0)] == [P1]
    assert [each.where for each in delivery.take(0, 5, 0)] == [P0]
    assert [each.offset() for each in delivery.take(None, 5, 0)] == [1]


def test_a_reader_is_busy_until_it_comes_back(delivery: Delivery) -> None:
    """A hand-over waits for it, within a bound."""
    opened(delivery, a=(P0, 0, 0))
    delivery.offer(records(P0, 0))
    delivery.take(0, 1, 0)
    assert delivery.busy([P0])
    assert not delivery.busy([P1])
    delivery.take(0, 1, 0)
    assert not delivery.busy([P0])


def test_a_waiting_reader_is_woken(delivery: Delivery) -> None:
    """By a record, and by closing."""
    opened(delivery, a=(P0, 0, 0))
    taken: list[object] = []
    reader = threading.Thread(target=lambda: taken.extend(delivery.take(None, 1, 30)))
    reader.start()
    delivery.offer(records(P0, 0))
    reader.join(20)
    assert len(taken) == 1
    delivery.close()
    with pytest.raises(RuntimeError):
        delivery.take(None, 1, 30)


def test_a_paused_partition_goes_on_where_it_was(delivery: Delivery) -> None:
    """Its buffered records are dropped: only what is fetched anew from the position is handed out, also to a
    reader on another thread that fetched some more meanwhile."""
    again: dict[TopicPartition, int] = {}
    arms: list[Callable[[], None]] = []
    opened(delivery, a=(P0, 0, 0))
    delivery.offer(records(P0, 0, 1))
    delivery.pause([P0], lambda _: None)
    assert delivery.take(None, 5, 0) == []
    delivery.resume([P0], lambda starts, arm: (again.update(starts), arms.append(arm)))
    assert again == {P0: 0}
    delivery.offer(records(P0, 2))
    assert delivery.take(None, 5, 0) == []
    arms[0]()
    delivery.offer(records(P0, 0, 1))
    assert [each.offset() for each in delivery.take(None, 5, 0)] == [0, 1]


def test_pausing_leaves_alone_what_is_given_up(delivery: Delivery) -> None:
    """A hand-over may come between: the others go on all the same, at their positions."""
    asked: list[object] = []
    opened(delivery, a=(P0, 0, 0), b=(P1, 0, 0))
    delivery.pause([P0, P1], asked.append)
    delivery.end([P0])
    delivery.resume([P0, P1], lambda starts, _: asked.append(starts))
    delivery.pause([P0], asked.append)
    assert asked == [[P0, P1], {P1: 0}]


def test_records_of_a_partition_that_is_not_open_are_refused(delivery: Delivery) -> None:
    """Whatever the fetcher fetches."""
    opened(delivery, a=(P0, 0, 0))
    delivery.offer([*records(P1, 7), *records(P0, 0)], {P0: 1, P1: 8})
    assert [each.where for each in delivery.take(None, 5, 0)] == [P0]


def test_a_reader_that_polls_is_done_with_what_it_was_given_before(delivery: Delivery) -> None:
    """Also when the next record is at hand; and it may do with its list what it likes."""
    opened(delivery, a=(P0, 0, 0), b=(P1, 0, 0))
    delivery.offer([*records(P0, 0), *records(P1, 0)], {P0: 1, P1: 1})
    delivery.take(None, 1, 0)
    assert delivery.next() is not None
    assert delivery.busy([P1])
    assert not delivery.busy([P0])
    delivery.offer(records(P0, 1), {P0: 2, P1: 1})
    delivery.take(None, 5, 0).clear()
    assert delivery.busy([P0])


def test_positions_can_be_left_to_the_application() -> None:
    """With automatic storing off only `store` moves what is committed."""
    delivery = Delivery(store_on_delivery=False)
    delivery.change_lease(lambda lease: lease.prove_zookeeper(time.monotonic(), 600.0))
    opened(delivery, a=(P0, 0, 3))
    delivery.offer(records(P0, 3))
    delivery.take(None, 1, 0)
    assert delivery.positions() == {P0: 3}
    assert delivery.store({P0: 4, P1: 1}) == [P1]
    assert delivery.end([P0]) == {P0: 4}
