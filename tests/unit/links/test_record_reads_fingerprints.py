"""The fingerprint of a record, against bytes that are written out here."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift.links.record_reads import FingerprintRule, content_by, fingerprint
from groupshift.ports.records import LogRecordView, TimestampType

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def record(**fields) -> LogRecordView:
    """A record of key ``k``, value ``vv``, at offset 7 and time 1 700 000 000 000."""
    return LogRecordView(
        **{"offset": 7, "timestamp_ms": 1_700_000_000_000, "key": b"k", "value": b"vv", **fields}
    )


TIME = bytes.fromhex("0000018bcfe56800")
KEY, VALUE = bytes.fromhex("000000016b"), bytes.fromhex("000000027676")


@pytest.mark.parametrize(
    ("view", "rule", "covered"),
    [
        (record(), FingerprintRule(), TIME + KEY + VALUE),
        (record(timestamp_ms=-1), FingerprintRule(), b"\xff" * 8 + KEY + VALUE),
        (record(), FingerprintRule(timestamps=False), KEY + VALUE),
        (record(key=None), FingerprintRule(timestamps=False), bytes.fromhex("ffffffff") + VALUE),
        (record(key=b""), FingerprintRule(timestamps=False), bytes.fromhex("00000000") + VALUE),
        (record(value=None), FingerprintRule(timestamps=False), KEY + bytes.fromhex("ffffffff")),
        (
            record(headers=(("é", b"1"), ("a", None))),
            FingerprintRule(timestamps=False),
            KEY + VALUE + bytes.fromhex("00000002c3a9 0000000131 0000000161 ffffffff"),
        ),
        (
            record(headers=(("src", b"9"), ("a", b"1"), ("src", b"8"))),
            FingerprintRule(timestamps=False, provenance_headers=frozenset({"src"})),
            KEY + VALUE + bytes.fromhex("0000000161 0000000131"),
        ),
    ],
    ids=["all", "no time", "LogAppendTime", "null key", "empty key", "tombstone", "headers", "provenance"],
)
def test_a_fingerprint_is_the_sha256_of_these_bytes(view, rule, covered) -> None:
    """Lengths are int32, -1 for null; the headers that the replicator adds are left out."""
    assert fingerprint(view, rule) == hashlib.sha256(covered).digest()


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [(CREATE, CREATE, True), (CREATE, APPEND, False), (APPEND, CREATE, False), (APPEND, APPEND, False)],
)
def test_timestamps_count_only_where_both_topics_use_create_time(source, target, counts) -> None:
    """A LogAppendTime is of a batch, and differs between the sides."""
    assert FingerprintRule.of_topics(source, target).timestamps is counts


FIELD = st.none() | st.binary(max_size=3)
RECORDS = st.builds(
    LogRecordView,
    offset=st.integers(0, 9),
    timestamp_ms=st.integers(0, 1),
    key=FIELD,
    value=FIELD,
    headers=st.lists(st.tuples(st.sampled_from(("", "a", "src")), FIELD), max_size=2).map(tuple),
)
RULES = st.builds(FingerprintRule, timestamps=st.booleans(), provenance_headers=st.just(frozenset({"src"})))


@given(RECORDS, RECORDS, RULES)
def test_equal_content_is_an_equal_fingerprint_and_only_that(one, other, rule) -> None:
    """So comparisons in memory need no hash; the offset never counts."""
    same = content_by(rule)(one) == content_by(rule)(other)
    assert same == (fingerprint(one, rule) == fingerprint(other, rule))
