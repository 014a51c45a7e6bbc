"""The five questions of an observer in Kafka's protocol, each asked in one round.

Versions are the newest whose form all brokers since 0.11 share (Kafka's message definitions).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from kafka.errors import UnknownTopicOrPartitionError
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetSpec

from groupshift.adapters.kafka.session import Requests, raise_for
from groupshift.domain.group import LogEnd
from groupshift.domain.partitions import TopicPartition

_LEADER_NOT_AVAILABLE = 5


def describe(requests: Requests, group: str, coordinator: Any) -> Awaitable[Any]:
    """Ask for state and members."""
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, max_version=5)
    return requests.send(request, coordinator)


def described(group: str, answer: Any) -> Any:
    """The group in the coordinator's answer. Raises the error that it carries."""
    (found,) = [each for each in answer.groups if each.group_id == group]
    raise_for(found.error_code, f"group {group!r} is not described")
    return found


def fetch_offsets(
    requests: Requests, group: str, coordinator: Any, partitions: Sequence[TopicPartition] | None
) -> Awaitable[Any]:
    """Ask for committed offsets: of these partitions, or of all that have one."""
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in _by_topic(partitions).items()
        ]
    request = OffsetFetchRequest(
        group_id=group, topics=topics, require_stable=False, min_version=2, max_version=7
    )
    return requests.send(request, coordinator)


def fetched(group: str, answer: Any) -> Mapping[TopicPartition, Any]:
    """Offset, metadata and error code of each partition. Raises the error of the whole answer."""
    raise_for(answer.error_code, f"offsets of group {group!r} are not given")
    return {
        TopicPartition(topic.name, each.partition_index): each
        for topic in answer.topics
        for each in topic.partitions
    }


async def groups(requests: Requests) -> frozenset[str]:
    """The groups that any broker lists."""
    sent = [requests.send(ListGroupsRequest(max_version=3), node) for node in requests.brokers()]
    listed: set[str] = set()
    for waiting in sent:
        answer = await waiting
        raise_for(answer.error_code, "groups are not listed")
        listed |= {each.group_id for each in answer.groups}
    return frozenset(listed)


async def log_ends(requests: Requests, partitions: Sequence[TopicPartition]) -> tuple[LogEnd, ...]:
    """Log start and end of each partition, from its leader."""
    topics = await requests.topics()
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for at in partitions:
        if at.partition not in topics.get(at.topic, {}):
            raise UnknownTopicOrPartitionError(str(at))
        leader = topics[at.topic][at.partition]
        raise_for(_LEADER_NOT_AVAILABLE if leader < 0 else 0, str(at))
        led[leader].append(at)
    sent = [
        (spec, requests.send(list_offsets(led[leader], spec), leader))
        for leader in led
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
    ]
    found: dict[Any, dict[TopicPartition, int]] = defaultdict(dict)
    for spec, waiting in sent:
        found[spec] |= _offsets(await waiting)
    starts, ends = found[OffsetSpec.EARLIEST], found[OffsetSpec.LATEST]
    return tuple(LogEnd(partition=at, start=starts[at], end=ends[at]) for at in sorted(partitions))


def list_offsets(partitions: Sequence[TopicPartition], spec: Any) -> Any:
    """The question for log starts or ends (``spec``) of partitions that one broker leads."""
    topic, partition = (
        ListOffsetsRequest.ListOffsetsTopic,
        ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
    )
    topics = [
        topic(name=name, partitions=[partition(partition_index=number, timestamp=spec) for number in numbers])
        for name, numbers in _by_topic(partitions).items()
    ]
    return ListOffsetsRequest(isolation_level=0, topics=topics, min_version=1, max_version=5)


def _offsets(answer: Any) -> dict[TopicPartition, int]:
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            at = TopicPartition(topic.name, each.partition_index)
            raise_for(each.error_code or (_LEADER_NOT_AVAILABLE if each.offset < 0 else 0), str(at))
            found[at] = each.offset
    return found


def _by_topic(partitions: Sequence[TopicPartition]) -> Mapping[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for at in partitions:
        numbers[at.topic].append(at.partition)
    return numbers
