"""The topics in a member's subscription bytes, the partitions in its assignment bytes."""

from __future__ import annotations

import struct

import pytest

from groupshift.adapters.kafka.rows import assigned_partitions, subscribed_topics
from groupshift.domain.partitions import TopicPartition


def text(value: str) -> bytes:
    """A string of Kafka's protocol."""
    return struct.pack(">h", len(value)) + value.encode()


def encoded(*topics: str, version: int = 1, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    """ConsumerProtocolSubscription bytes."""
    return struct.pack(">hi", version, len(topics)) + b"".join(text(topic) for topic in topics) + tail


def assigned(tail: bytes = b"\xff\xff\xff\xff", **topics: list[int]) -> bytes:
    """ConsumerProtocolAssignment bytes."""
    parts = [text(name) + struct.pack(f">i{len(held)}i", len(held), *held) for name, held in topics.items()]
    return struct.pack(">hi", 1, len(topics)) + b"".join(parts) + tail


def test_topics_are_read_whatever_follows_them() -> None:
    """Later versions append owned partitions, generation and rack."""
    assert subscribed_topics(encoded("orders", "clicks", version=3, tail=b"anything")) == ("clicks", "orders")


def test_partitions_are_read_whatever_follows_them() -> None:
    """Those of every topic, of which one may have none."""
    found = assigned_partitions(assigned(tail=b"anything", orders=[0, 7], clicks=[], payments=[2]))
    assert found == {TopicPartition("orders", 0), TopicPartition("orders", 7), TopicPartition("payments", 2)}


def test_a_member_still_joining_has_none() -> None:
    """The coordinator answers empty bytes until the group is stable."""
    assert subscribed_topics(b"") == ()
    assert assigned_partitions(b"") == frozenset()


@pytest.mark.parametrize("cut", [1, 5, 7, 10])
def test_bytes_that_end_too_early_are_refused(cut: int) -> None:
    """Rather than an empty or shortened list of topics."""
    with pytest.raises(ValueError, match="byte"):
        subscribed_topics(encoded("orders")[:cut])


@pytest.mark.parametrize("cut", [1, 5, 10, 15, 19, 23])
def test_an_assignment_that_ends_too_early_is_refused(cut: int) -> None:
    """Rather than a shortened set of partitions."""
    with pytest.raises(ValueError, match="byte"):
        assigned_partitions(assigned(orders=[0, 7])[:cut])
