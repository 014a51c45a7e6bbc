"""Offset syncs, checkpoints and heartbeats: the vectors both ways, and what is no such record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift.errors import Rejected
from groupshift.links.mirrormaker import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    Tombstone,
    UnknownVersion,
    decode_checkpoint,
    decode_heartbeat,
    decode_sync,
    encode_checkpoint,
    encode_heartbeat,
    encode_sync,
)
from groupshift.log.codec import Unreadable

SYNC = (encode_sync, decode_sync)
CHECKPOINT = (encode_checkpoint, decode_checkpoint)
HEARTBEAT = (encode_heartbeat, decode_heartbeat)
CODECS = {OffsetSync: SYNC, Checkpoint: CHECKPOINT, Heartbeat: HEARTBEAT}


def sync(topic: str, partition: int, upstream: int, downstream: int) -> OffsetSync:
    """An offset sync in one line."""
    return OffsetSync(topic=topic, partition=partition, upstream=upstream, downstream=downstream)


def checkpoint(group: str, topic: str, *numbers: int, metadata: str = "") -> Checkpoint:
    """A checkpoint in one line: partition, upstream, downstream."""
    partition, upstream, downstream = numbers
    return Checkpoint(
        group=group,
        topic=topic,
        partition=partition,
        upstream=upstream,
        downstream=downstream,
        metadata=metadata,
    )


VECTORS = {
    "OS1": (sync("orders", 3, 1000, 900), "00066f726465727300000003", "00000000000003e80000000000000384"),
    "OS2": (sync("topic-1", 2, 3, 4), "0007746f7069632d3100000002", "00000000000000030000000000000004"),
    "OS3": (
        sync("café", 0, 2**32, 2**63 - 1),
        "0005636166c3a900000000",
        "00000001000000007fffffffffffffff",
    ),
    "CP1": (
        checkpoint("billing", "primary.orders", 3, 1050, 901),
        "000762696c6c696e67000e7072696d6172792e6f726465727300000003",
        "0000000000000000041a00000000000003850000",
    ),
    "CP2": (
        checkpoint("group-1", "topic-2", 3, 4, 5, metadata="metadata-6"),
        "000767726f75702d310007746f7069632d3200000003",
        "000000000000000000040000000000000005000a6d657461646174612d36",
    ),
    "HB1": (
        Heartbeat(source_alias="primary", target_alias="backup", timestamp_ms=1700000000000),
        "00077072696d61727900066261636b7570",
        "00000000018bcfe56800",
    ),
    "a real sync of 4.3.1": (
        sync("plain", 0, 199_999, 199_999),
        "0005706c61696e00000000",
        "0000000000030d3f0000000000030d3f",
    ),
    "a real checkpoint of 4.3.1": (
        checkpoint("g-end-1", "A.plain", 0, 199_999, 199_999),
        "0007672d656e642d310007412e706c61696e00000000",
        "00000000000000030d3f0000000000030d3f0000",
    ),
}
ALL = pytest.mark.parametrize(("record", "key", "value"), VECTORS.values(), ids=VECTORS)


@ALL
def test_cluster_01_codec_encodes_and_decodes_every_vector(record: Any, key: str, value: str) -> None:
    """Byte for byte, and back."""
    encode, decode = CODECS[type(record)]
    assert tuple(part.hex() for part in encode(record)) == (key, value)
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) == record


@ALL
def test_cluster_01_codec_rejects_every_truncation_and_every_byte_too_many(
    record: Any, key: str, value: str
) -> None:
    """Of the key and of the value, down to nothing; a null key, too."""
    decode: Callable[..., Any] = CODECS[type(record)][1]
    whole_key, whole_value = bytes.fromhex(key), bytes.fromhex(value)
    bad = [(whole_key[:size], whole_value) for size in range(len(whole_key))]
    bad += [(whole_key, whole_value[:size]) for size in range(len(whole_value))]
    bad += [(whole_key[:size], None) for size in range(len(whole_key))]
    bad += [(whole_key + b"\0", whole_value), (whole_key, whole_value + b"\0"), (None, whole_value)]
    for pair in bad:
        with pytest.raises(Unreadable):
            decode(*pair)


@ALL
def test_cluster_01_codec_a_null_value_is_a_tombstone_of_its_key(record: Any, key: str, value: str) -> None:
    """And no record: whoever reads it forgets the key."""
    decode: Callable[..., Any] = CODECS[type(record)][1]
    assert decode(bytes.fromhex(key), None) == Tombstone(record.key)
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) != Tombstone(record.key)


@pytest.mark.parametrize("name", ["CP1", "CP2", "HB1"])
@pytest.mark.parametrize("version", [1, -1, 0x7FFF])
def test_cluster_01_codec_an_unknown_version_has_an_error_of_its_own(name: str, version: int) -> None:
    """So that it can be counted, whatever follows it; a sync's value has no version."""
    record, key, value = VECTORS[name]
    decode: Callable[..., Any] = CODECS[type(record)][1]
    for rest in (bytes.fromhex(value)[2:], b""):
        with pytest.raises(UnknownVersion, match=f"version {version} ") as error:
            decode(bytes.fromhex(key), version.to_bytes(2, "big", signed=True) + rest)
        assert error.value.version == version


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("ffff00000003", "00" * 16, "key, topic: claims -1 bytes"),
        ("8000" + "41" * 9, "00" * 16, "key, topic: claims -32768 bytes"),
        ("00ff4100000000", "00" * 16, "claims 255 bytes at 2, 5 are left"),
        ("0001ff00000000", "00" * 16, "topic: is not UTF-8 at its byte 0"),
        ("000141ffffffff", "00" * 16, "partition: -1 is negative"),
        ("00014100000000", "ff" * 8 + "00" * 8, "value, upstream: -1 is negative"),
        ("00014100000000", "00" * 8 + "ff" * 8, "value, downstream: -1 is negative"),
    ],
)
def test_cluster_01_codec_names_the_field_that_cannot_be_read(key: str, value: str, says: str) -> None:
    """With what it holds."""
    with pytest.raises(Unreadable, match=says):
        decode_sync(bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (sync("a" * 32_768, 0, 0, 0), "topic 'aaa.* takes 32768 bytes; a record holds at most 32767"),
        (sync("é" * 16_384, 0, 0, 0), "takes 32768 bytes"),
        (sync("\ud800", 0, 0, 0), "holds half of a character"),
        (sync("orders", 2**31, 0, 0), "partition 2147483648 is not within 0 and 2147483647"),
        (sync("orders", 0, -1, 0), "upstream -1 is not within"),
        (sync("orders", 0, 0, 2**63), "downstream 9223372036854775808 is not within"),
    ],
)
def test_what_does_not_fit_a_record_is_refused(record: OffsetSync, says: str) -> None:
    """Before a byte is written."""
    with pytest.raises(Rejected, match=says):
        encode_sync(record)


