"""Bytes of requests and answers, version choice, frames (docs/reference/group-coordinator.md §7.3)."""

from __future__ import annotations

import datetime as dt
import io
import socket

import pytest
from kio.index import load_payload_module, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

from groupshift.adapters.kafka.connection_and_login import Channel
from groupshift.adapters.kafka.wire import (
    Api,
    BrokerError,
    Malformed,
    UnsupportedByBroker,
    answer_of,
    choose,
    error_name,
    fill,
    raise_for,
    request_frame,
)


def asked(api: Api, version: int, **values):
    """A request of this version."""
    module = load_payload_module(api, version, EntityType.request)
    (name,) = [each for each in vars(module) if each.endswith("Request") and each != "RequestHeader"]
    return fill(getattr(module, name), **values)


@pytest.mark.parametrize(
    ("request_", "frame"),
    [
        (
            asked(Api.FIND_COORDINATOR, 2, key="g1", key_type=0),
            "00000014000a000200000007000570726f62650002673100",
        ),
        (
            asked(Api.FIND_COORDINATOR, 1, key="g1", key_type=0),
            "00000014000a000100000007000570726f62650002673100",
        ),
        (
            asked(Api.FIND_COORDINATOR, 4, coordinator_keys=("g1", "g2"), key_type=0),
            "00000019000a000400000007000570726f626500000303673103673200",
        ),
        (asked(Api.LIST_GROUPS, 4, states_filter=()), "000000120010000400000007000570726f6265000100"),
        (
            asked(Api.LIST_GROUPS, 5, states_filter=(), types_filter=("consumer",)),
            "0000001c0010000500000007000570726f626500010209636f6e73756d657200",
        ),
        (
            asked(
                Api.CONSUMER_GROUP_DESCRIBE, 0, group_ids=("g1",), include_authorized_operations=False
            ),
            "000000160045000000000007000570726f626500020367310000",
        ),
        (
            asked(
                Api.API_VERSIONS, 3, client_software_name="probe", client_software_version="1"
            ),
            "000000190012000300000007000570726f6265000670726f6265023100",
        ),
        (
            asked(
                Api.API_VERSIONS, 4, client_software_name="probe", client_software_version="1"
            ),
            "000000190012000400000007000570726f6265000670726f6265023100",
        ),
    ],
)  # fmt: skip
def test_a_request_is_the_specifications_bytes(request_, frame: str) -> None:
    """Length, header 1 or 2 with the classic client id, and message are those of section 7.3."""
    assert request_frame(request_, 7, "probe").hex() == frame


def encoded(answer, correlation: int) -> bytes:
    """The body of a frame with this answer, as a broker sends it."""
    out = io.BytesIO()
    header = answer.__header_schema__(correlation_id=correlation)
    entity_writer(type(header))(out, header)
    entity_writer(type(answer))(out, answer)
    return out.getvalue()


def test_the_answer_to_api_versions_has_header_0_in_a_flexible_version() -> None:
    """The body begins with correlation id and error code: no tags between, unlike every other one."""
    request = asked(Api.API_VERSIONS, 4, client_software_name="a", client_software_version="1")
    schema = load_response_schema(Api.API_VERSIONS, 4)
    answer = schema(error_code=ErrorCode.none, api_keys=(), throttle_time=dt.timedelta())
    body = encoded(answer, 9)
    assert body[:6].hex() == "000000090000"
    assert answer_of(request, body) == (9, answer)


def test_a_refused_version_is_read_in_the_form_of_version_0() -> None:
    """KIP-511: error 35 comes as version 0, with the versions of ApiVersions itself."""
    request = asked(Api.API_VERSIONS, 4, client_software_name="a", client_software_version="1")
    body = bytes.fromhex("00000003002300000001001200000003")
    correlation, answer = answer_of(request, body)
    assert correlation == 3
    assert answer.error_code == ErrorCode.unsupported_version
    assert [(each.api_key, each.max_version) for each in answer.api_keys] == [(18, 3)]


def test_metadata_of_an_offset_keeps_its_trailing_nul() -> None:
    """What confluent-kafka stores as `x` with a NUL is read with it."""
    request = asked(Api.OFFSET_FETCH, 8, groups=(), require_stable=True)
    body = bytes.fromhex(
        "00000005" "00" "00000000" "02" "0367" "31" "02" "0274" "02"
        "00000000" "000000000000002a" "ffffffff" "037800" "0000" "00" "00" "0000" "00" "00"
    )  # fmt: skip
    _, answer = answer_of(request, body)
    (at,) = answer.groups[0].topics[0].partitions
    assert (at.committed_offset, at.metadata.encode()) == (42, b"x\0")


