"""Brokers without a socket: they answer observers by kio's schemas, in the versions of a release.

Requests are written and answers are read as on the wire. Sources: Apache Kafka's message definitions.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from uuid import UUID

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.wire import Api, Encoded, answer_of, fill, request_frame
from groupshift.domain.partitions import TopicPartition

NEWEST = {
    Api.LIST_OFFSETS: 11, Api.METADATA: 13, Api.OFFSET_FETCH: 10, Api.FIND_COORDINATOR: 6,
    Api.DESCRIBE_GROUPS: 6, Api.LIST_GROUPS: 5,
}  # fmt: skip
"""As of 4.2."""
OLD = {
    Api.LIST_OFFSETS: 2, Api.METADATA: 5, Api.OFFSET_FETCH: 3, Api.FIND_COORDINATOR: 1,
    Api.DESCRIBE_GROUPS: 1, Api.LIST_GROUPS: 1,
}  # fmt: skip
"""As of 1.1."""
UNKNOWN_TOPIC, NO_LEADER, NO_COORDINATOR, NOT_COORDINATOR = 3, 5, 15, 16
TOPIC_REFUSED, GROUP_REFUSED, ABSENT = 29, 30, 69
_AT_ONCE = dt.timedelta(0)


@dataclass(slots=True, kw_only=True)
class FakeGroup:
    """A group at its coordinator; ``offsets`` are offset and metadata, or an error code."""

    node: int = 1
    state: str = "Empty"
    kind: str = "consumer"
    members: list[dict[str, Any]] = field(default_factory=list)
    offsets: dict[TopicPartition, tuple[int, str] | int] = field(default_factory=dict)
    error: int = 0
    silent_about: set[TopicPartition] = field(default_factory=set)
    former: set[TopicPartition] = field(default_factory=set)
    """Committed for a topic of the same name that is gone: by topic id there is no offset."""


@dataclass(slots=True, kw_only=True)
class FakeWorld:
    """Topics with the leader of each partition, groups, and what this user may not see. ``moved`` are groups
    that their coordinator gives away at the next question; ``asked`` counts requests by API."""

    versions: Mapping[Api, int] = field(default_factory=lambda: dict(NEWEST))
    nodes: tuple[int, ...] = (1, 2)
    topics: dict[str, list[int]] = field(default_factory=dict)
    ids: dict[str, UUID] = field(default_factory=dict)
    groups: dict[str, FakeGroup] = field(default_factory=dict)
    hidden_topics: set[str] = field(default_factory=set)
    hidden_groups: set[str] = field(default_factory=set)
    moved: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[int, Api, int]] = field(default_factory=list)

    def observer(self, timeout_s: float = 60.0) -> KafkaCluster:
        """What `groupshift.adapters.kafka.cluster.observer` would return."""
        return _FakeCluster(self, "broker-1:9092", timeout_s=timeout_s, observer=True)

    def answer(self, node: int, request: Any) -> Any:
        """What broker ``node`` says."""
        api = Api(int(request.__api_key__))
        self.asked.append((node, api, int(request.__version__)))
        schema = load_payload_module(api, request.__version__, EntityType.response)
        return _ANSWERS[api](self, node, schema, request)

    def group(self, node: int, name: str) -> tuple[int, FakeGroup | None]:
        """Error code and group as ``node`` knows it; None where there is none."""
        if name in self.hidden_groups:
            return GROUP_REFUSED, None
        known = self.groups.get(name)
        if known is None:
            return 0, None
        if name in self.moved:
            known.node = self.moved.pop(name)
        return (NOT_COORDINATOR, None) if known.node != node else (known.error, known)


class _FakeCluster(KafkaCluster):
    def __init__(self, world: FakeWorld, address: str, **more: Any) -> None:
        super().__init__(address, **more)
        self._world = world

    def _any(self) -> BrokerConnection:
        return self.broker(1)

    def broker(self, node_id: int) -> BrokerConnection:
        if node_id not in self._connections:
            self._connections[node_id] = _FakeBroker(self._world, node_id)
        return self._connections[node_id]


class _FakeBroker(BrokerConnection):
    def __init__(self, world: FakeWorld, node: int) -> None:
        self.address = f"broker-{node}:9092"
        self.versions = {api: range(highest + 1) for api, highest in world.versions.items()}
        self._world, self._node, self.sent, self._bodies = world, node, 0, {}

    def send(self, request: Any) -> int:
        self.sent += 1
        if isinstance(request, Encoded):
            request, _ = entity_reader(type(request.like))(request.body, 0)
        assert request_frame(request, self.sent, "test")
        answer = self._world.answer(self._node, request)
        out, header = io.BytesIO(), answer.__header_schema__
        entity_writer(header)(out, header(correlation_id=self.sent))
        entity_writer(type(answer))(out, answer)
        self._bodies[self.sent] = (request, out.getvalue())
        return self.sent

    def receive(self, correlation: int, *, timeout_s: float | None = None) -> Any:  # noqa: ARG002
        return answer_of(*self._bodies.pop(correlation))[1]

    def close(self) -> None:
        """Nothing to close."""


def _metadata(world: FakeWorld, _node: int, schema: ModuleType, request: Any) -> Any:
    shown = [name for name in world.topics if name not in world.hidden_topics]
    names = shown if request.topics is None else [topic.name for topic in request.topics]
    topics = tuple(
        fill(
            schema.MetadataResponseTopic,
            error_code=ErrorCode(
                TOPIC_REFUSED if name in world.hidden_topics else 0 if name in world.topics else UNKNOWN_TOPIC
            ),
            name=name,
            topic_id=world.ids.get(name),
            partitions=tuple(
                fill(
                    schema.MetadataResponsePartition,
                    error_code=ErrorCode(0 if leader >= 0 else NO_LEADER),
                    partition_index=number,
                    leader_id=leader,
                )
                for number, leader in enumerate(world.topics.get(name, ()) if name in shown else ())
            ),
        )
        for name in names
    )
    brokers = tuple(
        fill(schema.MetadataResponseBroker, node_id=node, host=f"broker-{node}", port=9092)
        for node in world.nodes
    )
    return fill(schema.MetadataResponse, throttle_time=_AT_ONCE, brokers=brokers, topics=topics)


def _coordinator(world: FakeWorld, _node: int, schema: ModuleType, request: Any) -> Any:
    def told(name: str) -> dict[str, Any]:
        known = world.groups.get(name)
        code = GROUP_REFUSED if name in world.hidden_groups else 0
        node = known.node if known else world.nodes[-1]
        place = {"node_id": node, "host": f"broker-{node}", "port": 9092}
        return {"error_code": ErrorCode(code), "error_message": None, **place}

    if hasattr(schema, "Coordinator"):
        keys = request.coordinator_keys
        found = tuple(schema.Coordinator(key=name, **told(name)) for name in keys)
        return fill(schema.FindCoordinatorResponse, throttle_time=_AT_ONCE, coordinators=found)
    return fill(schema.FindCoordinatorResponse, throttle_time=_AT_ONCE, **told(request.key))


def _listed(world: FakeWorld, node: int, schema: ModuleType, _request: Any) -> Any:
    groups = tuple(
        fill(
            schema.ListedGroup,
            group_id=name,
            protocol_type=group.kind,
            group_state=group.state,
            group_type="classic",
        )
        for name, group in world.groups.items()
        if group.node == node and name not in world.hidden_groups
    )
    return fill(schema.ListGroupsResponse, throttle_time=_AT_ONCE, error_code=ErrorCode(0), groups=groups)


def _described(world: FakeWorld, node: int, schema: ModuleType, request: Any) -> Any:
    def told(name: str) -> Any:
        code, known = world.group(node, name)
        if known is None and not code and request.__version__ >= NEWEST[Api.DESCRIBE_GROUPS]:
            code = ABSENT
        shown = FakeGroup(state="Dead", kind="") if known is None or code else known
        return fill(
            schema.DescribedGroup,
            error_code=ErrorCode(code),
            group_id=name,
            group_state=shown.state,
            protocol_type=shown.kind,
            protocol_data="range" if shown.members else "",
            members=tuple(fill(schema.DescribedGroupMember, **member) for member in shown.members),
        )

    groups = tuple(told(name) for name in request.groups)
    return fill(schema.DescribeGroupsResponse, throttle_time=_AT_ONCE, groups=groups)


def _fetched(world: FakeWorld, node: int, schema: ModuleType, request: Any) -> Any:
    many = hasattr(request, "groups")
    topic_schema = schema.OffsetFetchResponseTopics if many else schema.OffsetFetchResponseTopic
    partition = schema.OffsetFetchResponsePartitions if many else schema.OffsetFetchResponsePartition
    by_id = request.__version__ >= NEWEST[Api.OFFSET_FETCH]
    names = {topic_id: name for name, topic_id in world.ids.items()}

    def told(name: str, topics: Any) -> dict[str, Any]:
        code, known = world.group(node, name)
        offsets = known.offsets if known and not code else {}
        wanted = (
            list(offsets)
            if topics is None
            else [
                TopicPartition(names[topic.topic_id] if by_id else topic.name, number)
                for topic in topics
                for number in topic.partition_indexes
            ]
        )
        if by_id and known:
            offsets = {at: held for at, held in offsets.items() if at not in known.former}
        said = [at for at in wanted if not known or at not in known.silent_about]
        return {
            "error_code": ErrorCode(code),
            "topics": tuple(
                fill(
                    topic_schema,
                    name=at.topic,
                    topic_id=world.ids.get(at.topic),
                    partitions=(_offset(partition, at, offsets.get(at)),),
                )
                for at in said
            ),
        }

    if not many:
        return fill(
            schema.OffsetFetchResponse, throttle_time=_AT_ONCE, **told(request.group_id, request.topics)
        )
    groups = tuple(
        schema.OffsetFetchResponseGroup(group_id=each.group_id, **told(each.group_id, each.topics))
        for each in request.groups
    )
    return schema.OffsetFetchResponse(throttle_time=_AT_ONCE, groups=groups)


def _offset(schema: Any, at: TopicPartition, held: tuple[int, str] | int | None) -> Any:
    code = held if isinstance(held, int) else 0
    offset, metadata = held if isinstance(held, tuple) else (-1, "")
    return fill(
        schema,
        partition_index=at.partition,
        committed_offset=offset,
        metadata=metadata,
        error_code=ErrorCode(code),
    )


def _log_ends(world: FakeWorld, node: int, schema: ModuleType, request: Any) -> Any:
    def told(topic: str, asked: Any) -> Any:
        leaders = world.topics.get(topic, [])
        known = asked.partition_index < len(leaders)
        code = 0 if known and leaders[asked.partition_index] == node else 6
        offset = 10 * (asked.partition_index + 1) if asked.timestamp == -1 else asked.partition_index
        return fill(
            schema.ListOffsetsPartitionResponse,
            partition_index=asked.partition_index,
            error_code=ErrorCode(code),
            offset=-1 if code else offset,
            leader_epoch=4,
        )

    topics = tuple(
        schema.ListOffsetsTopicResponse(
            name=topic.name, partitions=tuple(told(topic.name, each) for each in topic.partitions)
        )
        for topic in request.topics
    )
    return fill(schema.ListOffsetsResponse, throttle_time=_AT_ONCE, topics=topics)


_ANSWERS: Mapping[Api, Callable[[FakeWorld, int, ModuleType, Any], Any]] = {
    Api.METADATA: _metadata,
    Api.FIND_COORDINATOR: _coordinator,
    Api.LIST_GROUPS: _listed,
    Api.DESCRIBE_GROUPS: _described,
    Api.OFFSET_FETCH: _fetched,
    Api.LIST_OFFSETS: _log_ends,
}
