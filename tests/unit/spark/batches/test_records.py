"""Record batches of all formats and codecs are read as they were written, and damage is named."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.errors import Broken
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.headers import CONTROL, Ending, read_headers
from groupshift.spark.batches.records import read_records
from support.batch_encoder import APPEND_TIME, CODECS, Record, batch, marker, message_set
from support.foreign_batches import BATCHES, RECORDS

ORIGIN = Origin(name="00000000000000000000.log")
SHAPES = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if not (magic < 2 and codec == "zstd")]

Row = tuple[int, int, bytes | None, bytes | None]


def read(log: bytes, *, check: bool = True) -> list[Row]:
    """All records of a log, control records included; fails where the log does not end with a batch."""
    data = np.frombuffer(log, dtype=np.uint8)
    found: list[Row] = []
    at = 0
    while True:
        headers = read_headers(data[at:], check=check, capacity=7)
        assert headers.damage is None
        for part in read_records(data[at:], headers.table, ORIGIN):
            assert part.column("partition").to_pylist() == [0] * len(part)
            found += zip(*(each.to_pylist() for each in part.columns[1:]), strict=True)
        at += headers.end
        if headers.ending is not Ending.TABLE_FULL:
            assert at == len(log)
            return found


def written(records: Sequence[Record], magic: int, codec: str) -> bytes:
    """A log of one set of records."""
    return batch(records, codec) if magic == 2 else message_set(records, magic, codec)


def expected(records: Sequence[Record], magic: int) -> list[Row]:
    """What is read of them: format 0 has no times."""
    return [
        (record.offset, record.timestamp_ms if magic else -1, record.key, record.value) for record in records
    ]


def some(first: int, count: int, *, step: int = 1) -> list[Record]:
    """Records with gaps, nulls, empty fields and headers."""
    return [
        Record(
            offset=first + number * step,
            timestamp_ms=1_700_000_000_000 + number * 7,
            key=None if number % 5 == 4 else b"key-%d" % number,
            value=None if number % 3 == 2 else b"value" * (number % 40),
            headers=((b"h", None), (b"g", b"x" * number)) if number % 2 else (),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(("magic", "codec"), SHAPES)
def test_every_format_and_codec_is_read_as_written(magic: int, codec: str) -> None:
    """Several sets of records follow each other; offsets have gaps as after compaction."""
    sets = [some(10, 40), some(1000, 1), some(2**40, 200, step=3)]
    log = b"".join(written(each, magic, codec) for each in sets)
    assert read(log) == [row for each in sets for row in expected(each, magic)]


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[Row]]:
    """Sets of records of any formats and codecs, one after the other, and their rows."""
    log, rows, offset = b"", [], draw(st.integers(0, 2**50))
    for _ in range(draw(st.integers(1, 4))):
        magic, codec = draw(st.sampled_from(SHAPES))
        records = []
        for _ in range(draw(st.integers(1, 6))):
            data = st.none() | st.binary(max_size=300)
            records.append(
                Record(
                    offset=offset,
                    timestamp_ms=draw(st.integers(0, 2**45)),
                    key=draw(data),
                    value=draw(data),
                )
            )
            offset += draw(st.integers(1, 1000))
        log += written(records, magic, codec)
        rows += expected(records, magic)
    return log, rows


@settings(max_examples=150, deadline=None)
@given(logs())
def test_what_was_encoded_is_decoded(log_and_rows: tuple[bytes, list[Row]]) -> None:
    """Any mixture of formats and codecs comes back record by record."""
    log, rows = log_and_rows
    assert read(log) == rows


@settings(max_examples=150, deadline=None)
@given(logs(), st.data())
def test_a_torn_end_is_the_end_of_the_whole_batches_before_it(
    log_and_rows: tuple[bytes, list[Row]], data: st.DataObject
) -> None:
    """A log cut anywhere gives the batches that are whole, and no error."""
    log, rows = log_and_rows
    cut = data.draw(st.integers(0, len(log)))
    piece = np.frombuffer(log[:cut], dtype=np.uint8)
    headers = read_headers(piece)
    assert headers.ending is Ending.TORN
    got = [row for part in read_records(piece, headers.table, ORIGIN) for row in part["offset"].to_pylist()]
    assert got == [row[0] for row in rows[: len(got)]]
    whole = read(log[: headers.end])
    assert [row[0] for row in whole] == got


@settings(max_examples=300, deadline=None)
@given(logs(), st.data())
def test_a_changed_byte_is_never_read_as_something_else(
    log_and_rows: tuple[bytes, list[Row]], data: st.DataObject
) -> None:
    """One flipped bit is damage, or an end, or lies where no checksum reaches: offset and epoch."""
    log, rows = log_and_rows
    at = data.draw(st.integers(0, len(log) - 1))
    damaged = bytearray(log)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    piece = np.frombuffer(bytes(damaged), dtype=np.uint8)
    headers = read_headers(piece)
    if headers.end > at:  # accepted: then the record's bytes are untouched
        parts = list(read_records(piece, headers.table, ORIGIN))
        got = [(key, value) for part in parts for key, value in zip(part["key"], part["value"], strict=True)]
        assert [(k.as_py(), v.as_py()) for k, v in got] == [row[2:] for row in rows[: len(got)]]
    else:
        assert headers.ending in {
            Ending.CHECKSUM, Ending.LENGTH, Ending.FORMAT, Ending.TORN, Ending.BLANK
        }  # fmt: skip


def test_damage_in_the_middle_is_found_where_it_is() -> None:
    """The end is the position of the damaged batch, and its kind is said."""
    first, second = batch(some(0, 5)), bytearray(batch(some(5, 5)))
    second[80] ^= 1
    headers = read_headers(np.frombuffer(first + bytes(second) + first, dtype=np.uint8))
    assert (headers.end, headers.ending) == (len(first), Ending.CHECKSUM)
    assert headers.damage == "its checksum does not match its bytes"
    for place, wrong, kind in ((16, 7, Ending.FORMAT), (8, 0xFF, Ending.LENGTH)):
        damaged = bytearray(first * 2)
        damaged[len(first) + place] = wrong
        found = read_headers(np.frombuffer(bytes(damaged), dtype=np.uint8))
        assert (found.end, found.ending) == (len(first), kind)


def test_space_that_was_never_written_is_told_from_damage() -> None:
    """A preallocated segment ends in zeros."""
    log = batch(some(0, 5))
    headers = read_headers(np.frombuffer(log + bytes(100), dtype=np.uint8))
    assert (headers.end, headers.ending) == (len(log), Ending.BLANK)


def test_records_that_do_not_fit_their_batch_are_an_error_that_names_it() -> None:
    """A batch with a right checksum and wrong records is refused with file, byte and offset."""
    broken = bytearray(batch(some(40, 3)))
    broken[61] = 0x7E  # the first record's length: 63 bytes
    with pytest.raises(Broken, match=r"0000\.log: byte 500, the batch at offset 40: its records do not end"):
        _read_unchecked(bytes(broken), 500)
    short = bytearray(batch(some(40, 3), "gzip"))
    short[61] ^= 0xFF
    with pytest.raises(Broken, match=r"byte 7, the batch at offset 40: its records cannot be decompressed"):
        _read_unchecked(bytes(short), 7)


def _read_unchecked(log: bytes, position: int) -> None:
    data = np.frombuffer(log, dtype=np.uint8)
    table = read_headers(data, check=False).table
    list(read_records(data, table, Origin(name=ORIGIN.name, position=position)))


def test_a_count_that_cannot_be_is_refused_before_memory_is_taken_for_it() -> None:
    """Two thousand million records in a few bytes: plain and compressed."""
    for codec, message in (("none", None), ("gzip", "do not fit")):
        log = bytearray(batch(some(0, 3), codec))
        log[57:61] = struct.pack(">i", 2**31 - 1)
        headers = read_headers(np.frombuffer(bytes(log), dtype=np.uint8), check=False)
        if message is None:
            assert headers.ending is Ending.LENGTH
        else:
            with pytest.raises(Broken, match=message):
                _read_unchecked(bytes(log), 0)


def test_the_brokers_time_replaces_the_producers() -> None:
    """Log-append time: every record of the batch has the batch's time, in formats 1 and 2."""
    records = some(5, 4)
    plain = batch(records, attributes=APPEND_TIME, max_timestamp=99)
    assert {row[1] for row in read(plain)} == {99}
    for codec in ("gzip", "snappy", "lz4"):
        log = message_set(records, 1, codec, attributes=APPEND_TIME)
        assert {row[1] for row in read(log)} == {records[-1].timestamp_ms}


def test_markers_and_emptied_batches_are_seen() -> None:
    """A marker says how its transaction ended; a batch that compaction emptied keeps its offsets."""
    log = batch([], base=7, last=9, producer=4) + marker(10, 4, commit=True) + marker(11, 5, commit=False)
    table = read_headers(np.frombuffer(log, dtype=np.uint8)).table
    assert table[:, CONTROL].tolist() == [-1, 1, 0]
    assert table[:, :2].tolist() == [[7, 9], [10, 10], [11, 11]]
    assert [row[0] for row in read(log)] == [10, 11]


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_another_implementation_writes_what_we_read(magic: int, codec: int) -> None:
    """Batches of kafka-python, plain and gzip."""
    rows = [(n, 1000 + n if magic else -1, b"k%d" % n, b"v" * n) for n in range(RECORDS)]
    assert read(base64.b64decode(BATCHES[magic, codec])) == rows