@pytest.mark.parametrize("body", [b"", b"\0\0", bytes.fromhex("0000000500000000007f")])
def test_cut_answers_are_malformed(body: bytes) -> None:
    """No answer that ends early passes for a shorter one."""
    with pytest.raises(Malformed):
        answer_of(asked(Api.OFFSET_FETCH, 8, groups=(), require_stable=True), body)
    with pytest.raises(Malformed):
        answer_of(asked(Api.API_VERSIONS, 0), body)


def test_the_newest_common_version_is_chosen() -> None:
    """Broker, kio and caller each bound it from both sides."""
    ranges = {Api.LIST_GROUPS: range(5), Api.OFFSET_FETCH: range(1, 11), Api.FETCH: range(4, 100)}
    assert choose(ranges, Api.LIST_GROUPS) == 4
    assert choose(ranges, Api.OFFSET_FETCH, at_least=2, at_most=9) == 9
    assert choose(ranges, Api.FETCH) == 18


@pytest.mark.parametrize(
    ("api", "bounds", "said"),
    [
        (Api.LIST_GROUPS, {"at_least": 5}, "the broker offers versions 0 to 4 of LIST_GROUPS, 5 to 5"),
        (Api.CONSUMER_GROUP_DESCRIBE, {}, "the broker offers no version of CONSUMER_GROUP_DESCRIBE"),
        (Api.METADATA, {"at_most": 9}, "the broker offers versions 12 to 13 of METADATA, 0 to 9 would do"),
    ],
)  # fmt: skip
def test_no_common_version_is_said_with_both_sides(api: Api, bounds: dict[str, int], said: str) -> None:
    """A request is never sent in a version that the broker did not offer."""
    with pytest.raises(UnsupportedByBroker, match=said):
        choose({Api.LIST_GROUPS: range(5), Api.METADATA: range(12, 14)}, api, **bounds)


def test_error_codes_have_their_names_and_say_whether_to_ask_again() -> None:
    """Codes that are newer than kio are said as numbers and not repeated."""
    raise_for(0, "nothing")
    with pytest.raises(BrokerError, match=r"group 'g': NOT_COORDINATOR \(16\)") as moved:
        raise_for(16, "group 'g'")
    assert moved.value.retriable
    assert error_name(9999) == "error 9999"
    assert not BrokerError(9999, "x").retriable


@pytest.fixture
def ends():
    """A channel, and the broker's end of it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    channel = Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_frames_are_put_together_from_pieces(ends) -> None:
    """Bodies come whole and in order however the bytes arrive, also those before the connection's end."""
    channel, broker = ends
    for piece in (b"\0\0", b"\0\4ab", b"cd\0\0\0\5efg", b"hi"):
        broker.sendall(piece)
    broker.close()
    assert channel.read(1.0) == b"abcd"
    assert channel.read(1.0) == b"efghi"
    with pytest.raises(ConnectionResetError, match="closed the connection"):
        channel.read(1.0)


def test_a_silent_broker_is_a_timeout(ends) -> None:
    """Half a frame is no answer."""
    channel, broker = ends
    broker.sendall(b"\0\0\0\4ab")
    with pytest.raises(TimeoutError):
        channel.read(0.05)


def test_sending_receives_meanwhile(ends) -> None:
    """A broker that cannot get rid of its answer before it reads on does not block a long request."""
    channel, broker = ends
    broker.setblocking(False)
    answer = b"\0\1\0\0" + bytes(65_536)
    broker.send(answer)
    with pytest.raises(TimeoutError):  # nobody reads 16 MB
        channel.write(bytes(16 * 1024 * 1024), 0.05)
    assert channel.read(0.05) == answer[4:]


@pytest.mark.parametrize("size", [b"\x15\x03\x03\x00", b"\xff\xff\xff\xff", b"\0\0\0\3"])
def test_what_is_no_frame_of_kafka_ends_the_connection(ends, size: bytes) -> None:
    """The first bytes of a TLS alert are taken for no answer of 352 MB."""
    channel, broker = ends
    broker.sendall(size)
    with pytest.raises(ConnectionAbortedError, match=r"security\.protocol"):
        channel.read(1.0)
