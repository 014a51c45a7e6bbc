"""A second, independent encoder of coordinator records, on kio's primitives, and its own schema table.

The table is written from Kafka's generated classes (releases 3.7.2 to 4.4.0), not from our layouts, in a
small notation: ``name:type`` with the types i8, i16, u16, i32, i64, str, bytes, uuid, ``[element]`` and
``(fields)``; ``?`` after a type: may be null; ``name@tag:type``: tagged.
"""

from __future__ import annotations

import io
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from kio.serial import writers as w

_TP = "topicId:uuid partitions:[i32]"
_TASKS = "[(subtopologyId:str partitions:[i32])]"
_TASKS_E = "[(subtopologyId:str partitions:[i32] assignmentEpochs@0:[i32])]"
_KV = "[(key:str value:str)]"
_TOPICS = (
    "topics:[(topicId:uuid topicName:str numPartitions:i32 partitionMetadata:[(partition:i32 racks:[str])])]"
)
_MEMBER = (
    "instanceId:str? rackId:str? clientId:str clientHost:str subscribedTopicNames:[str] "
    "subscribedTopicRegex:str? rebalanceTimeoutMs:i32 serverAssignor:str?"
)
_GROUP = "protocolType:str generation:i32 protocol:str? leader:str?"
_STATE = "[(topicId:uuid topicName:str partitions:[i32])]"
_INFO = "[(name:str partitions:i32 replicationFactor:i16 topicConfigs:[(key:str value:str)])]"
_TARGET = "assignmentEpoch:i32 assignmentTimestamp@0:i64"

