"""The winners of a partition that is read piece by piece."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from groupshift.errors import Rejected
from groupshift.spark.batches import records as module
from groupshift.spark.batches.records import latest_by_key

SCHEMA = pa.schema([("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
COMMIT = b"\0\1\0\1g\0\1t\0\0\0"


def pieces(keys: list[bytes | None], size: int) -> list[pa.RecordBatch]:
    """A record of each key in turn, ``size`` in a piece."""
    rows = [{"offset": at, "key": key, "value": b"%d" % at} for at, key in enumerate(keys)]
    return [pa.RecordBatch.from_pylist(rows[at : at + size], SCHEMA) for at in range(0, len(rows), size)]


def offsets(found: list[pa.RecordBatch]) -> list[int]:
    """What is left, values looked at too."""
    rows = [row for batch in found for row in batch.to_pylist()]
    assert all(row["value"] == b"%d" % row["offset"] for row in rows)
    return [row["offset"] for row in rows]


@pytest.mark.parametrize("at_first", [5, 1 << 18])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_the_newest_of_each_key_wins(monkeypatch: pytest.MonkeyPatch, at_first: int, size: int) -> None:
    """Whatever the pieces; also where winners are thinned out on the way."""
    monkeypatch.setattr(module, "_AT_FIRST", at_first)
    draw = random.Random(4)
    keys = [
        draw.choice([None, b"", b"\0", *(COMMIT + bytes([each]) for each in range(40))]) for _ in range(600)
    ]
    wanted = {key: at for at, key in enumerate(keys)}
    assert offsets(list(latest_by_key(pieces(keys, size)))) == sorted(wanted.values())


def test_types_0_and_1_are_the_same_commit() -> None:
    """But not other types with the same rest."""
    old, other = b"\0\0" + COMMIT[2:], b"\0\2" + COMMIT[2:]
    assert offsets(list(latest_by_key(pieces([COMMIT, other, old, old + b"1", None], 2)))) == [1, 2, 3, 4]


def test_an_empty_partition_has_no_winners() -> None:
    """Neither without pieces nor with empty ones."""
    empty = pa.RecordBatch.from_pylist([], SCHEMA)
    assert offsets(list(latest_by_key([]))) == offsets(list(latest_by_key([empty, empty]))) == []


def test_more_than_a_task_may_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do instead."""
    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    with pytest.raises(Rejected, match=r"more than a task may hold .*; read all records"):
        list(latest_by_key(pieces([b"%d" % at for at in range(50)], 10)))
