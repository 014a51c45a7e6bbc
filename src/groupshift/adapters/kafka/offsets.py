"""Log starts and ends of partitions that many groups share; one that cannot be read spoils no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.errors import for_code
from kafka.protocol.consumer import OffsetSpec

from groupshift.adapters.kafka.protocol import list_offsets
from groupshift.adapters.kafka.session import Requests
from groupshift.domain.group import LogEnd
from groupshift.domain.partitions import TopicPartition

_LEADER_NOT_AVAILABLE = 5
_NO_EPOCH = -1


async def ends_of(
    requests: Requests, partitions: Sequence[TopicPartition], leaders: Mapping[str, Mapping[int, int]]
) -> tuple[dict[TopicPartition, LogEnd], list[str]]:
    """Start and end by partition, and a sentence about each partition without an answer of its leader."""
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    failed: dict[TopicPartition, int] = {}
    for at in partitions:
        leader = leaders.get(at.topic, {}).get(at.partition, -1)
        if leader < 0:
            failed[at] = _LEADER_NOT_AVAILABLE
        else:
            led[leader].append(at)
    sent = [
        (spec, requests.send(list_offsets(asked, spec), leader))
        for leader, asked in led.items()
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
    ]
    found: dict[Any, dict[TopicPartition, int]] = defaultdict(dict)
    epochs: dict[TopicPartition, int] = {}
    for spec, waiting in sent:
        for at, offset, epoch, code in _each(await waiting):
            if code or offset < 0:
                failed[at] = code or _LEADER_NOT_AVAILABLE
            else:
                found[spec][at] = offset
                epochs[at] = max(epoch, epochs.get(at, _NO_EPOCH))
    starts, ends = found[OffsetSpec.EARLIEST], found[OffsetSpec.LATEST]
    known = {
        at: LogEnd(partition=at, start=starts[at], end=ends[at], leader_epoch=epochs[at])
        for at in starts
        if at in ends
    }
    return known, [_sentence(at, code) for at, code in sorted(failed.items())]


def _each(answer: Any) -> list[tuple[TopicPartition, int, int, int]]:
    """Partition, offset, leader epoch (brokers before 2.1 tell none) and error code."""
    return [
        (TopicPartition(topic.name, each.partition_index), each.offset, _epoch(each), each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]


def _epoch(answer: Any) -> int:
    found = getattr(answer, "leader_epoch", None)
    return _NO_EPOCH if found is None else int(found)


def _sentence(at: TopicPartition, code: int) -> str:
    return (
        f"the log end of {at} cannot be read ({for_code(code).__name__}): its lag is unknown; "
        "check the partition's leader"
    )
