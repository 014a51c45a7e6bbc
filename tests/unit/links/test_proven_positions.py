"""Last proven positions as records of their topic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift.links.proven_positions import (
    PositionKey,
    ProvenPosition,
    decode_position,
    encode_position,
    positions_in,
)
from groupshift.links.translation import Certainty
from groupshift.log.codec import Unreadable

KEY = PositionKey("billing", "primary.orders", 3)
POSITION = ProvenPosition(
    source_topic="orders",
    source_offset=1_050,
    target_offset=901,
    source_topic_id="abc",
    target_topic_id="",
    certainty=Certainty.EXACT_PROVEN,
    proven_at_ms=1_700_000_000_000,
)
NUMBERS = st.integers(0, 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def test_the_format_is_the_documented_one() -> None:
    """Byte for byte: other programs may read it."""
    key, value = encode_position(KEY, POSITION)
    assert key == b'["billing","primary.orders",3]'
    assert value == (
        b'{"version":1,"source_topic":"orders","source_offset":1050,"target_offset":901,'
        b'"source_topic_id":"abc","target_topic_id":"","certainty":"exact-proven",'
        b'"proven_at_ms":1700000000000}'
    )
    assert encode_position(KEY, None) == (key, None)


@given(TEXTS, TEXTS, st.integers(0, 2**31 - 1), NUMBERS, NUMBERS)
def test_what_is_written_is_read(group: str, topic: str, partition: int, source: int, target: int) -> None:
    """Any group, any offset."""
    key = PositionKey(group, topic, partition)
    position = ProvenPosition(
        source_topic=topic,
        source_offset=source,
        target_offset=target,
        source_topic_id="",
        target_topic_id="x",
        certainty=Certainty.CONSERVATIVE,
        proven_at_ms=target,
    )
    assert decode_position(*encode_position(key, position)) == (key, position)


def changed(**more: object) -> bytes:
    """The value with other fields."""
    fields = json.loads(encode_position(KEY, POSITION)[1] or b"")
    return json.dumps({**fields, **more}).encode()


GOOD_KEY = b'["g","t",0]'


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (None, b"", "key"),
        (b"x", b"", "key"),
        (b'["g","t"]', None, "no group, topic and partition"),
        (b'["g","t",true]', None, "no group, topic and partition"),
        (GOOD_KEY, b"\xff", "value"),
        (GOOD_KEY, changed(version=2), "version 2"),
        (GOOD_KEY, changed(version="1"), "version"),
        (GOOD_KEY, changed(target_offset=-1), "target_offset"),
        (GOOD_KEY, changed(target_offset="9"), "target_offset"),
        (GOOD_KEY, changed(certainty="sure"), "certainty"),
        (GOOD_KEY, b'{"version":1}', "missing"),
    ],
)
def test_other_bytes_are_unreadable(key: bytes | None, value: bytes | None, why: str) -> None:
    """And say what is wrong."""
    with pytest.raises(Unreadable, match=why):
        decode_position(key, value)


def test_a_field_that_is_not_known_is_left_out() -> None:
    """A later release may add one."""
    assert decode_position(GOOD_KEY, changed(later=1))[1] == POSITION


def test_the_last_record_of_a_key_counts_and_damage_is_counted() -> None:
    """Tombstones take away, and what cannot be read stops nothing."""
    other = PositionKey("audit", "orders", 0)
    newer = ProvenPosition(
        source_topic="orders",
        source_offset=2_000,
        target_offset=1_900,
        source_topic_id="abc",
        target_topic_id="",
        certainty=Certainty.EXACT_PROVEN,
        proven_at_ms=1_800_000_000_000,
    )
    records = [
        encode_position(KEY, POSITION),
        encode_position(other, POSITION),
        (b"nonsense", None),
        encode_position(KEY, newer),
        encode_position(other, None),
        (None, None),
    ]
    read = positions_in((offset, *record) for offset, record in enumerate(records))
    assert read.positions == {KEY: newer}
    assert read.unreadable == 2
    assert read.problem.startswith("offset 2: key")
