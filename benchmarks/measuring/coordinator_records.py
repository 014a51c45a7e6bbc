"""Made-up records of `__consumer_offsets`, shaped like real ones, fast and always the same for one seed.

Names and values are `coordinator_log`'s. Per log partition the records are 85 % commits (values v1 10 %, v3
45 %, v4 45 %, half of these with a topic id), 4 % classic group metadata and 11 % of types 3 to 8; a few
groups are busy, up to twelve partitions a topic; one record in five is a tombstone, whatever its type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from measuring.coordinator_log import (
    COMMIT_SHARES,
    COMMITS,
    FAMILIES,
    PARTITIONS,
    SHARES,
    START_MS,
    TOMBSTONES,
    TOPICS,
    commit,
    family_of,
    homes,
    string,
    value_of,
)

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The records of one log partition in log order: Arrow's own layout of binary columns."""

    partition: int
    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    key_starts: npt.NDArray[np.int32]
    keys: Bytes
    value_starts: npt.NDArray[np.int32]
    values: Bytes
    tombstones: npt.NDArray[np.bool_]

    def table(self) -> pa.Table:
        """Columns partition, offset, timestamp_ms, key, value."""
        rows = len(self.offsets)
        absent = pa.py_buffer(np.packbits(~self.tombstones, bitorder="little"))
        key = pa.Array.from_buffers(
            pa.binary(), rows, [None, pa.py_buffer(self.key_starts), pa.py_buffer(self.keys)]
        )
        value = pa.Array.from_buffers(
            pa.binary(), rows, [absent, pa.py_buffer(self.value_starts), pa.py_buffer(self.values)]
        )
        columns = {
            "partition": pa.array(np.full(rows, self.partition, np.int32)),
            "offset": pa.array(self.offsets),
            "timestamp_ms": pa.array(self.timestamps_ms),
            "key": key,
            "value": value,
        }
        return pa.table(columns)


def _tiled(base: bytes, rows: int) -> Bytes:
    return np.tile(np.frombuffer(base, np.uint8), (rows, 1))


def _put(rows: Bytes, at: int, numbers: npt.NDArray[np.int64], width: int) -> None:
    rows[:, at : at + width] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]


def _digits(rows: Bytes, at: int, numbers: npt.NDArray[np.int64], width: int) -> None:
    for place in range(width):
        rows[:, at + width - 1 - place] = numbers // 10**place % 10 + ord("0")


class _Made:
    """Records of one partition while they are put together class by class."""

    def __init__(self, rows: int) -> None:
        self.key_widths = np.zeros(rows, np.int64)
        self.value_widths = np.zeros(rows, np.int64)
        self.parts: list[tuple[npt.NDArray[np.int64], Bytes, Bytes]] = []

    def add(self, which: npt.NDArray[np.int64], keys: Bytes, values: Bytes) -> None:
        self.key_widths[which], self.value_widths[which] = keys.shape[1], values.shape[1]
        self.parts.append((which, keys, values))

    def joined(
        self, tombstones: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int32], Bytes, npt.NDArray[np.int32], Bytes]:
        widths = np.where(tombstones, 0, self.value_widths)
        key_starts, value_starts = (np.concatenate(([0], np.cumsum(w))) for w in (self.key_widths, widths))
        keys, values = np.empty(key_starts[-1], np.uint8), np.empty(value_starts[-1], np.uint8)
        for which, key, value in self.parts:
            keys[key_starts[which][:, None] + np.arange(key.shape[1])] = key
            live = ~tombstones[which]
            values[value_starts[which[live]][:, None] + np.arange(value.shape[1])] = value[live]
        return key_starts.astype(np.int32), keys, value_starts.astype(np.int32), values


def _keys(type_: int, groups: npt.NDArray[np.int64], rest: bytes) -> Bytes:
    family = FAMILIES[int(family_of(groups[0]))].encode()
    rows = _tiled(struct.pack(">h", type_) + string(family + b"00000") + rest, len(groups))
    _digits(rows, 4 + len(family), groups, 5)
    return rows