CURRENT: dict[tuple[int, int], str] = {
    (1, 0): "offset:i64 metadata:str commitTimestamp:i64",
    (1, 1): "offset:i64 metadata:str commitTimestamp:i64 expireTimestamp:i64",
    (1, 2): "offset:i64 metadata:str commitTimestamp:i64",
    (1, 3): "offset:i64 leaderEpoch:i32 metadata:str commitTimestamp:i64",
    (1, 4): "offset:i64 leaderEpoch:i32 metadata:str commitTimestamp:i64 topicId@0:uuid",
    (2, 0): f"{_GROUP} members:[(memberId:str clientId:str clientHost:str sessionTimeout:i32 "
    "subscription:bytes assignment:bytes)]",
    (2, 1): f"{_GROUP} members:[(memberId:str clientId:str clientHost:str rebalanceTimeout:i32 "
    "sessionTimeout:i32 subscription:bytes assignment:bytes)]",
    (2, 2): f"{_GROUP} currentStateTimestamp:i64 members:[(memberId:str clientId:str clientHost:str "
    "rebalanceTimeout:i32 sessionTimeout:i32 subscription:bytes assignment:bytes)]",
    (2, 3): f"{_GROUP} currentStateTimestamp:i64 members:[(memberId:str groupInstanceId:str? clientId:str "
    "clientHost:str rebalanceTimeout:i32 sessionTimeout:i32 subscription:bytes assignment:bytes)]",
    (2, 4): f"{_GROUP} currentStateTimestamp:i64 members:[(memberId:str groupInstanceId:str? clientId:str "
    "clientHost:str rebalanceTimeout:i32 sessionTimeout:i32 subscription:bytes assignment:bytes)]",
    (3, 0): "epoch:i32 metadataHash@0:i64 creationTimeMs@1:i64",
    (4, 0): _TOPICS,
    (5, 0): f"{_MEMBER} classicMemberMetadata@0:(sessionTimeoutMs:i32 "
    "supportedProtocols:[(name:str metadata:bytes)])?",
    (6, 0): _TARGET,
    (7, 0): f"topicPartitions:[({_TP})]",
    (8, 0): f"memberEpoch:i32 previousMemberEpoch:i32 state:i8 assignedPartitions:[({_TP} "
    f"assignmentEpochs@0:[i32])] partitionsPendingRevocation:[({_TP} assignmentEpochs@0:[i32])]",
    (9, 0): _TOPICS,
    (10, 0): "rackId:str? clientId:str clientHost:str subscribedTopicNames:[str]",
    (11, 0): "epoch:i32 metadataHash:i64",
    (12, 0): _TARGET,
    (13, 0): f"topicPartitions:[({_TP})]",
    (14, 0): f"memberEpoch:i32 previousMemberEpoch:i32 state:i8 assignedPartitions:[({_TP})]",
    (15, 0): f"initializingTopics:{_STATE} initializedTopics:{_STATE} "
    "deletingTopics:[(topicId:uuid topicName:str)]",
    (16, 0): "topics:[str] version:i64 timestamp:i64",
    (17, 0): f"epoch:i32 metadataHash:i64 validatedTopologyEpoch@0:i32 lastAssignmentConfigs@1:{_KV} "
    "storedDescriptionTopologyEpoch@2:i32 failedDescriptionTopologyEpoch@3:i32",
    (18, 0): _TOPICS,
    (19, 0): "instanceId:str? rackId:str? clientId:str clientHost:str rebalanceTimeoutMs:i32 "
    f"topologyEpoch:i32 processId:str userEndpoint:(host:str port:u16)? clientTags:{_KV}",
    (20, 0): _TARGET,
    (21, 0): f"activeTasks:{_TASKS} standbyTasks:{_TASKS} warmupTasks:{_TASKS}",
    (22, 0): f"memberEpoch:i32 previousMemberEpoch:i32 state:i8 activeTasks:{_TASKS_E} "
    f"standbyTasks:{_TASKS_E} warmupTasks:{_TASKS_E} activeTasksPendingRevocation:{_TASKS_E} "
    f"standbyTasksPendingRevocation:{_TASKS_E} warmupTasksPendingRevocation:{_TASKS_E}",
    (23, 0): "epoch:i32 subtopologies:[(subtopologyId:str sourceTopics:[str] sourceTopicRegex:[str] "
    f"stateChangelogTopics:{_INFO} repartitionSinkTopics:[str] repartitionSourceTopics:{_INFO} "
    "copartitionGroups:[(sourceTopics:[i16] sourceTopicRegex:[i16] repartitionSourceTopics:[i16])])]",
}
EARLY: dict[tuple[int, int], str] = {
    (4, 0): f"epoch:i32 {_TOPICS}",
    (5, 0): f"{_MEMBER} assignors:[(name:str minimumVersion:i16 maximumVersion:i16 reason:i8 version:i16 "
    "metadata:bytes)]",
    (7, 0): f"error:i8 topicPartitions:[({_TP})] metadataVersion:i16 metadataBytes:bytes",
    (8, 0): f"memberEpoch:i32 previousMemberEpoch:i32 targetMemberEpoch:i32 assignedPartitions:[({_TP})] "
    f"partitionsPendingRevocation:[({_TP})] partitionsPendingAssignment:[({_TP})] error:i8 "
    "metadataVersion:i16 metadataBytes:bytes",
    (9, 0): f"initializedTopics:{_STATE} deletingTopics:[(topicId:uuid topicName:str)]",
    (11, 0): "epoch:i32",
    (15, 0): f"initializedTopics:{_STATE} deletingTopics:[(topicId:uuid topicName:str)]",
}
FIRST_FLEXIBLE = {1: 4, 2: 4}
"""Type → first flexible version; 0 for all others."""


@dataclass(frozen=True)
class Node:
    """One field of the notation."""

    name: str
    kind: str
    tag: int | None
    nullable: bool
    fields: tuple[Node, ...]
    array: bool


_TOKENS = re.compile(r"[\[\]()?]|[^\s\[\]()?]+")


def parse(notation: str) -> tuple[Node, ...]:
    """The fields of a notation."""
    tokens = _TOKENS.findall(notation)[::-1]
    found = _fields(tokens)
    assert not tokens
    return found


def _fields(tokens: list[str]) -> tuple[Node, ...]:
    found = []
    while tokens and tokens[-1] != ")":
        name, _, kind = tokens.pop().partition(":")
        name, _, tag = name.partition("@")
        array = not kind and tokens[-1] == "["
        if array:
            kind = tokens.pop() and tokens.pop()
        elif not kind:
            kind = tokens.pop()
        inner: tuple[Node, ...] = ()
        if kind == "(":
            inner = _fields(tokens)
            tokens.pop()
        if array:
            tokens.pop()
        nullable = bool(tokens) and tokens[-1] == "?" and bool(tokens.pop())
        found.append(Node(name, kind, int(tag) if tag else None, nullable, inner, array))
    return tuple(found)


