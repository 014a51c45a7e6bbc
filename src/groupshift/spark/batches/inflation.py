"""Compressed batches become plain ones, before their records are read."""

# ruff: noqa: PLR2004 - places and versions that the format fixes

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupshift.errors import Broken
from groupshift.spark.batches.codecs import inflate
from groupshift.spark.batches.headers import (
    APPEND_TIME,
    ATTRIBUTES,
    CODEC_MASK,
    COUNT,
    END,
    LAST,
    MAGIC,
    MAX_TIMESTAMP,
    OFFSET,
    POSITION,
    SHORTEST_RECORD,
    SOURCE,
    START,
    TIMESTAMP,
    read_headers,
)

PIECE = 32 * 1024 * 1024
"""Bytes of inflated batches that are held at a time, where not one batch alone is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where bytes were taken from, for sentences: a file or an answer, and the byte they begin at."""

    name: str
    position: int = 0

    def broken(self, row: Any, why: str) -> Broken:
        """The error for one batch of a table."""
        return Broken(
            f"{self.name}: byte {self.position + int(row[POSITION])}, the batch at offset "
            f"{int(row[OFFSET])}: {why}; take it again from a replica"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Batches without compression: their bytes are in ``log`` or ``inflated`` (uint8), as ``table`` says."""

    log: Any
    inflated: Any
    table: Any


def expand(log: Any, table: Any, origin: Origin) -> Iterator[Plain]:
    """Inflate the compressed batches of ``table`` (see `headers`), each wrapper into its messages.

    Pieces of the table in order: one ends where its batches would together be more than `PIECE` bytes.
    Raises `Broken` naming the batch that cannot be inflated or is larger than a batch may be.
    """
    parts: list[Any] = []
    tables: list[Any] = []
    done, size = 0, 0
    for number in np.flatnonzero(table[:, ATTRIBUTES] & CODEC_MASK):
        content, rows = _inflated(log, table[number], origin)
        if parts and size + len(content) > PIECE:
            yield _plain(log, parts, [*tables, table[done:number]])
            parts, tables, done, size = [], [], int(number), 0
        rows[:, START] += size
        rows[:, END] += size
        tables += [table[done:number], rows]
        parts.append(content)
        done, size = int(number) + 1, size + len(content)
    yield _plain(log, parts, [*tables, table[done:]])


def _plain(log: Any, parts: list[Any], tables: list[Any]) -> Plain:
    inflated = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, dtype=np.uint8)])
    return Plain(log=_frozen(log), inflated=_frozen(inflated), table=np.concatenate(tables))


def _frozen(data: Any) -> Any:
    """A read-only view: compiled functions see one type of array, whatever the caller's is."""
    view = data.view()
    view.flags.writeable = False
    return view


def _inflated(log: Any, row: Any, origin: Origin) -> tuple[Any, Any]:
    """The content of one compressed batch, and the batches in it."""
    codec, magic = int(row[ATTRIBUTES]) & CODEC_MASK, int(row[MAGIC])
    try:
        payload = _nullable(log[row[START] : row[END]]) if magic < 2 else log[row[START] : row[END]].tobytes()
        content = np.frombuffer(inflate(codec, payload, magic=magic), dtype=np.uint8)
    except Broken as error:
        raise origin.broken(row, str(error)) from error
    if magic < 2:
        return content, _messages(content, row, origin)
    if row[COUNT] > len(content) // SHORTEST_RECORD:
        raise origin.broken(row, f"its {row[COUNT]} records do not fit in {len(content)} bytes")
    single = row[None].copy()
    single[0, [START, END, SOURCE]] = 0, len(content), 1
    return content, single


def _nullable(body: Any) -> bytes:
    """The value of a wrapping message: an int32 length after its key, which is null."""
    raw: bytes = body.tobytes()
    key = int.from_bytes(raw[:4], "big", signed=True)
    at = 8 + max(key, 0)
    length = int.from_bytes(raw[at - 4 : at], "big", signed=True)
    if length < 0 or at + length != len(raw):
        raise Broken("its length cannot be right")
    return raw[at:]


def _messages(content: Any, wrapper: Any, origin: Origin) -> Any:
    """The messages in a wrapper, with their own offsets and times.

    In format 1 they count from 0 and the wrapper has the last one's offset (KIP-31); a wrapper whose time
    the broker set gives it to all of them (KIP-32).
    """
    tables, at = [], 0
    while at < len(content):
        found = read_headers(_frozen(content[at:]))
        if found.damage or not len(found.table) or (found.table[:, ATTRIBUTES] & CODEC_MASK).any():
            raise origin.broken(wrapper, "the messages in it are damaged")
        found.table[:, [START, END]] += at
        tables.append(found.table)
        at += found.end
    if not tables:
        return np.empty((0, len(wrapper)), dtype=np.int64)
    rows = np.concatenate(tables)
    if wrapper[MAGIC] == 1:
        rows[:, OFFSET] += wrapper[OFFSET] - rows[-1, OFFSET]
    if wrapper[MAGIC] == 1 and wrapper[ATTRIBUTES] & APPEND_TIME:
        rows[:, [TIMESTAMP, MAX_TIMESTAMP]] = wrapper[TIMESTAMP]
    rows[:, LAST] = rows[:, OFFSET]
    rows[:, POSITION] = wrapper[POSITION]
    rows[:, SOURCE] = 1
    return rows
