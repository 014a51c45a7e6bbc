"""Registrations and migration ids: bytes written, bytes accepted, bytes refused."""

from __future__ import annotations

import json

import pytest

from groupshift.domain.modes import Mode, ModeNode
from groupshift.domain.registration import (
    Pattern,
    Registration,
    consumer_id,
    encode_awareness,
    encode_registration,
    parse_awareness,
    parse_registration,
)
from groupshift.errors import Rejected


def test_the_bytes_are_those_of_the_spec() -> None:
    """The example of §1.2, the timestamp a string."""
    registration = Registration(subscription=(("orders", 2),), timestamp="1486000000000")
    assert encode_registration(registration) == (
        b'{"version":1,"subscription":{"orders":2},"pattern":"static","timestamp":"1486000000000"}'
    )


@pytest.mark.parametrize(
    ("stamp", "read"), [('"1486000000000"', "1486000000000"), ("1486000000000", "1486000000000")]
)
def test_scenario_06_timestamps_as_string_or_number(stamp: str, read: str) -> None:
    """Both spellings that exist in the wild are accepted."""
    data = f'{{"version":1,"subscription":{{"t":1}},"pattern":"static","timestamp":{stamp}}}'
    assert parse_registration(data.encode()).timestamp == read


def test_scenario_06_a_missing_timestamp_is_accepted() -> None:
    """Readers never use it."""
    read = parse_registration(b'{"subscription":{"t":1},"pattern":"static","extra":null}')
    assert read == Registration(subscription=(("t", 1),))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"subscription":{"t":1}}',
        b'{"pattern":"static"}',
        b'{"subscription":{"t":0},"pattern":"static"}',
        b'{"subscription":{"t":true},"pattern":"static"}',
        b'{"subscription":["t"],"pattern":"static"}',
    ],
)
def test_what_every_reader_refuses_is_refused_with_its_place(data: bytes) -> None:
    """The message names the node."""
    with pytest.raises(Rejected, match="/consumers/g/ids/x"):
        parse_registration(data, "/consumers/g/ids/x")


def test_an_unknown_pattern_is_static_and_empty_means_nothing() -> None:
    """§1.2: any other value is read as static; an empty subscription owns nothing."""
    read = parse_registration(b'{"subscription":{"t":2},"pattern":"grey_list"}')
    assert read.topics(["t", "u"]) == {"t": 2}
    assert Registration(subscription=(), pattern=Pattern.WHITE_LIST).topics(["t"]) == {}


def test_wildcards_match_whole_names_and_hide_internal_topics() -> None:
    """White and black lists, after the cleaning every reader does."""
    known = ["a.b", "a.bc", "b", "foobar", "__consumer_offsets"]
    white = Registration(subscription=(('" a\\.b.*, b"', 3),), pattern=Pattern.WHITE_LIST)
    black = Registration(subscription=(("foo", 1),), pattern=Pattern.BLACK_LIST)
    assert white.topics(known) == {"a.b": 3, "a.bc": 3, "b": 3}
    assert black.topics(known) == {"a.b": 1, "a.bc": 1, "b": 1, "foobar": 1}
    assert "__consumer_offsets" in black.topics(known, hidden=())


def test_text_that_is_no_json_is_read_with_doubled_backslashes() -> None:
    """As 1.0.1 and later readers do with an unescaped pattern of 0.8.1."""
    read = parse_registration(b'{"subscription":{"a\\.b":1},"pattern":"white_list"}')
    assert read.subscription == (("a\\.b", 1),)


def test_a_migration_id_is_the_registration_plus_fence_and_mode_with_string_zxids() -> None:
    """An old reader's JSON parser must survive it: no number beyond 32 bits."""
    registration = Registration(subscription=(("t", 1),), timestamp="5")
    node = ModeNode(data=b"kafka", version=3, czxid=7_000_000_000, mzxid=7_000_000_001)
    data = encode_awareness(registration, software="0.1.0", mode=Mode.KAFKA, node=node)
    numbers = [value for value in json.loads(data).values() if isinstance(value, int)]
    assert numbers == [1, 1]
    assert parse_registration(data) == registration
    read = parse_awareness(data)
    assert (read.fence, read.mode, read.acting_on, read.version) == (1, Mode.KAFKA, node.identity, "0.1.0")


def test_a_reference_member_has_no_fence() -> None:
    """Its migration id is a bare copy of the registration (§1.1)."""
    read = parse_awareness(encode_registration(Registration(subscription=(("t", 1),))))
    assert (read.fence, read.mode, read.acting_on) == (None, None, None)


def test_a_consumer_id_carries_its_group() -> None:
    """§2: the group prefix and the underscore are part of it; illegal names are refused by field."""
    assert consumer_id("g", "m1-2") == "g_m1-2"
    with pytest.raises(Rejected, match=r"consumer\.id"):
        consumer_id("g", "m1/2")
