"""The assignment of a whole Kafka group by thread."""

from __future__ import annotations

import struct

import pytest

from groupshift.domain.assignment import kafka_threads
from groupshift.domain.group_protocol import KafkaMember
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.log.decode import parse_assignment

A, B, C = "g_h1-1000-aaaaaaaa", "g_h2-2000-bbbbbbbb", "g_h3-3000-cccccccc"
PLAIN = "consumer-1-7f6a"


def member(client: str, member_id: str, **held: tuple[int, ...]) -> KafkaMember:
    """A member that holds some partitions."""
    return KafkaMember(
        member_id=member_id,
        client_id=client,
        host="",
        assigned=frozenset(TopicPartition(topic, n) for topic, numbers in held.items() for n in numbers),
    )


def test_scenario_03_thread_map() -> None:
    """The worked example of §8.7."""
    members = [
        member(A, f"{A}-uuid", t1=(0, 3, 4), t2=(1, 2)),
        member(B, f"{B}-uuid", t1=(1, 5), t2=(0, 3)),
        member("consumer-1", PLAIN, t1=(2,), t2=(4,)),
    ]
    threads = kafka_threads(members, {A: {"t1": 2, "t2": 2}, B: {"t1": 3, "t2": 1}})
    by_thread: dict[str, list[str]] = {}
    for each, thread in sorted(threads.items()):
        by_thread.setdefault(thread, []).append(str(each))
    assert by_thread == {
        f"{A}-0": ["t1-0", "t1-4", "t2-2"],
        f"{A}-1": ["t1-3", "t2-1"],
        f"{B}-0": ["t1-1", "t2-0", "t2-3"],
        f"{B}-1": ["t1-5"],
        f"{PLAIN}-0": ["t1-2", "t2-4"],
    }


def test_scenario_03_threads_are_in_string_order() -> None:
    """Thread 10 comes before thread 2."""
    threads = kafka_threads([member(C, C, t1=(2, 4, 6, 8))], {C: {"t1": 11}})
    assert [threads[TopicPartition("t1", n)].removeprefix(C) for n in (2, 4, 6, 8)] == [
        "-0",
        "-1",
        "-10",
        "-2",
    ]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_is_read_in_every_version(version: int) -> None:
    """They differ in what follows."""
    topics = b"".join(
        struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers)
        for name, numbers in ((b"t", (0, 2)), (b"empty", ()))
    )
    data = struct.pack(">hi", version, 2) + topics + struct.pack(">i", -1)
    assert parse_assignment(data) == {TopicPartition("t", 0), TopicPartition("t", 2)}


@pytest.mark.parametrize(
    "data", [b"\0", b"\0\0\0\0\0\1\0\5ab", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1\0\1\xff\0\0\0\0"]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    """Never read as nothing."""
    with pytest.raises(Rejected, match="assignment"):
        parse_assignment(data)


def test_a_member_without_assignment_holds_nothing() -> None:
    """As DescribeGroups answers while the group rebalances, and as a client may write it."""
    assert parse_assignment(b"") == frozenset()
    assert parse_assignment(b"\0\0" + b"\xff" * 8) == frozenset()
