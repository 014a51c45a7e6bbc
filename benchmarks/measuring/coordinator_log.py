"""Made-up records of `__consumer_offsets`, shaped like real ones, fast and always the same for one seed.

Group names, topics and member ids are those of a busy cluster: 15,000 groups, names of different lengths (one
in a hundred beyond ASCII), up to twelve partitions a topic, three members a group. Per log partition the
records are 85 % commits (values v1 10 %, v3 45 %, v4 45 %, half of these with a topic id), 4 % classic group
metadata and 11 % of types 3 to 8; one in five is a tombstone, whatever its type. Encoded from the tables of
group-coordinator.md §§1.3 and 1.4 with a few lines of their own: not with the code that is measured.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

PARTITIONS, GROUPS, START_MS = 50, 15_000, 1_700_000_000_000
FAMILIES = ("etl-", "orders.settlement-", "risk_engine.positions-", "app-", "connect-sink-s3-", "zähler-")
TOPICS = (
    "orders",
    "payments.settled.v2",
    "clicks",
    "cdc.inventory.public.products",
    "logs-eu",
    "t",
    "trades",
)
SHARES = {"commit": 0.85, "classic": 0.04, 3: 0.025, 4: 0.005, 5: 0.02, 6: 0.02, 7: 0.02, 8: 0.02}
COMMITS = ("v1", "v3", "v3 noted", "v4", "v4 topic id")
COMMIT_SHARES = (0.10, 0.35, 0.10, 0.225, 0.225)
TOMBSTONES = 0.2
NOTE = b"spout-7/checkpoint 0001842 of 12"

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


def _family(groups: Any) -> Any:
    return np.where(groups % 100 == 0, len(FAMILIES) - 1, groups % (len(FAMILIES) - 1))


def name_of(group: int) -> str:
    """The name of group number ``group``."""
    return f"{FAMILIES[int(_family(np.int64(group)))]}{group:05d}"


def home_of(name: str) -> int:
    """The log partition of a group (§2)."""
    value = 0
    for unit in struct.unpack(f">{len(name.encode('utf-16-be')) // 2}H", name.encode("utf-16-be")):
        value = (31 * value + unit) & 0xFFFFFFFF
    value -= (value >> 31) << 32
    return (0 if value == -(1 << 31) else abs(value)) % PARTITIONS


@cache
def _homes() -> tuple[int, ...]:
    return tuple(home_of(name_of(group)) for group in range(GROUPS))


def _str(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


def _topic_id(topic: int) -> bytes:
    return bytes([topic + 1]) * 16


def _blob(topics: int, *, owned: bool) -> bytes:
    names = b"".join(
        _str(TOPICS[n].encode()) + (b"\0\0\0\2\0\0\0\0\0\0\0\1" if owned else b"") for n in range(topics)
    )
    tail = b"\xff\xff\xff\xff" if owned else b"\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff"
    return struct.pack(">hi", 3, topics) + names + tail


def _classic(members: int) -> bytes:
    head = (
        b"\0\3"
        + _str(b"consumer")
        + b"\0\0\0\5"
        + (_str(b"range") + _str(b"consumer-1") if members else b"\xff" * 4)
    )
    one = b""
    for number in range(members):
        subscription, assignment = _blob(1 + members, owned=False), _blob(members, owned=True)
        one += (
            _str(b"consumer-%d" % number)
            + b"\xff\xff"
            + _str(b"svc-%d" % number)
            + _str(b"/10.20.30.%d" % number)
        )
        one += struct.pack(">ii", 300_000, 45_000)
        one += (
            struct.pack(">i", len(subscription))
            + subscription
            + struct.pack(">i", len(assignment))
            + assignment
        )
    return head + struct.pack(">qi", START_MS, members) + one


def _assigned(topics: int) -> bytes:
    body = b"".join(_topic_id(n) + b"\4\0\0\0\0\0\0\0\1\0\0\0\2" + b"\0" for n in range(topics))
    return bytes([topics + 1]) + body


def _value(kind: int | str, variant: int) -> bytes:
    """A value of version 0 of types 3 to 8, or of v3 of type 2, with ``variant`` 0..3 deciding its size."""
    many = (0, 1, 3, 6)[variant]
    stamp = b"\1\0\x08" + struct.pack(">q", START_MS)
    values = {
        "classic": lambda: _classic(many),
        3: lambda: b"\0\0\0\0\0\6\1\0\x08" + bytes([0x11 * (variant + 1)]) * 8,
        4: lambda: b"\0\0" + bytes([many + 1]) + b"".join(_sized(n) for n in range(many)) + b"\0",
        5: lambda: _member(many),
        6: lambda: b"\0\0\0\0\0\6" + (stamp if variant % 2 else b"\0"),
        7: lambda: b"\0\0" + _assigned(many) + b"\0",
        8: lambda: b"\0\0\0\0\0\6\0\0\0\5\0" + _assigned(many) + b"\1\0",
    }
    return values[kind]()


def _sized(topic: int) -> bytes:
    return _topic_id(topic) + _compact(TOPICS[topic].encode()) + b"\0\0\0\x0c\1\0"


def _member(topics: int) -> bytes:
    names = b"".join(_compact(TOPICS[n].encode()) for n in range(topics))
    head = b"\0\0\0\0" + _compact(b"svc") + _compact(b"/10.20.30.4") + bytes([topics + 1]) + names
    return head + b"\1\0\4\x93\xe0" + _compact(b"uniform") + b"\1\0\1\0"


def _commit(kind: str) -> tuple[bytes, int]:
    """A commit's value, and where its commit timestamp stands."""
    note = NOTE if kind in {"v3 noted", "v1"} else b""
    if kind == "v1":
        head = b"\0\1" + bytes(8) + _str(note)
        return head + bytes(8) + struct.pack(">q", START_MS + 86_400_000), len(head)
    if kind.startswith("v3"):
        head = b"\0\3" + bytes(8) + b"\0\0\0\7" + _str(note)
        return head + bytes(8), len(head)
    head = b"\0\4" + bytes(8) + b"\0\0\0\7" + _compact(note)
    return head + bytes(8) + (b"\1\0\x10" + _topic_id(3) if kind.endswith("id") else b"\0"), len(head)


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
    family = FAMILIES[int(_family(groups[0]))].encode()
    rows = _tiled(struct.pack(">h", type_) + _str(family + b"00000") + rest, len(groups))
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
            key = _keys(1, groups[chosen], _str(TOPICS[t].encode()) + bytes(4))
            _put(key, key.shape[1] - 4, rng.integers(0, 12, len(chosen)), 4)
            base, stamp = _commit(name)
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
        rest = _str(b"consumer-00000000-7c1e-4f0e-9a61-0123456789ab") if of_member else b""
        key = _keys(2 if kind == "classic" else int(kind), groups[chosen], rest)
        if of_member:
            _digits(key, key.shape[1] - 36, groups[chosen] * 3 + member[chosen], 8)
        value = _tiled(_value(kind, v), len(chosen))
        if kind in {3, 6, 8, "classic"}:
            _put(value, 12 if kind == "classic" else 2, rng.integers(1, 1 << 20, len(chosen)), 4)
        made.add(which[chosen], key, value)


def chunk(partition: int, rows: int, seed: int) -> Chunk:
    """``rows`` records of one log partition; a few groups are busy, most are not."""
    rng = np.random.default_rng((seed, partition))
    own = np.array([g for g, home in enumerate(_homes()) if home == partition], np.int64)
    groups = own[(rng.random(rows) ** 2 * len(own)).astype(np.int64)]
    made = _Made(rows)
    for family in range(len(FAMILIES)):
        which = np.flatnonzero(_family(groups) == family)
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


def write_parquet(folder: Path, records: int, seed: int = 5) -> None:
    """The dump as ten files of five partitions each."""
    folder.mkdir(parents=True)
    writer: pq.ParquetWriter | None = None
    for made in chunks(records, seed):
        table = made.table()
        if made.partition % 5 == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(folder / f"dump-{made.partition // 5:02d}.parquet", table.schema)
        assert writer is not None
        writer.write_table(table)
    if writer is not None:
        writer.close()
