"""Decoder of batches of coordinator records: one compiled loop, and Python for unusual records.

The loop takes the usual record apart, nested values included (`groupshift.spark.batches.coordinator_values`),
and vouches for nothing else: what it leaves is for the decoder in Python.

`RAW_COLUMNS` and `DECODED` are the columns of raw and of decoded records. The fields of a commit's value are
columns of their own; ``decoded`` is JSON, and null for commits.

Source: docs/reference/group-coordinator.md §§1.3, 1.4, 1.9 and 2.
"""

# ruff: noqa: PLR2004 - widths, types and versions that the format fixes

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupshift.log import Decoded, LogRecord, decode
from groupshift.log.schema import COMMITS, TYPES
from groupshift.spark.batches.compiled import compiled, int16, int32, int64
from groupshift.spark.batches.coordinator_json import EXPANSION, HEAD, Bytes, Ints, base64_id, inner
from groupshift.spark.batches.coordinator_values import write_value
from groupshift.spark.output import arrow_columns

# What `parse` says of a record, by column.
USUAL, TYPE, GROUP, GROUP_SIZE, SECOND, SECOND_SIZE, NUMBER, HASH, VERSION = range(9)
OFFSET, EPOCH, NOTE, NOTE_SIZE, TIME, MORE, TOPIC_ID, JSON, JSON_SIZE = range(9, 18)
ROW_WIDTH = 18
_TWO_NAMES = np.isin(np.arange(24), (5, 7, 8, 10, 13, 14, 16, 19, 21, 22))
_DAMAGED = -(1 << 40)


@inner
def _hash(data: Bytes, begin: int, end: int) -> int:
    """String.hashCode over UTF-16 code units of UTF-8 text; `_DAMAGED` where it is none."""
    value: Any = np.int64(0)
    at = begin
    while at < end:
        lead = np.int64(data[at])
        if lead < 0x80:
            value, at = (31 * value + lead) & 0xFFFFFFFF, at + 1
            continue
        more = 1 if 0xC2 <= lead < 0xE0 else 2 if 0xE0 <= lead < 0xF0 else 3 if 0xF0 <= lead < 0xF5 else 0
        if more == 0 or at + more >= end:
            return _DAMAGED
        point = lead & (0x3F >> more)
        for index in range(1, more + 1):
            byte = np.int64(data[at + index])
            if byte & 0xC0 != 0x80:
                return _DAMAGED
            point = point << 6 | (byte & 0x3F)
        least = 0x80 if more == 1 else 0x800 if more == 2 else 0x10000
        if point < least or 0xD800 <= point < 0xE000 or point > 0x10FFFF:
            return _DAMAGED
        if point < 0x10000:
            value = (31 * value + point) & 0xFFFFFFFF
        else:
            high, low = 0xD800 + ((point - 0x10000) >> 10), 0xDC00 + ((point - 0x10000) & 0x3FF)
            value = (31 * ((31 * value + high) & 0xFFFFFFFF) + low) & 0xFFFFFFFF
        at += more + 1
    return int(value - (1 << 32) if value >> 31 else value)


@inner
def _key(data: Bytes, begin: int, end: int, row: Ints) -> bool:
    """Type, names and number of a key of a known type that ends where it should."""
    if end - begin < 4:
        return False
    kind, size = int16(data, begin), int16(data, begin + 2)
    if kind < 0 or kind > 23 or size < 0 or begin + 4 + size > end:
        return False
    row[TYPE], row[GROUP], row[GROUP_SIZE] = kind, begin + 4, size
    row[SECOND_SIZE] = -1
    at = begin + 4 + size
    if kind < 2 or _TWO_NAMES[kind]:
        if at + 2 > end:
            return False
        second = int16(data, at)
        row[SECOND], row[SECOND_SIZE] = at + 2, second
        at += 2 + second
        if second < 0 or at > end or _hash(data, row[SECOND], at) == _DAMAGED:
            return False
    if kind < 2:
        if at + 4 != end:
            return False
        row[NUMBER] = int32(data, at)
        at += 4
    row[HASH] = _hash(data, row[GROUP], row[GROUP] + size)
    return at == end and row[HASH] != _DAMAGED  # type: ignore[no-any-return]


