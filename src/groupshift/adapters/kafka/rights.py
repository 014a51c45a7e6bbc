"""Whether the tool's identity may see a group and all its topics.

A broker leaves out of its lists what this user may not see, without a word: topics, groups and committed
offsets. Asked for by name it says that it refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from kafka.protocol.metadata import MetadataRequest

from groupshift.adapters.kafka import protocol
from groupshift.adapters.kafka.connection import KafkaConnection
from groupshift.adapters.kafka.session import Requests
from groupshift.ports.cluster import Identity, Server


class KafkaRights:
    """Asks and changes nothing."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def identity(self, group: str, topics: Sequence[str]) -> Identity:
        """Describe on the group and on each topic. Raises as `KafkaConnection.call`."""

        async def work(requests: Requests) -> tuple[str, ...]:
            return (*await _group(requests, group), *await _topics(requests, topics))

        missing = self._connection.call(work)
        return Identity(server=Server.KAFKA, who=self._connection.who, missing=missing)


async def _group(requests: Requests, group: str) -> tuple[str, ...]:
    try:
        coordinator = await requests.coordinator(group)
        protocol.described(group, await protocol.describe(requests, group, coordinator))
        protocol.fetched(group, await protocol.fetch_offsets(requests, group, coordinator, None))
    except GroupAuthorizationFailedError:
        return (f"Describe group {group}",)
    return ()


async def _topics(requests: Requests, topics: Sequence[str]) -> tuple[str, ...]:
    if not topics:
        return ()
    wanted = [MetadataRequest.MetadataRequestTopic(name=each) for each in topics]
    asked = MetadataRequest(topics=wanted, allow_auto_topic_creation=False, min_version=4, max_version=8)
    answer = await requests.send(asked)
    refused = TopicAuthorizationFailedError.errno
    return tuple(f"Describe topic {each.name}" for each in answer.topics if each.error_code == refused)
