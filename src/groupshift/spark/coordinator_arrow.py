"""Batches of raw coordinator records → batches of decoded ones: compiled code, and Python for what is odd."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from groupshift.log import LogRecord
from groupshift.log.schema import TYPES
from groupshift.spark.batches import coordinator_records as cr
from groupshift.spark.coordinator_columns import COLUMNS, RAW_COLUMNS, by_python

_NAMES = pa.array([TYPES[number].name for number in range(len(TYPES))], pa.string())


def compiled_batches(partitions: int | None) -> Any:
    """A function for `mapInArrow`: raw batches in, decoded batches (`COLUMNS`) out."""

    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from decoded_batches(batch, partitions)

    return convert


def decoded_batches(batch: pa.RecordBatch, partitions: int | None) -> Iterator[pa.RecordBatch]:
    """The usual records of a batch, then the odd ones."""
    raw = {name: batch.column(name) for name in RAW_COLUMNS}
    keys, values = _buffers(raw["key"]), _buffers(raw["value"])
    dead = np.asarray(raw["value"].is_null(), dtype=bool)
    rows, text = cr.parse(*keys, *values, dead)
    usual = rows[:, cr.USUAL] == 1
    if usual.all():
        yield _assembled(raw, _Parsed(rows, text, keys[0], values[0], dead), partitions)
        return
    if usual.any():
        chosen = {name: column.filter(pa.array(usual)) for name, column in raw.items()}
        yield _assembled(chosen, _Parsed(rows[usual], text, keys[0], values[0], dead[usual]), partitions)
    odd = [column.filter(pa.array(~usual)).to_pylist() for column in raw.values()]
    yield by_python(
        (LogRecord(**dict(zip(_FIELDS, one, strict=True))) for one in zip(*odd, strict=True)), partitions
    )


_FIELDS = RAW_COLUMNS


def _buffers(column: pa.Array) -> tuple[Any, Any]:
    """The bytes of a binary column, and where each of its values begins and the last one ends."""
    _, starts, data = column.buffers()
    begins = np.frombuffer(starts, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), begins.astype(np.int64)


class _Parsed:
    """What `coordinator_records.parse` found, column by column as Arrow wants it."""

    def __init__(self, rows: Any, text: Any, keys: Any, values: Any, dead: Any) -> None:
        self.rows, self.text, self.keys, self.values = rows, text, keys, values
        self.kind = rows[:, cr.TYPE]
        self.commit = self.kind < 2  # noqa: PLR2004
        self.live = ~dead
        self.valued = self.commit & self.live

    def number(self, column: int, kind: pa.DataType, there: Any) -> pa.Array:
        """A column of numbers, null where they are not ``there``."""
        return pa.array(self.rows[:, column], mask=~there).cast(kind)

    def string(self, data: Any, column: int, there: Any) -> pa.Array:
        """A column of pieces of ``data``: place in ``column``, size in the next."""
        sizes = np.where(there, self.rows[:, column + 1], 0)
        return _strings(*cr.gather(data, self.rows[:, column].copy(), sizes), there)


def _strings(starts: Any, data: Any, there: Any) -> pa.Array:
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(there), [valid, pa.py_buffer(starts), pa.py_buffer(data)])


def _topic_ids(parsed: _Parsed) -> pa.Array:
    there = parsed.valued & (parsed.rows[:, cr.VERSION] == 4) & (parsed.rows[:, cr.TOPIC_ID] >= 0)  # noqa: PLR2004
    starts = np.concatenate(([0], np.cumsum(there * 22))).astype(np.int32)
    return _strings(starts, cr.topic_ids(parsed.values, parsed.rows[there, cr.TOPIC_ID].copy()), there)


def _assembled(raw: dict[str, pa.Array], parsed: _Parsed, partitions: int | None) -> pa.RecordBatch:
    count = len(parsed.kind)
    made = {
        "src_partition": raw["partition"],
        "src_offset": raw["offset"],
        "record_ts": raw["timestamp_ms"],
        **_key_columns(parsed),
        "is_tombstone": pa.array(~parsed.live),
        **_value_columns(parsed),
        "unknown_tags": _no_tags(count),
        "raw_key": raw["key"],
        "raw_value": raw["value"],
        "decode_status": _same("ok", count),
        "problem": _same("", count),
        **_placed(parsed, np.asarray(raw["partition"]), partitions),
    }
    return pa.RecordBatch.from_arrays([made[name] for name in COLUMNS], names=list(COLUMNS))


def _key_columns(parsed: _Parsed) -> dict[str, pa.Array]:
    kind, every = pa.array(parsed.kind.astype(np.int32)), np.ones(len(parsed.kind), bool)
    member = np.isin(parsed.kind, (5, 7, 8, 10, 13, 14, 19, 21, 22))
    return {
        "record_type": kind,
        "type_name": _NAMES.take(kind),
        "key_version": kind,
        "group_id": parsed.string(parsed.keys, cr.GROUP, every),
        "group_guessed": pa.array(~every),
        "member_id": parsed.string(parsed.keys, cr.SECOND, member),
        "topic": parsed.string(parsed.keys, cr.SECOND, parsed.commit),
        "partition": parsed.number(cr.NUMBER, pa.int32(), parsed.commit),
    }


def _value_columns(parsed: _Parsed) -> dict[str, pa.Array]:
    version, valued = parsed.rows[:, cr.VERSION], parsed.valued
    return {
        "value_version": parsed.number(cr.VERSION, pa.int32(), parsed.live),
        "layout": pa.array(["", "current"]).take(pa.array(parsed.live.astype(np.int8))),
        "committed_offset": parsed.number(cr.OFFSET, pa.int64(), valued),
        "leader_epoch": parsed.number(cr.EPOCH, pa.int32(), valued & (version >= 3)),  # noqa: PLR2004
        "metadata": parsed.string(parsed.values, cr.NOTE, valued),
        "commit_timestamp_ms": parsed.number(cr.TIME, pa.int64(), valued),
        "expire_timestamp_ms": parsed.number(cr.MORE, pa.int64(), valued & (version == 1)),
        "topic_id": _topic_ids(parsed),
        "decoded": parsed.string(parsed.text, cr.JSON, parsed.live & ~parsed.commit),
    }


def _placed(parsed: _Parsed, where: Any, partitions: int | None) -> dict[str, pa.Array]:
    home = cr.home_of(parsed.rows[:, cr.HASH], partitions or 1).astype(np.int32)
    unplaced = np.full(len(home), not partitions)
    return {
        "expected_partition": pa.array(home, mask=unplaced),
        "is_foreign": pa.array(home != where, mask=unplaced),
    }


def _same(text: str, count: int) -> pa.Array:
    starts = np.arange(count + 1, dtype=np.int32) * len(text)
    return _strings(starts, np.frombuffer((text * count).encode(), np.uint8), np.ones(count, bool))


def _no_tags(count: int) -> pa.Array:
    none = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), none, none)