@inner
def _note(data: Bytes, at: int, version: int, row: Ints) -> int:
    """Where a commit's metadata ends; their place and size into ``row``; -1 for an unusual length."""
    size: Any = np.int64(data[at])
    if version < 4:
        size, at = int16(data, at), at + 2
    elif size < 0x80:
        size, at = size - 1, at + 1
    else:
        high = np.int64(data[at + 1])
        size, at = (size & 0x7F) + (high << 7) - 1, at + 2
        if high == 0 or high >= 0x80:
            return -1
    row[NOTE], row[NOTE_SIZE] = at, size
    return -1 if size < 0 else at + size


@inner
def _commit(data: Bytes, begin: int, end: int, row: Ints) -> bool:
    """The value of a commit, versions 0 to 4, with no tag or only the topic's id."""
    if end - begin < 20:
        return False
    version = int16(data, begin)
    if version < 0 or version > 4:
        return False
    row[VERSION], row[OFFSET], row[TOPIC_ID] = version, int64(data, begin + 2), -1
    row[EPOCH] = int32(data, begin + 10)
    at = _note(data, begin + (14 if version >= 3 else 10), version, row)
    rest = 16 if version == 1 else 9 if version == 4 else 8
    if at < 0 or at + rest > end or _hash(data, row[NOTE], at) == _DAMAGED:
        return False
    row[TIME] = int64(data, at)
    if version == 1:
        row[MORE] = int64(data, at + 8)
    if version < 4 or data[at + 8] == 0:
        return at + rest == end
    row[TOPIC_ID] = at + 11
    return at + 27 == end and data[at + 8] == 1 and data[at + 9] == 0 and data[at + 10] == 16


@compiled
def parse(
    keys: Bytes, key_starts: Ints, values: Bytes, value_starts: Ints, dead: npt.NDArray[np.bool_]
) -> tuple[Ints, Bytes]:
    """One row of `ROW_WIDTH` numbers per record, and the JSON of nested values.

    Names, notes and ids are given by place and size; ``dead`` are tombstones.
    """
    count, live, done = len(dead), 0, 0
    rows = np.zeros((count, ROW_WIDTH), np.int64)
    for index in range(count):
        row = rows[index]
        if _key(keys, key_starts[index], key_starts[index + 1], row):
            row[USUAL] = 1
            if row[TYPE] >= 2 and not dead[index]:
                live += HEAD + EXPANSION * (value_starts[index + 1] - value_starts[index])
    out, place = np.empty(live, np.uint8), np.zeros(4, np.int64)
    for index in range(count):
        row = rows[index]
        if row[USUAL] == 0 or dead[index]:
            continue
        begin, end = value_starts[index], value_starts[index + 1]
        if row[TYPE] < 2:
            row[USUAL] = 1 if _commit(values, begin, end, row) else 0
            continue
        place[0], place[1], place[2], place[3] = begin, end, done, 1
        write_value(values, out, place, row[TYPE])
        row[USUAL] = 1 if place[3] and place[0] == end else 0
        if row[USUAL]:
            row[VERSION] = int16(values, begin)
            row[JSON], row[JSON_SIZE] = done, place[2] - done
            done = place[2]
    return rows, out


@compiled
def gather(data: Bytes, places: Ints, sizes: Ints) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Pieces of ``data`` one behind the other in Arrow's layout; a size below 0 counts as 0."""
    starts = np.zeros(len(places) + 1, np.int32)
    total = 0
    for index in range(len(places)):
        total += max(sizes[index], 0)
        starts[index + 1] = total
    out = np.empty(total, np.uint8)
    for index in range(len(places)):
        at, begin = starts[index], places[index]
        for step in range(starts[index + 1] - at):
            out[at + step] = data[begin + step]
    return starts, out


@compiled
def topic_ids(data: Bytes, places: Ints) -> Bytes:
    """Kafka's text form, 22 bytes each, of the ids at these places."""
    out = np.empty(22 * len(places), np.uint8)
    for index in range(len(places)):
        base64_id(data, places[index], out, 22 * index)
    return out


