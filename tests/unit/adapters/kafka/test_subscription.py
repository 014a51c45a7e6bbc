"""The topics in a member's subscription bytes."""

from __future__ import annotations

import struct

import pytest

from groupshift.adapters.kafka.subscription import subscribed_topics


def encoded(*topics: str, version: int = 1, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    """ConsumerProtocolSubscription bytes."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + tail


def test_topics_are_read_whatever_follows_them() -> None:
    """Later versions append owned partitions, generation and rack."""
    assert subscribed_topics(encoded("orders", "clicks", version=3, tail=b"anything")) == ("clicks", "orders")


def test_a_member_still_joining_has_none() -> None:
    """The coordinator answers empty bytes until the group is stable."""
    assert subscribed_topics(b"") == ()


@pytest.mark.parametrize("cut", [1, 5, 7, 10])
def test_bytes_that_end_too_early_are_refused(cut: int) -> None:
    """Rather than an empty or shortened list of topics."""
    with pytest.raises(ValueError, match="byte"):
        subscribed_topics(encoded("orders")[:cut])
