"""Requests as frames and answers from frames, by kio's schemas; no socket.

A frame is its length (int32) and a body: header, then message (docs/reference/group-coordinator.md §7.3). kio
knows which header belongs to which version: flexible requests have header 2, and the answer to ApiVersions
has header 0 in every version.
"""

from __future__ import annotations

import dataclasses
import io
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from groupshift.adapters.kafka.bounds import hold, without_none
from groupshift.domain.partitions import TopicPartition

_LENGTH = struct.Struct(">i")
_CODE = struct.Struct(">h")
_V = TypeVar("_V")


class Api(IntEnum):
    """The requests that groupshift sends by itself, with their API keys."""

    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    SHARE_GROUP_DESCRIBE = 77
    STREAMS_GROUP_DESCRIBE = 89


def in_parts(items: Sequence[_V], size: int) -> Iterator[tuple[_V, ...]]:
    """The items, at most ``size`` at a time: what goes into one request."""
    return (tuple(items[at : at + size]) for at in range(0, len(items), size))


def by_partition(topics: Iterable[Any] | None) -> dict[TopicPartition, Any]:
    """What an answer says of each partition, from its topics by name."""
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): each
        for topic in topics or ()
        for each in topic.partitions
    }


class BrokerError(Exception):
    """A broker answered with an error code.

    ``code`` is Kafka's number, ``what`` the subject, ``said`` the broker's words; ``retriable`` says whether
    asking again may help."""

    def __init__(self, code: int, what: str, *, said: str | None = None) -> None:
        super().__init__(f"{what}: {error_name(code)}" + (f", {said}" if said else ""))
        self.code = int(code)
        self.retriable = is_retriable(code)


class UnsupportedByBroker(Exception):
    """The broker has no version of a request that will do."""


class Malformed(OSError):
    """Bytes that are no answer of Kafka's protocol: the connection is of no further use."""


def error_name(code: int) -> str:
    """Kafka's name and number of an error code: ``NOT_COORDINATOR (16)``."""
    try:
        return f"{ErrorCode(int(code)).name.upper()} ({int(code)})"
    except ValueError:
        return f"error {int(code)}"


def is_retriable(code: int) -> bool:
    """True when Kafka says that asking again may help."""
    try:
        return bool(ErrorCode(int(code)).retriable)
    except ValueError:
        return False


def raise_for(code: int, what: str, *, said: str | None = None) -> None:
    """Raise `BrokerError` unless ``code`` is 0."""
    if code:
        raise BrokerError(code, what, said=said)


Ranges = Mapping[int, range]
"""The versions that a broker knows of each request, by its API key."""


def choose(ranges: Ranges, api: Api, *, at_least: int = 0, at_most: int = 32_767) -> int:
    """The newest version of ``api`` that the broker (``ranges``), kio and the caller all know.

    Raises `UnsupportedByBroker` when there is none."""
    known, theirs = schema_name_map[api_key_map[api]], ranges.get(api, range(0))
    usable = [version for version in known if version in theirs and at_least <= version <= at_most]
    if not usable:
        offered = f"versions {theirs[0]} to {theirs[-1]}" if theirs else "no version"
        wanted = f"{max(at_least, min(known))} to {min(at_most, max(known))}"
        raise UnsupportedByBroker(f"the broker offers {offered} of {api.name}, {wanted} would do")
    return max(usable)


@cache
def request_schema(api: Api, version: int) -> type[Any]:
    """The class of kio for this request."""
    return load_request_schema(api, version)


def fill(schema: Any, **values: Any) -> Any:
    """An instance of a schema from those values that its version has fields for; others are left out,
    so the caller must not need them there. Mappings in an array become its items in the same way."""
    items = _items_of(schema)
    return schema(**{name: _filled(items[name], value) for name, value in values.items() if name in items})


def _filled(item: Any, value: Any) -> Any:
    if item is None or value is None:
        return value
    return tuple(fill(item, **each) if isinstance(each, Mapping) else each for each in value)


@cache
def _items_of(schema: Any) -> Mapping[str, Any]:
    """The names of a schema's fields, with the type of the items of those that are arrays."""
    kinds = {field.name: without_none(field.type)[0] for field in dataclasses.fields(schema)}
    return {name: get_args(kind)[0] if get_origin(kind) is tuple else None for name, kind in kinds.items()}


def id_text(topic_id: UUID | None) -> str:
    """A topic's id as Kafka's tools print it (URL-safe base64 without padding); empty for none."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=") if topic_id else ""


def id_of(text: str) -> UUID:
    """The id that `id_text` wrote."""
    return UUID(bytes=urlsafe_b64decode(f"{text}=="))


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """A request whose ``body`` is bytes already, of the API and version of ``like``."""

    like: Any
    body: bytes


def request_frame(request: Any, correlation_id: int, client_id: str, encoded: bytes = b"") -> bytes:
    """The frame of a request with its header (version 1, or 2 when the request is flexible)."""
    header = request.__header_schema__(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    out = io.BytesIO()
    entity_writer(type(header))(out, header)
    if encoded:
        out.write(encoded)
    else:
        entity_writer(type(request))(out, request)
    body = out.getvalue()
    return _LENGTH.pack(len(body)) + body


def answer_of(request: Any, body: bytes) -> tuple[int, Any]:
    """Correlation id and answer in the body of a frame. Raises `Malformed`.

    A broker that refuses the asked version of ApiVersions (error 35) answers in the form of version 0,
    whatever was asked (KIP-511)."""
    version = request.__version__
    if request.__api_key__ == Api.API_VERSIONS and len(body) >= _LENGTH.size + _CODE.size:
        (code,) = _CODE.unpack_from(body, _LENGTH.size)
        version = 0 if code == ErrorCode.unsupported_version else version
    return decoded(load_response_schema(request.__api_key__, version), body)


def decoded(schema: Any, body: bytes) -> tuple[int, Any]:
    """Correlation id and message of ``schema`` in the body of a frame, whose lengths and counts are held
    against its size first. Raises `Malformed`."""
    try:
        hold(schema, body, hold(schema.__header_schema__, body, 0))
        header, size = entity_reader(schema.__header_schema__)(body, 0)
        message, _ = entity_reader(schema)(body, size)
    except (SerialError, ValueError, OverflowError, KeyError) as wrong:  # kio knows not every tagged field
        name = schema.__name__
        raise Malformed(f"{name} version {schema.__version__} cannot be read ({wrong})") from wrong
    return int(header.correlation_id), message