def home_of(hashes: Any, partitions: int) -> Any:
    """The partition of each hash (§2): abs(-2^31) is 0."""
    return np.where(hashes == -(1 << 31), 0, np.abs(hashes)) % partitions


RAW_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")
DECODED = (
    "src_partition int, src_offset bigint, record_ts bigint, record_type int, type_name string, "
    "key_version int, group_id string, group_guessed boolean, member_id string, topic string, partition int, "
    "is_tombstone boolean, value_version int, layout string, committed_offset bigint, leader_epoch int, "
    "metadata string, commit_timestamp_ms bigint, expire_timestamp_ms bigint, topic_id string, "
    "decoded string, unknown_tags map<string,string>, raw_key binary, raw_value binary, "
    "decode_status string, problem string, expected_partition int, is_foreign boolean"
)
"""Schema of decoded rows; ``record_ts`` and the timestamps of commits are epoch ms."""

COLUMNS = arrow_columns(DECODED)
"""The columns of decoded rows with their types in Arrow."""
_COMMIT_FIELDS = {
    "committed_offset": "offset",
    "leader_epoch": "leaderEpoch",
    "metadata": "metadata",
    "commit_timestamp_ms": "commitTimestamp",
    "expire_timestamp_ms": "expireTimestamp",
    "topic_id": "topicId",
}


def log_records(rows: pa.RecordBatch | pa.Table) -> Iterator[LogRecord]:
    """Raw rows (`RAW_COLUMNS`) as the decoder in Python takes them."""
    columns = (rows.column(name).to_pylist() for name in RAW_COLUMNS)
    for partition, offset, timestamp_ms, key, value in zip(*columns, strict=True):
        yield LogRecord(partition=partition, offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)


def by_python(records: Iterable[LogRecord], partitions: int | None) -> pa.RecordBatch:
    """Records as the decoder in Python sees them: the oracle of the compiled one."""
    rows = [decode(record, partitions=partitions) for record in records]
    arrays = [pa.array([cell(row, name) for row in rows], kind) for name, kind in COLUMNS.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def cell(row: Decoded, column: str) -> Any:
    """What a decoded row of the oracle has in a column of `DECODED`."""
    commit = row.record_type in COMMITS
    if column in _COMMIT_FIELDS:
        return row.decoded.get(_COMMIT_FIELDS[column]) if commit and row.decoded else None
    if column == "decoded" and (commit or row.decoded is None):
        return None
    if column == "decoded":
        return json.dumps(row.decoded, ensure_ascii=False, separators=(",", ":"))
    if column == "unknown_tags":
        return list(row.unknown_tags.items())
    if column == "decode_status":
        return row.decode_status.value
    return getattr(row, column)


_NAMES = pa.array([TYPES[number].name for number in range(len(TYPES))], pa.string())


def decoded_batches(batch: pa.RecordBatch, partitions: int | None) -> Iterator[pa.RecordBatch]:
    """The usual records of a batch, then the odd ones."""
    raw = {name: batch.column(name) for name in RAW_COLUMNS}
    keys, values = _buffers(raw["key"]), _buffers(raw["value"])
    dead = np.asarray(raw["value"].is_null(), dtype=bool)
    rows, text = parse(*keys, *values, dead)
    usual = rows[:, USUAL] == 1
    if usual.all():
        yield _assembled(raw, _Parsed(rows, text, keys[0], values[0], dead), partitions)
        return
    if usual.any():
        chosen = {name: column.filter(pa.array(usual)) for name, column in raw.items()}
        yield _assembled(chosen, _Parsed(rows[usual], text, keys[0], values[0], dead[usual]), partitions)
    yield by_python(log_records(batch.filter(pa.array(~usual))), partitions)


def _buffers(column: pa.Array) -> tuple[Any, Any]:
    """The bytes of a binary column, and where each of its values begins and the last one ends."""
    _, starts, data = column.buffers()
    begins = np.frombuffer(starts, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), begins.astype(np.int64)


class _Parsed:
    """What `coordinator_records.parse` found, column by column as Arrow wants it."""

    def __init__(self, rows: Any, text: Any, keys: Any, values: Any, dead: Any) -> None:
        self.rows, self.text, self.keys, self.values = rows, text, keys, values
        self.kind = rows[:, TYPE]
        self.commit = self.kind < 2
        self.live = ~dead
        self.valued = self.commit & self.live

    def number(self, column: int, kind: pa.DataType, there: Any) -> pa.Array:
        """A column of numbers, null where they are not ``there``."""
        return pa.array(self.rows[:, column], mask=~there).cast(kind)

    def string(self, data: Any, column: int, there: Any) -> pa.Array:
        """A column of pieces of ``data``: place in ``column``, size in the next."""
        sizes = np.where(there, self.rows[:, column + 1], 0)
        return _strings(*gather(data, self.rows[:, column].copy(), sizes), there)


def _strings(starts: Any, data: Any, there: Any) -> pa.Array:
    """An Arrow column of texts from its bytes and where each begins, without copying; null where none is
    ``there``."""
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(there), [valid, pa.py_buffer(starts), pa.py_buffer(data)])