def text(longest: int = 32_767) -> st.SearchStrategy[str]:
    """Any text that UTF-8 writes in at most so many bytes."""
    some = st.text(st.characters(codec="utf-8"))
    long = st.builds(lambda one, times: one * (times // len(one.encode())), st.characters(codec="utf-8"),
                     st.just(longest))  # fmt: skip
    return st.one_of(some, long)


INT32, INT64 = st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
RECORDS = st.one_of(
    st.builds(OffsetSync, topic=text(), partition=INT32, upstream=INT64, downstream=INT64),
    st.builds(
        Checkpoint,
        group=text(),
        topic=text(),
        partition=INT32,
        upstream=INT64,
        downstream=INT64,
        metadata=text(),
    ),
    st.builds(Heartbeat, source_alias=text(), target_alias=text(), timestamp_ms=INT64),
)


@given(record=RECORDS)
def test_cluster_01_codec_decodes_whatever_it_encodes(record: Any) -> None:
    """Texts of up to 32,767 bytes of UTF-8, and the largest numbers."""
    encode, decode = CODECS[type(record)]
    assert decode(*encode(record)) == record


@given(key=st.binary(max_size=40), value=st.one_of(st.none(), st.binary(max_size=40)))
def test_cluster_01_codec_any_bytes_end_with_a_record_or_an_error_of_ours(
    key: bytes, value: bytes | None
) -> None:
    """And what is read is what would be written."""
    for encode, decode in CODECS.values():
        try:
            record = decode(key, value)
        except Unreadable:
            continue
        assert isinstance(record, Tombstone) or encode(record) == (key, value)
