"""Coordinator records: read and written like an independent encoder does, and never a failure."""

from __future__ import annotations

import io
import json
from collections import Counter
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment import v3 as assignment_v3
from kio.schema.consumer_protocol_subscription import v0, v1, v2, v3
from kio.serial import entity_writer

from groupshift.log import Decoded, DecodeStatus, LogRecord, decode
from groupshift.log.decode import read_blob
from groupshift.log.schema import ASSIGNMENT, SUBSCRIPTION, TYPES
from groupshift_testing.log_encoder import encode_key, encode_value, write_message
from support import coordinator_encoder as peer
from support.coordinator_damage import KEY_FIELDS, damaged_records

LAYOUTS = {"current": peer.CURRENT, "early-access": peer.EARLY}
CASES = [(layout, *numbers) for layout, table in LAYOUTS.items() for numbers in table]
MUTATED = 10_000


def read(record_type: int, value: bytes | None) -> Decoded:
    """A record of this type and value, decoded."""
    key = encode_key(record_type, KEY_FIELDS)
    record = LogRecord(partition=0, offset=0, timestamp_ms=0, key=key, value=value)
    return decode(record, partitions=50)


def bare(value: Any) -> Any:
    """The row without what was read out of member bytes."""
    if isinstance(value, dict):
        return {name: bare(inner) for name, inner in value.items() if name != "embedded"}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("layout", "record_type", "version"), CASES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_layout_goes_there_and_back(
    layout: str, record_type: int, version: int, data: st.DataObject
) -> None:
    """What kio's primitives wrote is read to the same fields and written to the same bytes."""
    fields = peer.parse(LAYOUTS[layout][record_type, version])
    row = data.draw(peer.rows(fields, small=layout != "current"))
    flexible = version >= peer.FIRST_FLEXIBLE.get(record_type, 0)
    raw = version.to_bytes(2, "big") + peer.encode(fields, row, flexible=flexible)
    got = read(record_type, raw)
    assert (got.decode_status, got.problem, got.layout) == (DecodeStatus.OK, "", layout)
    assert bare(got.decoded) == row
    assert got.decoded is not None
    assert encode_value(record_type, version, got.decoded, layout=layout) == raw


def test_the_peer_speaks_every_type_that_has_a_value() -> None:
    """No type or version is left out of the property above."""
    versions = {
        (number, version)
        for number, known in TYPES.items()
        if number and known.values
        for version in range(known.values[0].oldest, known.values[0].newest + 1)
    }
    assert versions == set(peer.CURRENT)
    assert {n for n, known in TYPES.items() if len(known.values) > 1} == {n for n, _ in peer.EARLY}


TOPICS = st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=3)
OWNED = st.lists(st.tuples(st.text("abc", max_size=3), st.lists(st.integers(0, 99), max_size=3)), max_size=2)
RACK = st.none() | st.text("r")
USER_DATA = st.none() | st.binary(max_size=6)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@settings(max_examples=20, deadline=None)
@given(
    topics=TOPICS,
    owned=OWNED,
    user_data=USER_DATA,
    generation=st.integers(-1, 99),
    rack=st.none() | st.text("r"),
)
def test_subscriptions_are_read_like_kio_writes_them(
    version: int,
    topics: list[str],
    owned: list[tuple[str, list[int]]],
    user_data: bytes | None,
    generation: int,
    rack: str | None,
) -> None:
    """All four versions of ConsumerProtocolSubscription, and every prefix that ends at a field."""
    schema = (v0, v1, v2, v3)[version]
    given_: dict[str, Any] = {"topics": tuple(topics), "user_data": user_data}
    wanted: dict[str, Any] = {"topics": topics, "userData": None if user_data is None else user_data.hex()}
    if version >= 1:
        data = import_module(f"{schema.__name__}.data")
        given_["owned_partitions"] = tuple(
            data.TopicPartition(topic=topic, partitions=tuple(partitions)) for topic, partitions in owned
        )
        wanted["ownedPartitions"] = [{"topic": t, "partitions": p} for t, p in owned]
    if version >= 2:
        given_["generation_id"] = wanted["generationId"] = generation
    if version >= 3:
        given_["rack_id"] = wanted["rackId"] = rack
    buffer = io.BytesIO()
    entity_writer(schema.ConsumerProtocolSubscription)(buffer, schema.ConsumerProtocolSubscription(**given_))
    blob = version.to_bytes(2, "big") + buffer.getvalue()
    assert read_blob(SUBSCRIPTION, blob) == {"version": version} | wanted
    assert write_message(SUBSCRIPTION, version, read_blob(SUBSCRIPTION, blob), {}) == blob


@settings(max_examples=20, deadline=None)
@given(owned=OWNED, user_data=USER_DATA, version=st.integers(0, 3))
def test_assignments_are_read_like_kio_writes_them(
    owned: list[tuple[str, list[int]]], user_data: bytes | None, version: int
) -> None:
    """ConsumerProtocolAssignment has one layout in its versions 0 to 3."""
    schema = assignment_v3
    data = import_module(f"{schema.__name__}.data")
    partitions = tuple(data.TopicPartition(topic=t, partitions=tuple(p)) for t, p in owned)
    entity = schema.ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=user_data)
    buffer = io.BytesIO()
    entity_writer(schema.ConsumerProtocolAssignment)(buffer, entity)
    blob = version.to_bytes(2, "big") + buffer.getvalue()
    row = read_blob(ASSIGNMENT, blob)
    assert row == {
        "version": version,
        "assignedPartitions": [{"topic": t, "partitions": p} for t, p in owned],
        "userData": None if user_data is None else user_data.hex(),
    }
    assert write_message(ASSIGNMENT, version, row, {}) == blob


def test_ten_thousand_damaged_records_are_rows_with_a_status() -> None:
    """None raises, each has a status and its bytes, and an OK row is written back to the same bytes."""
    seen: Counter[DecodeStatus] = Counter()
    for record in damaged_records(MUTATED, seed=20261121):
        row = decode(record, partitions=50)
        seen[row.decode_status] += 1
        assert (row.raw_key, row.raw_value) == (record.key, record.value)
        assert (row.decode_status is DecodeStatus.OK) == (row.problem == "")
        json.dumps(row.decoded)
        if row.decode_status is DecodeStatus.OK and row.decoded is not None:
            assert row.record_type is not None
            assert row.value_version is not None
            again = encode_value(
                row.record_type,
                row.value_version,
                row.decoded,
                layout=row.layout,
                unknown_tags=row.unknown_tags,
            )
            assert again == record.value
    assert set(seen) == set(DecodeStatus)
    assert seen.total() == MUTATED


@settings(max_examples=150, deadline=None)
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=60))
def test_arbitrary_bytes_are_rows_too(key: bytes | None, value: bytes | None) -> None:
    """Nothing that bytes can say makes the decoder raise."""
    row = decode(LogRecord(partition=0, offset=0, timestamp_ms=0, key=key, value=value), partitions=3)
    assert row.decode_status in DecodeStatus
    assert row.is_tombstone == (value is None)