def _assembled(raw: dict[str, pa.Array], parsed: _Parsed, partitions: int | None) -> pa.RecordBatch:
    """Decoded rows (`COLUMNS`) of usual records: their columns as `_Parsed` has them, and the raw bytes.

    Only commits of version 4 have the id of a topic, as tag 0; no usual record has an unknown tag. Without
    ``partitions`` the places of groups are null."""
    rows, kind, commit, live = parsed.rows, parsed.kind, parsed.commit, parsed.live
    count, version, valued = len(kind), rows[:, VERSION], parsed.valued
    types, every, none = pa.array(kind.astype(np.int32)), np.ones(count, bool), pa.array([], pa.string())
    identified = valued & (version == 4) & (rows[:, TOPIC_ID] >= 0)
    id_starts = np.concatenate(([0], np.cumsum(identified * 22))).astype(np.int32)
    ids = topic_ids(parsed.values, rows[identified, TOPIC_ID].copy())
    home = home_of(rows[:, HASH], partitions or 1).astype(np.int32)
    unplaced = np.full(count, not partitions)
    made = {
        "src_partition": raw["partition"],
        "src_offset": raw["offset"],
        "record_ts": raw["timestamp_ms"],
        "record_type": types,
        "type_name": _NAMES.take(types),
        "key_version": types,
        "group_id": parsed.string(parsed.keys, GROUP, every),
        "group_guessed": pa.array(~every),
        "member_id": parsed.string(parsed.keys, SECOND, np.isin(kind, (5, 7, 8, 10, 13, 14, 19, 21, 22))),
        "topic": parsed.string(parsed.keys, SECOND, commit),
        "partition": parsed.number(NUMBER, pa.int32(), commit),
        "is_tombstone": pa.array(~live),
        "value_version": parsed.number(VERSION, pa.int32(), live),
        "layout": pa.array(["", "current"]).take(pa.array(live.astype(np.int8))),
        "committed_offset": parsed.number(OFFSET, pa.int64(), valued),
        "leader_epoch": parsed.number(EPOCH, pa.int32(), valued & (version >= 3)),
        "metadata": parsed.string(parsed.values, NOTE, valued),
        "commit_timestamp_ms": parsed.number(TIME, pa.int64(), valued),
        "expire_timestamp_ms": parsed.number(MORE, pa.int64(), valued & (version == 1)),
        "topic_id": _strings(id_starts, ids, identified),
        "decoded": parsed.string(parsed.text, JSON, live & ~commit),
        "unknown_tags": pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), none, none),
        "raw_key": raw["key"],
        "raw_value": raw["value"],
        "decode_status": pa.repeat("ok", count),
        "problem": pa.repeat("", count),
        "expected_partition": pa.array(home, mask=unplaced),
        "is_foreign": pa.array(home != np.asarray(raw["partition"]), mask=unplaced),
    }
    return pa.RecordBatch.from_arrays([made[name] for name in COLUMNS], names=list(COLUMNS))