def _fill(
    made: _Made, which: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], rng: np.random.Generator
) -> None:
    """The records ``which`` of one family of group names: their kinds are drawn here."""
    kinds = list(SHARES)
    kind = rng.choice(len(kinds), len(which), p=list(SHARES.values()))
    for number, name in enumerate(kinds):
        chosen = kind == number
        if name == "commit":
            _fill_commits(made, which[chosen], groups[chosen], rng)
        else:
            _fill_metadata(made, which[chosen], groups[chosen], (name, rng))


def _fill_commits(
    made: _Made, which: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], rng: np.random.Generator
) -> None:
    topic = (groups + rng.integers(0, 2, len(which))) % len(TOPICS)
    layout = rng.choice(len(COMMITS), len(which), p=COMMIT_SHARES)
    for t in range(len(TOPICS)):
        for number, name in enumerate(COMMITS):
            chosen = np.flatnonzero((topic == t) & (layout == number))
            if not len(chosen):
                continue
            key = _keys(1, groups[chosen], string(TOPICS[t].encode()) + bytes(4))
            _put(key, key.shape[1] - 4, rng.integers(0, 12, len(chosen)), 4)
            base, stamp = commit(name)
            value = _tiled(base, len(chosen))
            _put(value, 2, rng.integers(0, 1 << 40, len(chosen)), 8)
            _put(value, stamp, START_MS + which[chosen] * 40, 8)
            made.add(which[chosen], key, value)


def _fill_metadata(
    made: _Made,
    which: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64],
    drawn: tuple[int | str, np.random.Generator],
) -> None:
    kind, rng = drawn
    variant, member = rng.integers(0, 4, len(which)), rng.integers(0, 3, len(which))
    for v in range(4):
        chosen = np.flatnonzero(variant == v)
        if not len(chosen):
            continue
        of_member = kind in {5, 7, 8}
        rest = string(b"consumer-00000000-7c1e-4f0e-9a61-0123456789ab") if of_member else b""
        key = _keys(2 if kind == "classic" else int(kind), groups[chosen], rest)
        if of_member:
            _digits(key, key.shape[1] - 36, groups[chosen] * 3 + member[chosen], 8)
        value = _tiled(value_of(kind, v), len(chosen))
        if kind in {3, 6, 8, "classic"}:
            _put(value, 12 if kind == "classic" else 2, rng.integers(1, 1 << 20, len(chosen)), 4)
        made.add(which[chosen], key, value)


def chunk(partition: int, rows: int, seed: int) -> Chunk:
    """``rows`` records of one log partition; a few groups are busy, most are not."""
    rng = np.random.default_rng((seed, partition))
    own = np.array([g for g, home in enumerate(homes()) if home == partition], np.int64)
    groups = own[(rng.random(rows) ** 2 * len(own)).astype(np.int64)]
    made = _Made(rows)
    for family in range(len(FAMILIES)):
        which = np.flatnonzero(family_of(groups) == family)
        if len(which):
            _fill(made, which, groups[which], rng)
    tombstones = rng.random(rows) < TOMBSTONES
    key_starts, keys, value_starts, values = made.joined(tombstones)
    return Chunk(
        partition=partition,
        offsets=np.cumsum(1 + (rng.random(rows) < 0.1)).astype(np.int64),
        timestamps_ms=START_MS + np.arange(rows, dtype=np.int64) * 40,
        key_starts=key_starts,
        keys=keys,
        value_starts=value_starts,
        values=values,
        tombstones=tombstones,
    )


def chunks(records: int, seed: int = 5) -> Iterator[Chunk]:
    """``records`` records over all partitions, one partition after the other."""
    for partition in range(PARTITIONS):
        yield chunk(
            partition, records * (partition + 1) // PARTITIONS - records * partition // PARTITIONS, seed
        )
