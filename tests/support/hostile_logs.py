"""Logs of strangers: batches of every format and codec, and coordinator records, spoiled and read."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from groupshift.audit.txnlog import parse
from groupshift.errors import Broken, Rejected
from groupshift.log.decode import LogRecord, decode, parse_assignment
from groupshift.spark.batches.coordinator_records import decoded_batches
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.headers import read_headers
from groupshift.spark.batches.records import read_records
from groupshift.spark.batches.transactions import resolve, transactions_in
from support import jute
from support.batch_encoder import APPEND_TIME, CODECS, Record, batch, marker, message_set
from support.classic_member import told_of
from support.coordinator_vectors import KEYS, VALUES
from support.kafka_answers import spoiled

RECORDS_AT_ONCE = 10
MEMORY_MIB = 256
PARTITIONS = 50


def endure(inputs: int) -> str:
    """Read ``inputs`` spoiled logs and records. Returns how many were read and how many refused.

    Raises whatever a reader raises but `Broken`, and AssertionError when one input takes more than a second
    or the process grows by more than 256 MiB."""
    chance = random.Random(7)
    logs = _logs()
    keys, values = [bytes.fromhex(key) for key in KEYS.values()], _values()
    _timed(lambda: [_read_log(log, check=True) for log in logs], limit_s=120)
    _decoded(chance, keys, values, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = refused = 0
    while read + refused < inputs:
        log = spoiled(chance.choice(logs), chance)
        good = _timed(lambda log=log: _read_log(log, check=chance.random() < 0.3))
        read, refused = read + good, refused + (not good)
        _timed(lambda: _decoded(chance, keys, values, RECORDS_AT_ONCE))
        read += RECORDS_AT_ONCE
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown <= MEMORY_MIB, f"it grew by {grown} MiB"
    return f"{read} {refused}"


def _timed(call: Callable[[], object], limit_s: float = 1.0) -> bool:
    began = time.monotonic()
    try:
        call()
    except Broken:
        return False
    finally:
        assert time.monotonic() - began <= limit_s
    return True


def _read_log(log: bytes, *, check: bool) -> None:
    """Headers, transactions and records of a log, as the jobs read them."""
    data = np.frombuffer(log, dtype=np.uint8)
    headers = read_headers(data, check=check)
    resolve([transactions_in(headers.table)])
    for part in read_records(data, headers.table, Origin(name="x.log")):
        len(part)


def _decoded(chance: random.Random, keys: list[bytes], values: list[bytes], count: int) -> None:
    """Coordinator records through the decoder in Python and the compiled one."""
    pairs = [(_maybe(keys, chance), _maybe(values, chance)) for _ in range(count)]
    for number, (key, value) in enumerate(pairs):
        decode(
            LogRecord(partition=0, offset=number, timestamp_ms=0, key=key, value=value), partitions=PARTITIONS
        )
    rows = {
        "partition": pa.array(np.zeros(count, dtype=np.int32)),
        "offset": pa.array(np.arange(count)),
        "timestamp_ms": pa.array(np.zeros(count, dtype=np.int64)),
        "key": pa.array([key for key, _ in pairs], pa.binary()),
        "value": pa.array([value for _, value in pairs], pa.binary()),
    }
    for _ in decoded_batches(pa.record_batch(rows), PARTITIONS):
        pass


def _maybe(known: list[bytes], chance: random.Random) -> bytes | None:
    if chance.random() < 0.05:
        return None
    one = chance.choice(known)
    return spoiled(one, chance) if chance.random() < 0.8 else one


def _values() -> list[bytes]:
    return [bytes.fromhex(text) for _, text in VALUES.values()]


def _logs() -> list[bytes]:
    records = [
        Record(
            offset=number,
            timestamp_ms=1_700_000_000_000 + number,
            key=bytes.fromhex(list(KEYS.values())[number % len(KEYS)]),
            value=_values()[number % len(VALUES)],
        )
        for number in range(20)
    ]
    sets = [
        batch(records, codec, producer=7, attributes=0x10) + marker(20, 7, commit=True) for codec in CODECS
    ]
    sets += [message_set(records, magic, codec) for magic in (0, 1) for codec in CODECS if codec != "zstd"]
    return [*sets, batch(records, attributes=APPEND_TIME), batch([], base=3, last=9)]


def endure_others(inputs: int) -> str:
    """ZooKeeper's transaction logs, and what members of classic groups tell the coordinator, spoiled.

    Returns how many were read and how many refused; raises whatever no caller expects."""
    chance = random.Random(9)
    kinds: list[tuple[Callable[[bytes], object], list[bytes], tuple[type[Exception], ...]]] = [
        (parse, [_transaction_log()], (Broken,)),
        (parse_assignment, [_ASSIGNMENT], (Rejected,)),
        (lambda blob: _read(assigned=blob), [_ASSIGNMENT], (ValueError,)),
        (lambda blob: _read(metadata=blob), [_SUBSCRIPTION], (ValueError,)),
    ]
    read = refused = 0
    for _ in range(inputs):
        reader, known, expected = chance.choice(kinds)
        try:
            _timed(lambda reader=reader, known=known: reader(spoiled(chance.choice(known), chance)))
            read += 1
        except expected:
            refused += 1
    return f"{read} {refused}"


def _read(**blob: bytes) -> None:
    """Raises ValueError for what tells no topics or partitions."""
    _, unread = told_of(**blob)
    if unread:
        raise ValueError(unread)


_ASSIGNMENT = bytes.fromhex("0001 00000002 0001 61 00000002 00000000 00000001 0003 626364 00000000 ffffffff")
_SUBSCRIPTION = bytes.fromhex("0001 00000002 0001 61 0003 626364 ffffffff 00000000")


def _transaction_log() -> bytes:
    """A log of ZooKeeper with three entries, one of them a multi."""
    multi = jute.multi((1, jute.create("/b")), (2, jute.delete("/c")))
    first, last = jute.entry(1, 1, jute.create("/a", b"x")), jute.entry(3, -11, jute.paths("/e"))
    return jute.log(first, jute.entry(2, 14, multi), last, padding=64)