_TEXT = st.text(st.characters(codec="utf-8"), max_size=6) | st.just("\u00e4" * 70)
_WIDTH = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}


def rows(fields: tuple[Node, ...], *, small: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """Rows of these fields as `Decoded.decoded` has them; ``small``: numbers that early access had."""
    plain = {f.name: _values(f, small=small) for f in fields if f.tag is None}
    tagged = {f.name: _values(f, small=small) for f in fields if f.tag is not None}
    return st.fixed_dictionaries(plain, optional=tagged)


def _values(node: Node, *, small: bool) -> st.SearchStrategy[Any]:
    one: st.SearchStrategy[Any]
    if node.kind == "(":
        one = rows(node.fields, small=small)
    elif node.kind in _WIDTH:
        bits = _WIDTH[node.kind] - 1
        one = (
            st.integers(0, 0 if bits == 7 else 1000) if small else st.integers(-(1 << bits), (1 << bits) - 1)
        )
    elif node.kind == "u16":
        one = st.integers(0, 65535)
    elif node.kind == "str":
        one = _TEXT
    elif node.kind == "bytes":
        one = st.binary(max_size=8).map(bytes.hex)
    else:
        one = st.uuids().map(lambda u: urlsafe_b64encode(u.bytes).decode().rstrip("="))
    if node.array:
        one = st.lists(one, max_size=3)
    return st.none() | one if node.nullable else one


def encode(fields: tuple[Node, ...], row: dict[str, Any], *, flexible: bool) -> bytes:
    """The bytes of one message by kio's writers, without the leading version."""
    buffer = io.BytesIO()
    _struct(buffer, fields, row, flexible=flexible)
    return buffer.getvalue()


def _struct(buffer: io.BytesIO, fields: tuple[Node, ...], row: dict[str, Any], *, flexible: bool) -> None:
    for node in fields:
        if node.tag is None:
            _writer(node, flexible=flexible)(buffer, row[node.name])
    if flexible:
        tagged = sorted((node.tag, node) for node in fields if node.tag is not None and node.name in row)
        w.write_unsigned_varint(buffer, len(tagged))  # type: ignore[arg-type]
        for tag, node in tagged:
            w.write_tagged_field(buffer, tag, _writer(node, flexible=True), row[node.name])  # type: ignore[arg-type]


def _writer(node: Node, *, flexible: bool) -> Callable[[Any, Any], None]:
    one = _element(node, flexible=flexible)
    if node.array:
        return w.compact_array_writer(one) if flexible else w.legacy_array_writer(one)
    return one


def _element(node: Node, *, flexible: bool) -> Callable[[Any, Any], None]:
    if node.kind == "(":
        return lambda buffer, row: _nested(buffer, node, row, flexible=flexible)
    if node.kind == "uuid":
        return lambda buffer, text: w.write_uuid(buffer, UUID(bytes=_uuid_bytes(text)))
    if node.kind == "bytes":
        raw = w.write_compact_string if flexible else w.write_legacy_bytes
        return lambda buffer, text: raw(buffer, bytes.fromhex(text))  # type: ignore[arg-type]
    if node.kind == "str":
        return w.write_nullable_compact_string if flexible else w.write_nullable_legacy_string
    numbers = {"i8": w.write_int8, "i16": w.write_int16, "i32": w.write_int32, "i64": w.write_int64}
    return {**numbers, "u16": w.write_uint16}[node.kind]


def _nested(buffer: Any, node: Node, row: dict[str, Any] | None, *, flexible: bool) -> None:
    """A struct by itself that may be null says so first: int8, or a varint where it is tagged."""
    if node.nullable and not node.array:
        if node.tag is None:
            w.write_int8(buffer, -1 if row is None else 1)  # type: ignore[arg-type]
        else:
            w.write_unsigned_varint(buffer, 0 if row is None else 1)  # type: ignore[arg-type]
    if row is not None:
        _struct(buffer, node.fields, row, flexible=flexible)


def _uuid_bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "==")
