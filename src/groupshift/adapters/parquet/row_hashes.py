"""Two 64-bit hashes of each row of committed offsets, and checksums of many rows: no Spark, no row in Python.

Rows are Arrow tables. A hash starts from a seed and takes in one 64-bit word after the other,
``h = mix(h * factor + word)``, where ``mix`` is the finaliser of splitmix64 (a bijection; Steele, Lea, Flood,
OOPSLA 2014). A number is one word; a text is one word too: its length and its bytes, eight at a time, taken
in the same way. Texts are read as Parquet keeps them, coded by a dictionary, and hashed once a dictionary.
Both hashes differ in seed and factor, from the texts on. What is absent counts as -1 and as an empty text.

A checksum is the number of rows and the sum of either hash (of the key and the compared values) modulo 2^64,
of one segment: the rows whose key's hash ends with the same bits. The order of rows and files does not
matter, and checksums of parts add up to that of the whole, so a comparison can be resumed. For two different
sets of rows to get the same checksum, both sums must collide: about 2^-128 if the hashes behave as random;
over 2^18 segments less than 2^-109. It is no defence against an author of rows who aims at it; the SHA-256 of
the manifest is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from groupshift.domain.equality_rules import Field
from groupshift.domain.snapshot import CLUSTER_TABLES, KEY, ColumnType

Words = NDArray[np.uint64]
_Column = tuple[tuple[Words, Words], NDArray[np.int32] | None]

_LANES = ((0x243F6A8885A308D3, 0x9E3779B97F4A7C15), (0x13198A2E03707345, 0xD1342543DE82EF95))
"""Seed and odd factor of either hash."""
_FIRST_FACTOR, _SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASKS = np.array([(1 << 8 * held) - 1 for held in range(9)], dtype=np.uint64)
_ROWS_AT_ONCE = 1 << 16
"""Few enough for the caches of a processor."""

_TYPES = {column.name: column.type for column in CLUSTER_TABLES["offsets"].columns}
_ARROW = {ColumnType.STRING: pa.binary(), ColumnType.INT: pa.int32(), ColumnType.LONG: pa.int64()}


def committed(path: Path, values: Sequence[Field]) -> Iterator[pa.Table]:
    """Yield key, offset and ``values`` of what was committed (group-coordinator.md §6.2: -1 is nothing).

    Each table is one row group of the Parquet file; its texts are coded by a dictionary.

    Raises:
        pyarrow.ArrowException, OSError: the file is not what its manifest says.
    """
    names = list(dict.fromkeys([*KEY, Field.OFFSET.value, *(field.value for field in values)]))
    texts = [name for name in names if _TYPES[name] is ColumnType.STRING]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=names, use_threads=False)
            some = pc.greater_equal(table[Field.OFFSET], 0)
            yield table if pc.all(some, min_count=0).as_py() else table.filter(some)


def plain(table: pa.Table, values: Sequence[Field]) -> pa.Table:
    """Return key and ``values`` without dictionaries and nulls, texts as bytes. What is absent is -1 or
    empty."""
    names = [*KEY, *(field.value for field in values)]
    columns = [table[name].cast(_ARROW[_TYPES[name]]) for name in names]
    absent = [b"" if _TYPES[name] is ColumnType.STRING else -1 for name in names]
    return pa.table(
        {name: column.fill_null(none) for name, column, none in zip(names, columns, absent, strict=True)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashes:
    """Of every row: ``key`` of its key alone, ``first`` and ``second`` of key and values."""

    key: Words
    first: Words
    second: Words


def hashed(table: pa.Table, values: Sequence[Field]) -> Hashes:
    """Return the hashes of the rows of a table as `committed` gives it, in its order."""
    hashes = [np.full(len(table), seed, dtype=np.uint64) for seed, _ in _LANES]
    key_columns = [_words(table[name], name) for name in KEY]
    value_columns = [_words(table[field.value], field.value) for field in values]
    key = np.empty(len(table), dtype=np.uint64)

    def take_in(columns: Sequence[_Column], part: slice) -> None:
        for lanes, codes in columns:
            for words, hashes_of_lane, (_, factor) in zip(lanes, hashes, _LANES, strict=True):
                _chained(hashes_of_lane[part], words[part] if codes is None else words[codes[part]], factor)

    for start in range(0, len(table), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        take_in(key_columns, part)
        key[part] = hashes[0][part]
        take_in(value_columns, part)
    return Hashes(key=key, first=hashes[0], second=hashes[1])


def _chained(hashes: Words, words: Words, factor: int) -> Words:
    """Take one word into each hash, in place."""
    hashes *= factor
    hashes += words
    hashes ^= hashes >> 30
    hashes *= _FIRST_FACTOR
    hashes ^= hashes >> 27
    hashes *= _SECOND_FACTOR
    hashes ^= hashes >> 31
    return hashes


def _words(column: pa.ChunkedArray, name: str) -> _Column:
    """A column as words, one array for either hash, and the codes that point into them (None: a row each)."""
    if _TYPES[name] is not ColumnType.STRING:
        numbers = column.cast(pa.int64()).fill_null(-1).to_numpy().view(np.uint64)
        return (numbers, numbers), None
    if not pa.types.is_dictionary(column.type):
        return _texts(column.cast(pa.large_binary()).fill_null(b"").combine_chunks()), None
    coded = column.unify_dictionaries().combine_chunks()
    known = coded.dictionary.cast(pa.large_binary())
    lanes = _texts(pa.concat_arrays([known, pa.array([b""], pa.large_binary())]))
    return lanes, coded.indices.cast(pa.int32()).fill_null(len(known)).to_numpy()


def _texts(texts: pa.LargeBinaryArray) -> tuple[Words, Words]:
    """Both words of each text, eight bytes of all texts at a time."""
    count = len(texts)
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64, count=count + 1, offset=8 * texts.offset)
    held = np.zeros(int(bounds[-1] - bounds[0]) + 8, dtype=np.uint8)
    if data is not None:
        held[:-8] = np.frombuffer(data, dtype=np.uint8)[bounds[0] : bounds[-1]]
    words: Words = np.ndarray(shape=(len(held) - 7,), dtype=np.dtype("<u8"), buffer=held, strides=(1,))
    lengths, starts = np.diff(bounds), bounds[:-1] - bounds[0]
    lanes = [
        _chained(np.full(count, seed, dtype=np.uint64), lengths.view(np.uint64), factor)
        for seed, factor in _LANES
    ]
    longer, at = np.flatnonzero(lengths), 0
    while len(longer):
        word = words[starts[longer] + at] & _MASKS[np.minimum(lengths[longer] - at, 8)]
        for lane, (_, factor) in zip(lanes, _LANES, strict=True):
            lane[longer] = _chained(lane[longer], word, factor)
        at += 8
        longer = longer[lengths[longer] > at]
    return lanes[0], lanes[1]


SUMS = ("rows", "first", "second")


def segment(keys: Words, segments: int) -> NDArray[np.int64]:
    """Return the number of each row's segment, by the hash of its *whole* key: a group of millions of rows is
    spread as evenly as many groups of one. ``segments`` is a power of two."""
    return (keys & (segments - 1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Segments:
    """Checksums of all segments of some rows; ``sums`` is an uint64 array of shape (3, segments)."""

    sums: Words

    @classmethod
    def none(cls, segments: int) -> Segments:
        """Return the checksums of no rows."""
        return cls(np.zeros((len(SUMS), segments), dtype=np.uint64))

    def add_rows(self, hashes: Hashes) -> None:
        """Take in further rows."""
        at = segment(hashes.key, self.sums.shape[1])
        self.sums[0] += np.bincount(at, minlength=self.sums.shape[1]).astype(np.uint64)
        np.add.at(self.sums[1], at, hashes.first)
        np.add.at(self.sums[2], at, hashes.second)

    def add(self, part: pa.Table) -> None:
        """Take in the checksums of further rows, as `table` gives them."""
        for row, name in enumerate(SUMS):
            self.sums[row] += part.column(name).to_numpy()

    def table(self) -> pa.Table:
        """One row a segment, in their order."""
        return pa.table(dict(zip(SUMS, map(pa.array, self.sums), strict=True)))

    def differing(self, other: Segments) -> NDArray[np.int64]:
        """Numbers of the segments whose checksums differ."""
        return np.flatnonzero((self.sums != other.sums).any(axis=0))


def differing_rows(before: Hashes, after: Hashes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell of each row of either side whether it is left to compare: all are, but those of keys that each
    side has once with the same values. A key that is there twice is left, and so are two keys of one hash."""
    keys = np.concatenate([before.key, after.key])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.concatenate([before.first, after.first])[order]
    seconds = np.concatenate([before.second, after.second])[order]
    later = order >= len(before.key)
    starts = np.ones(len(keys) + 1, dtype=np.bool_)
    starts[1:-1] = keys[1:] != keys[:-1]
    pair = starts[:-2] & ~starts[1:-1] & starts[2:] & ~later[:-1] & later[1:]
    pair &= (firsts[:-1] == firsts[1:]) & (seconds[:-1] == seconds[1:])
    left = np.ones(len(keys), dtype=np.bool_)
    at = np.flatnonzero(pair)
    left[order[at]] = left[order[at + 1]] = False
    return left[: len(before.key)], left[len(before.key) :]
